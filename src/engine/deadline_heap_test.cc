#include "engine/deadline_heap.h"

#include <map>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/seed.h"

namespace twinrail::engine {
namespace {

struct Node : HeapNode {};

TEST(DeadlineHeap, AnswersTheEarliestWhateverWasDone) {
  const std::uint64_t seed = testing::test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<Node> nodes(100);
  std::map<std::size_t, Nanos> model;
  DeadlineHeap<Node> heap;
  for (int step = 0; step != 20'000; ++step) {
    const std::size_t which = random.below(nodes.size());
    if (random.chance(300'000)) {
      heap.remove(nodes[which]);
      model.erase(which);
    } else {
      const Nanos due = random.chance(50'000) ? kNever : static_cast<Nanos>(random.below(1000));
      heap.set(nodes[which], due);
      if (due == kNever) {
        model.erase(which);
      } else {
        model[which] = due;
      }
    }
    Nanos earliest = kNever;
    for (const auto& [index, due] : model) earliest = std::min(earliest, due);
    ASSERT_EQ(heap.next(), earliest);
    ASSERT_EQ(heap.size(), model.size());
    ASSERT_EQ(nodes[which].in_heap(), model.count(which) != 0);
  }
  while (Node* first = heap.first()) heap.remove(*first);
}

}  // namespace
}  // namespace twinrail::engine
