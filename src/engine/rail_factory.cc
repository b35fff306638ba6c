#include "engine/rail_factory.h"

#include <sys/eventfd.h>

#include "rail/shm/setup.h"

namespace twinrail::engine {
namespace {

class ShmRailSetup final : public RailSetup {
 public:
  explicit ShmRailSetup(RailRequest request)
      : request_(std::move(request)), cancel_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

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

  void cancel() override {
    const std::uint64_t one = 1;
    (void)!write(cancel_.get(), &one, sizeof one);
  }

  [[nodiscard]] bool waits() const override { return request_.role == session::Role::acceptor; }

 private:
  static RailMade made(rail::ShmSetup setup) {
    if (setup.link == nullptr) return {nullptr, std::move(setup.failure)};
    // std::function wants copies; the link goes to the rail that is made, once.
    auto link = std::make_shared<std::unique_ptr<rail::ShmLink>>(std::move(setup.link));
    return {[link](ring::ReceiveRing& receive) { return rail::make_shm_rail(std::move(*link), receive); },
            {}};
  }

  const RailRequest request_;
  const rail::Descriptor cancel_;
};

}  // namespace

std::shared_ptr<RailSetup> begin_rail(RailRequest request) {
  switch (request.kind) {
    case rail::Kind::shm:
      return std::make_shared<ShmRailSetup>(std::move(request));
    case rail::Kind::tcp:
    case rail::Kind::verbs:
      break;
  }
  return nullptr;
}

}  // namespace twinrail::engine
