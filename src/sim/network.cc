#include "sim/network.h"

#include <cerrno>
#include <cstring>

namespace twinrail::sim {

// One TCP connection as the two kernels see it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(Network& network) : network_(network) {}

  rail::IoResult write(int side, std::span<const iovec> pieces);
  rail::IoResult read(int side, std::span<const iovec> pieces);
  void close(int side);
  void break_end(int side);
  void stick() { stuck_ = true; }
  void kick(int from_side);
  [[nodiscard]] bool over() const { return ends_[0].gone() && ends_[1].gone(); }

 private:
  // Bytes [head, arrived) wait to be read; behind them is what the sender's kernel holds or the network carries.
  struct Pipe {
    std::vector<std::byte> bytes;
    std::size_t head = 0;
    std::size_t arrived = 0;
    bool moving = false;
    bool end_sent = false;
    bool end_arrived = false;
    [[nodiscard]] bool waits() const { return arrived != bytes.size() || (end_sent && !end_arrived); }
  };
  struct End {
    bool closed = false;
    bool broken = false;
    [[nodiscard]] bool gone() const { return closed || broken; }
  };

  [[nodiscard]] bool passes(int from_side) const { return !stuck_ && !network_.hole_[from_side]; }
  [[nodiscard]] std::size_t chosen(std::size_t most);
  void move(int from_side);
  void send_reset(int to_side);

  Network& network_;
  Pipe pipes_[2];  // by the side that writes
  End ends_[2];
  bool stuck_ = false;
};

namespace {

rail::IoResult failed(int error) { return {.status = rail::IoResult::Status::error, .error = error}; }

}  // namespace

std::size_t Connection::chosen(std::size_t most) {
  Context& context = network_.context_;
  return context.percent(network_.plan_.partial_percent) ? 1 + context.random.below(most) : most;
}

rail::IoResult Connection::write(int side, std::span<const iovec> pieces) {
  if (ends_[side].gone()) return failed(ends_[side].closed ? EPIPE : ECONNRESET);
  Pipe& pipe = pipes_[side];
  const std::size_t waiting = pipe.bytes.size() - pipe.arrived;
  if (waiting >= network_.plan_.send_buffer) return {rail::IoResult::Status::would_block};
  std::size_t room = chosen(network_.plan_.send_buffer - waiting);
  std::size_t taken = 0;
  for (const iovec& piece : pieces) {
    const std::size_t part = std::min(piece.iov_len, room);
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    pipe.bytes.insert(pipe.bytes.end(), from, from + part);
    taken += part;
    room -= part;
    if (room == 0) break;
  }
  kick(side);
  if (taken == 0) return {rail::IoResult::Status::would_block};
  return {.bytes = taken};
}

rail::IoResult Connection::read(int side, std::span<const iovec> pieces) {
  if (ends_[side].closed) return failed(EBADF);
  Pipe& pipe = pipes_[1 - side];
  const std::size_t readable = pipe.arrived - pipe.head;
  if (readable == 0) {
    if (ends_[side].broken) return failed(ECONNRESET);
    if (pipe.end_arrived) return {rail::IoResult::Status::closed};
    return {rail::IoResult::Status::would_block};
  }
  std::size_t left = chosen(readable);
  std::size_t read = 0;
  for (const iovec& piece : pieces) {
    const std::size_t part = std::min(piece.iov_len, left);
    if (part == 0) continue;
    std::memcpy(piece.iov_base, pipe.bytes.data() + pipe.head, part);
    pipe.head += part;
    network_.user_.stream_wrote(side, static_cast<const std::byte*>(piece.iov_base), part);
    read += part;
    left -= part;
  }
  if (pipe.head == pipe.bytes.size()) {
    pipe.bytes.clear();
    pipe.head = pipe.arrived = 0;
  }
  kick(1 - side);
  if (read == 0) return {rail::IoResult::Status::would_block};
  return {.bytes = read};
}

// As a kernel does: what was written still goes out, unless something arrived that nobody read: then it is a reset.
void Connection::close(int side) {
  End& end = ends_[side];
  if (end.closed) return;
  const bool reset = pipes_[1 - side].arrived != pipes_[1 - side].head && network_.context_.percent(50);
  const bool was_broken = std::exchange(end.closed, true) || end.broken;
  if (was_broken) return;
  if (reset) return send_reset(1 - side);
  pipes_[side].end_sent = true;
  kick(side);
}

void Connection::break_end(int side) {
  End& end = ends_[side];
  if (end.gone()) return;
  end.broken = true;
  Pipe& in = pipes_[1 - side];
  if (network_.context_.percent(50)) in.head = in.arrived;  // some kernels drop what was not read
  network_.user_.stream_ready(side);
}

void Connection::send_reset(int to_side) {
  if (!passes(1 - to_side)) return;  // lost; nobody repeats a reset
  network_.context_.scheduler.after(network_.draw_delay(),
                                    [self = shared_from_this(), to_side] { self->break_end(to_side); });
}

void Connection::kick(int from_side) {
  Pipe& pipe = pipes_[from_side];
  if (pipe.moving || !pipe.waits() || !passes(from_side)) return;
  const bool full = pipe.arrived - pipe.head >= network_.plan_.receive_buffer;
  if (full && !ends_[1 - from_side].gone()) return;
  pipe.moving = true;
  network_.context_.scheduler.after(network_.draw_delay(),
                                    [self = shared_from_this(), from_side] { self->move(from_side); });
}

void Connection::move(int from_side) {
  Pipe& pipe = pipes_[from_side];
  const int to_side = 1 - from_side;
  pipe.moving = false;
  if (!passes(from_side) || ends_[from_side].broken) return;
  if (ends_[to_side].gone()) {
    pipe.bytes.resize(pipe.arrived);
    if (!ends_[from_side].gone()) send_reset(from_side);
    return;
  }
  const std::size_t room =
      network_.plan_.receive_buffer - std::min(network_.plan_.receive_buffer, pipe.arrived - pipe.head);
  const std::size_t waiting = pipe.bytes.size() - pipe.arrived;
  if (waiting != 0 && room != 0) pipe.arrived += std::min(chosen(waiting), room);
  if (pipe.end_sent && pipe.arrived == pipe.bytes.size()) pipe.end_arrived = true;
  network_.user_.stream_ready(to_side);
  network_.user_.stream_ready(from_side);
  kick(from_side);
}

// ---------------------------------------------------------------- the stream

class SimStream final : public rail::ByteStream {
 public:
  SimStream(std::shared_ptr<Connection> connection, int side)
      : connection_(std::move(connection)), side_(side) {}
  ~SimStream() override { connection_->close(side_); }
  rail::IoResult write(std::span<const iovec> pieces) override { return connection_->write(side_, pieces); }
  rail::IoResult read(std::span<const iovec> pieces) override { return connection_->read(side_, pieces); }
  void close() override { connection_->close(side_); }
  [[nodiscard]] std::string description() const override { return side_ == 0 ? "A-B" : "B-A"; }

 private:
  std::shared_ptr<Connection> connection_;
  int side_;
};

// ---------------------------------------------------------------- the network

Nanos Network::draw_delay() {
  Nanos delay = context_.between(plan_.delay_ns / 2, plan_.delay_ns * 2);
  if (context_.percent(1)) delay *= 10;
  return slow_ ? delay * 20 : delay;
}

std::shared_ptr<Connection> Network::make() {
  auto connection = std::make_shared<Connection>(*this);
  connections_.push_back(connection);
  return connection;
}

std::vector<std::shared_ptr<Connection>> Network::present() {
  std::vector<std::shared_ptr<Connection>> present;
  std::vector<std::weak_ptr<Connection>> kept;
  for (const auto& weak : connections_) {
    auto connection = weak.lock();
    if (!connection || connection->over()) continue;
    kept.push_back(weak);
    present.push_back(std::move(connection));
  }
  connections_.swap(kept);
  return present;
}

std::pair<Network::Stream, Network::Stream> Network::connected() {
  auto connection = make();
  return {std::make_unique<SimStream>(connection, 0), std::make_unique<SimStream>(connection, 1)};
}

void Network::dial(Connected accepted, Connected answered) {
  if (hole_[0] || (hole_[1] && context_.percent(50))) return;  // the first packet is lost
  context_.scheduler.after(
      draw_delay(), [this, accepted = std::move(accepted), answered = std::move(answered)] {
        const bool answer = !hole_[1];
        if (refusing_) {
          if (answer) context_.scheduler.after(draw_delay(), [answered] { answered(nullptr); });
          return;
        }
        auto connection = make();
        accepted(std::make_unique<SimStream>(connection, 1));
        if (!answer) return;
        context_.scheduler.after(
            draw_delay(), [connection, answered] { answered(std::make_unique<SimStream>(connection, 0)); });
      });
}

void Network::set_hole(int from_side, bool on) {
  hole_[from_side] = on;
  if (on) return;
  for (const auto& connection : present()) connection->kick(from_side);
}

void Network::stick_present() {
  for (const auto& connection : present()) connection->stick();
}

void Network::reset_present(int side, bool both) {
  for (const auto& connection : present()) {
    connection->break_end(side);
    if (!both) continue;
    context_.scheduler.after(draw_delay() * 4, [connection, side] { connection->break_end(1 - side); });
  }
}

}  // namespace twinrail::sim
