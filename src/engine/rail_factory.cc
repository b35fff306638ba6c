#include "engine/rail_factory.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "rail/shm/setup.h"

namespace twinrail::engine {
namespace {

constexpr std::uint32_t bit_of(rail::Kind kind) { return 1u << static_cast<unsigned>(kind); }

// What set-ups of every kind have in common.
class CancellableSetup : public RailSetup {
 public:
  explicit CancellableSetup(RailRequest request)
      : request_(std::move(request)), cancel_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  void cancel() override {
    const std::uint64_t one = 1;
    (void)!write(cancel_.get(), &one, sizeof one);
  }

 protected:
  const RailRequest request_;
  const rail::Descriptor cancel_;
};

class ShmRailSetup final : public CancellableSetup {
 public:
  using CancellableSetup::CancellableSetup;

  RailMade run(const std::function<void(std::vector<std::byte>)>& listening) override {
    const rail::ShmParameters parameters{request_.session,    request_.epoch,         request_.send_memory,
                                         request_.send_bytes, request_.receive_bytes, request_.may_sleep};
    const rail::ShmWait wait{request_.deadline, cancel_.get()};
    if (request_.role == session::Role::dialler)
      return made(rail::connect_shm(request_.peer_blob, parameters, wait));
    auto listener = rail::ShmListener::open();
    if (!listener) return {nullptr, {Reason::setup_failed, listener.error().message}};
    listening(listener->blob());
    return made(listener->accept(parameters, wait));
  }

  [[nodiscard]] Worker::Lane lane() const override {
    return request_.role == session::Role::acceptor ? Worker::Lane::waiting : Worker::Lane::quick;
  }

 private:
  static RailMade made(rail::ShmSetup setup) {
    if (setup.link == nullptr) return {nullptr, std::move(setup.failure)};
    // std::function wants copies; the link goes to the rail that is made, once.
    auto link = std::make_shared<std::unique_ptr<rail::ShmLink>>(std::move(setup.link));
    return {[link](const ring::SendRing&, ring::ReceiveRing& receive) {
              return rail::make_shm_rail(std::move(*link), receive);
            },
            {}};
  }
};

#ifdef TWINRAIL_HAVE_VERBS
class VerbsRailSetup final : public CancellableSetup {
 public:
  using CancellableSetup::CancellableSetup;

  RailMade run(const std::function<void(std::vector<std::byte>)>& listening) override {
    const rail::VerbsParameters parameters{
        request_.epoch,         request_.send_memory, request_.send_bytes, request_.receive_memory,
        request_.receive_bytes, request_.may_sleep,   request_.verbs,      request_.receive_pools};
    const rail::VerbsWait wait{request_.deadline, cancel_.get()};
    if (request_.role == session::Role::dialler)
      return made(rail::connect_verbs(request_.peer_blob, parameters, wait));
    rail::Failure failure;
    const auto listener = rail::VerbsListener::open(request_.verbs, failure);
    if (listener == nullptr) return {nullptr, std::move(failure)};
    listening(listener->blob());
    return made(listener->accept(parameters, wait));
  }

  // A dialler asks the path and the peer's connection manager, and either may not answer.
  [[nodiscard]] Worker::Lane lane() const override {
    return request_.role == session::Role::acceptor ? Worker::Lane::waiting : Worker::Lane::dialling;
  }

 private:
  static RailMade made(rail::VerbsSetup setup) {
    if (setup.link == nullptr) return {nullptr, std::move(setup.failure)};
    auto made = std::make_shared<rail::VerbsSetup>(std::move(setup));
    return {[made](const ring::SendRing& send, ring::ReceiveRing& receive) {
              return rail::make_verbs_rail(std::move(*made), send, receive);
            },
            {}};
  }
};
#endif

}  // namespace

std::shared_ptr<RailSetup> begin_rail(RailRequest request) {
  switch (request.kind) {
    case rail::Kind::shm:
      return std::make_shared<ShmRailSetup>(std::move(request));
    case rail::Kind::verbs:
#ifdef TWINRAIL_HAVE_VERBS
      return std::make_shared<VerbsRailSetup>(std::move(request));
#endif
    case rail::Kind::tcp:
      break;
  }
  return nullptr;
}

#ifdef TWINRAIL_HAVE_VERBS
std::uint32_t rails_worth_offering() {
  const bool device = access("/dev/infiniband/rdma_cm", F_OK) == 0;
  return bit_of(rail::Kind::shm) | (device ? bit_of(rail::Kind::verbs) : 0);
}

rail::Failure why_no_rail(rail::Kind kind, const rail::VerbsOptions& verbs) {
  return kind == rail::Kind::verbs ? rail::why_no_verbs(verbs) : rail::Failure{};
}

std::shared_ptr<rail::ReceivePools> make_receive_pools() { return rail::make_receive_pools(); }
std::vector<std::string> describe_devices() { return rail::describe_verbs_devices(); }
#else
std::uint32_t rails_worth_offering() { return bit_of(rail::Kind::shm); }

rail::Failure why_no_rail(rail::Kind kind, const rail::VerbsOptions&) {
  if (kind != rail::Kind::verbs) return {};
  return {Reason::not_offered,
          "this build has no verbs rail: install libibverbs-dev and librdmacm-dev and build again"};
}

std::shared_ptr<rail::ReceivePools> make_receive_pools() { return nullptr; }
std::vector<std::string> describe_devices() { return {}; }
#endif

}  // namespace twinrail::engine
