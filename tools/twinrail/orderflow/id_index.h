// Map from order id to node number: open addressing with linear probing, no allocation except when it grows.
//
// Thread: one.
// Cost:   find, insert and erase touch one or two cache lines; at most half of the slots are in use.
// Source: deletion by shifting back, Knuth, The Art of Computer Programming 3, section 6.4, algorithm R.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace twinrail::orderflow {

class IdIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  explicit IdIndex(std::size_t expected) {
    resize(std::bit_ceil(expected < 8 ? std::size_t{16} : expected * 2));
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] std::uint32_t find(std::uint64_t id) const {
    for (std::size_t i = home_of(id);; i = (i + 1) & mask_) {
      if (slots_[i].node == kNone) return kNone;
      if (slots_[i].id == id) return slots_[i].node;
    }
  }

  // `id` is not in the map yet, `node` is not kNone.
  void insert(std::uint64_t id, std::uint32_t node) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    place(id, node);
    ++size_;
  }

  // Takes `id` out; a no-op where it is not in.
  void erase(std::uint64_t id) {
    std::size_t hole = home_of(id);
    while (slots_[hole].node != kNone && slots_[hole].id != id) hole = (hole + 1) & mask_;
    if (slots_[hole].node == kNone) return;
    for (std::size_t i = (hole + 1) & mask_; slots_[i].node != kNone; i = (i + 1) & mask_) {
      // An entry may move to the hole unless its home lies behind the hole.
      if (((i - home_of(slots_[i].id)) & mask_) >= ((i - hole) & mask_)) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole].node = kNone;
    --size_;
  }

 private:
  struct Slot {
    std::uint64_t id = 0;
    std::uint32_t node = kNone;
  };

  // Multiplying by 2^64 / golden ratio spreads the usual consecutive ids evenly.
  [[nodiscard]] std::size_t home_of(std::uint64_t id) const {
    return static_cast<std::size_t>((id * 0x9e3779b97f4a7c15u) >> shift_);
  }

  void place(std::uint64_t id, std::uint32_t node) {
    std::size_t i = home_of(id);
    while (slots_[i].node != kNone) i = (i + 1) & mask_;
    slots_[i] = {id, node};
  }

  void resize(std::size_t capacity) {
    slots_.assign(capacity, Slot{});
    mask_ = capacity - 1;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(capacity));
  }

  void grow() {
    std::vector<Slot> old;
    old.swap(slots_);
    resize(old.size() * 2);
    for (const Slot& slot : old) {
      if (slot.node != kNone) place(slot.id, slot.node);
    }
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  unsigned shift_ = 0;
  std::size_t size_ = 0;
};

}  // namespace twinrail::orderflow
