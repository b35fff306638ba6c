#include "api/internal.h"
#include "api/session_state.h"
#include "api/settings.h"
#include <twinrail/engine.h>

namespace twinrail {

// ---------------------------------------------------------------- Context

struct Context::Impl {
  std::shared_ptr<engine::Context> context;
};

Result<Context> Context::create(const ContextOptions& options) {
  if (options.max_sessions == 0)
    return Error{Code::invalid_argument, "max_sessions is 0; accepted: 1 or more"};
  if (Status status = options.rdma.validate(); !status) return status.error();
  engine::ContextSettings settings;
  settings.verbs = detail::verbs_of(options.rdma);
  settings.instance = options.instance;
  settings.max_sessions = options.max_sessions;
  settings.log = options.log;
  Context context;
  context.impl_ = std::make_shared<Impl>(Impl{std::make_shared<engine::Context>(std::move(settings))});
  return context;
}

std::uint64_t Context::instance() const { return impl_->context->self().instance; }

// ---------------------------------------------------------------- Engine

struct Engine::Impl {
  std::unique_ptr<engine::Loop> loop;
  // For stop() and post(), which may come from other threads.
  std::shared_ptr<engine::Inbox> inbox;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() {
  if (impl_) impl_->loop->end();  // handlers that hear of it may still look at this engine
}

Result<Engine> Engine::create(Context context,  // NOLINT(performance-unnecessary-value-param): a handle
                              const EngineOptions& options) {
  if (Status status = options.validate(); !status) return status.error();
  auto loop =
      engine::Loop::create(context.impl_->context, {static_cast<engine::Idle>(options.idle), options.cpu});
  if (!loop) return loop.error();
  auto impl = std::make_unique<Impl>();
  impl->loop = std::move(loop).value();
  impl->inbox = impl->loop->inbox();
  return Engine(std::move(impl));
}

Result<std::string> Engine::listen(const std::string& address, const ListenOptions& options,
                                   std::function<std::shared_ptr<Handler>(Session&)> make_handler) {
  if (Status status = options.session.validate(); !status) return status.error();
  engine::SessionSettings settings = detail::settings_of(options.session);
  if (options.max_ring_bytes < engine::kMinRingBytes)
    return Error{Code::invalid_argument,
                 "max_ring_bytes is " + std::to_string(options.max_ring_bytes) + "; accepted: 4096 or more"};
  settings.max_ring_bytes = std::min<std::uint64_t>(options.max_ring_bytes, engine::kMaxRingBytes);
  return impl_->loop->listen(address, settings,
                             [inbox = impl_->inbox, make_handler = std::move(make_handler)](
                                 const std::shared_ptr<engine::Session>& session) {
                               auto state = std::make_shared<detail::SessionState>(nullptr, inbox);
                               state->attach(session, session->core().send_ring().largest_payload());
                               if (make_handler) {
                                 Session handle = state->handle();
                                 state->set_handler(make_handler(handle));
                               }
                               return state;
                             });
}

Result<Session> Engine::connect(const std::string& address, const ConnectOptions& options,
                                std::shared_ptr<Handler> handler) {
  if (Status status = options.session.validate(); !status) return status.error();
  if (options.channel.size() > wire::kMaxChannelBytes)
    return Error{Code::invalid_argument, "the channel's name has " + std::to_string(options.channel.size()) +
                                             " bytes; accepted: at most " +
                                             std::to_string(wire::kMaxChannelBytes)};
  if (options.deadline.count() <= 0)
    return Error{Code::invalid_argument, "deadline is " + std::to_string(options.deadline.count()) +
                                             " ns; accepted: more than 0, nanoseconds::max() for none"};
  if (impl_->loop->ending()) return Error{Code::closed, "the engine is being destroyed"};
  auto where = rail::parse_host_port(address);
  if (!where) return where.error();
  if (where->host.empty() || where->port == 0)
    return Error{Code::invalid_argument, "'" + address + "' is no address to connect to: write HOST:PORT"};
  const engine::SessionSettings settings = detail::settings_of(options.session);
  auto state = std::make_shared<detail::SessionState>(std::move(handler), impl_->inbox);
  const engine::DialTarget target{address, std::move(where).value(), options.channel,
                                  later(monotonic_now(), options.deadline.count())};
  auto session = impl_->loop->prepare(target, settings, state);
  state->attach(session, static_cast<std::uint32_t>(wire::largest_payload(settings.send_ring_bytes)));
  session->connect();
  return state->handle();
}

bool Engine::poll() { return impl_->loop->turn(); }
void Engine::run() { impl_->loop->run(); }

bool Engine::run_until(const std::function<bool()>& done, std::chrono::nanoseconds deadline) {
  return impl_->loop->run_until(done, later(monotonic_now(), deadline.count()));
}

void Engine::stop() { impl_->loop->stop(); }
void Engine::post(std::function<void()> work) {
  (void)impl_->inbox->post([work = std::move(work)](engine::Loop&) { work(); });
}

bool Engine::drain(std::chrono::nanoseconds deadline) {
  engine::Loop& loop = *impl_->loop;
  // Not those that an application dials when it hears of an end: that would go on for ever.
  const std::size_t count = loop.sessions().size();
  for (std::size_t i = 0; i != count; ++i) {
    if (const auto client = loop.sessions()[i]->client()) static_cast<detail::SessionState&>(*client).close();
  }
  return loop.run_until([&] { return loop.idle_of_sessions(); }, later(monotonic_now(), deadline.count()));
}

// ---------------------------------------------------------------- behind the face

namespace detail {

engine::Hooks& Access::hooks(Context& context) { return context.impl_->context->hooks(); }
engine::Context& Access::context(Context& context) { return *context.impl_->context; }
engine::Loop& Access::loop(Engine& engine) { return *engine.impl_->loop; }

session::Core* Access::core(const Session& session) {
  engine::Session* of = session.state_->primary().engine_session();
  return of != nullptr && of->has_core() ? &of->core() : nullptr;
}

}  // namespace detail
}  // namespace twinrail
