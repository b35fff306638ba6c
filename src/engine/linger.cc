#include "engine/linger.h"

#include <cerrno>
#include <sys/socket.h>

#include "engine/loop.h"

namespace twinrail::engine {

Linger::Linger(Loop& loop, std::unique_ptr<rail::Rail> rail, rail::Descriptor socket)
    : loop_(loop),
      rail_(std::move(rail)),
      socket_(std::move(socket)),
      descriptor_(rail_ ? rail_->descriptor() : socket_.get()) {}

Linger::~Linger() {
  loop_.timers().remove(*this);
  loop_.poller().remove(entry_);
}

void Linger::start(Nanos now) {
  if (descriptor_ >= 0) entry_ = loop_.poller().add(descriptor_, {.read = false, .write = true}, *this);
  if (entry_ == 0) return end();
  loop_.timers().set(*this, now + kBound);
  ready(0, now);
}

void Linger::ready(unsigned /*tag*/, Nanos now) {
  if (done()) return;
  if (!said_all_) {
    if (rail_) (void)rail_->poll(now);
    if (rail_ && rail_->want_write()) return;
    shutdown(descriptor_, SHUT_WR);
    said_all_ = true;
    loop_.poller().change(entry_, {.read = true, .write = false});
  }
  std::byte ignored[4096];
  while (dropped_ < kMostBytes) {
    const ssize_t got = recv(descriptor_, ignored, sizeof ignored, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) break;
    dropped_ += static_cast<std::uint64_t>(got);
  }
  end();
}

void Linger::due(Nanos /*now*/) { end(); }

void Linger::end() {
  loop_.timers().remove(*this);
  loop_.poller().remove(entry_);
  finish();
  loop_.sweep_later();
}

}  // namespace twinrail::engine
