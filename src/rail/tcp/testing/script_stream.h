// Purpose: a ByteStream for tests: what the rail reads is put in by hand, what it writes is kept.
// Thread: one owner.
#pragma once

#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "rail/tcp/stream.h"

namespace twinrail::rail::testing {

/// What both ends of the test see. Bytes to read are handed out at most `read_limit` a call; `write_room`
/// bytes are accepted until it is raised again.
struct Script {
  std::vector<std::byte> to_read;
  std::size_t read_at = 0;
  std::vector<std::byte> written;
  std::size_t read_limit = std::numeric_limits<std::size_t>::max();
  std::size_t write_room = std::numeric_limits<std::size_t>::max();
  std::size_t reads = 0;
  std::size_t writes = 0;
  bool ended = false;   // the peer's end: reading answers closed when all was read
  int write_error = 0;  // an errno that every write answers
  bool closed = false;  // close() was called

  [[nodiscard]] std::size_t left() const { return to_read.size() - read_at; }
  void feed(std::span<const std::byte> bytes) { to_read.insert(to_read.end(), bytes.begin(), bytes.end()); }
};

class ScriptStream final : public ByteStream {
 public:
  explicit ScriptStream(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  IoResult write(std::span<const iovec> pieces) override {
    ++script_->writes;
    if (script_->write_error != 0) return {.status = IoResult::Status::error, .error = script_->write_error};
    std::size_t bytes = 0;
    for (const iovec& piece : pieces) {
      const std::size_t part = std::min(piece.iov_len, script_->write_room);
      const auto* from = static_cast<const std::byte*>(piece.iov_base);
      script_->written.insert(script_->written.end(), from, from + part);
      script_->write_room -= part;
      bytes += part;
    }
    if (bytes == 0) return {.status = IoResult::Status::would_block};
    return {.bytes = bytes};
  }

  IoResult read(std::span<const iovec> pieces) override {
    ++script_->reads;
    if (script_->left() == 0)
      return {.status = script_->ended ? IoResult::Status::closed : IoResult::Status::would_block};
    std::size_t left = std::min(script_->read_limit, script_->left());
    std::size_t bytes = 0;
    for (const iovec& piece : pieces) {
      const std::size_t part = std::min(piece.iov_len, left);
      if (part != 0) std::memcpy(piece.iov_base, script_->to_read.data() + script_->read_at, part);
      script_->read_at += part;
      left -= part;
      bytes += part;
    }
    return {.bytes = bytes};
  }

  void close() override { script_->closed = true; }
  [[nodiscard]] std::string description() const override { return "script"; }

 private:
  std::shared_ptr<Script> script_;
};

}  // namespace twinrail::rail::testing
