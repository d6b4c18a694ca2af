#include "runtime/memory/MemoryFollower.h"

#include <doctest/doctest.h>

using namespace moert;

namespace {

constexpr uint64_t kMiB = 1 << 20, kSecond = MemoryFollower::kSecond;

MemorySignals bound(uint64_t mebibytes, std::optional<uint64_t> stalledNs = {}) {
  return {{mebibytes * kMiB, true}, stalledNs};
}

FollowedBudget budget(uint64_t mebibytes) {
  return {mebibytes * kMiB, mebibytes * kMiB - 1000, 20 * kMiB};
}

} // namespace

TEST_CASE("a bound below what is accounted is followed at once, down to the smallest budget") {
  MemoryFollower follower;
  CHECK_FALSE(follower.decide(bound(100), budget(100), 0).has_value());
  auto change = follower.decide(bound(60), budget(100), 1);
  REQUIRE(change.has_value());
  CHECK(change->bytes == 60 * kMiB);
  CHECK(change->reason == BudgetReason::kLimit);
  CHECK(follower.decide(bound(3), budget(60), 2)->bytes == 20 * kMiB);
  CHECK_FALSE(follower.decide(bound(3), {20 * kMiB, 20 * kMiB, 20 * kMiB}, 3).has_value());
}

TEST_CASE("a bound between what is accounted and the budget changes nothing") {
  MemoryFollower follower;
  CHECK_FALSE(follower.decide(bound(50), {100 * kMiB, 40 * kMiB, 20 * kMiB}, 0).has_value());
}

TEST_CASE("growing waits for a quiet second after the bound was followed down") {
  MemoryFollower follower;
  REQUIRE(follower.decide(bound(60), budget(100), 5 * kSecond).has_value());
  CHECK_FALSE(follower.decide(bound(100), budget(60), 6 * kSecond - 1).has_value());
  auto change = follower.decide(bound(100), budget(60), 6 * kSecond);
  REQUIRE(change.has_value());
  CHECK(change->reason == BudgetReason::kRoom);
}

TEST_CASE("growing takes steps of a sixty-fourth up to the bound") {
  MemoryFollower follower;
  uint64_t bytes = 64 * kMiB;
  for (int step = 0; step < 30; ++step) {
    const auto change = follower.decide(bound(100), {bytes, bytes - 1000, 20 * kMiB}, 0);
    REQUIRE(change.has_value());
    REQUIRE(change->reason == BudgetReason::kRoom);
    if (!change->isStep) {
      CHECK(change->bytes == 100 * kMiB);
      CHECK(change->bytes - bytes <= bytes / 64);
      return;
    }
    CHECK(change->bytes == bytes + bytes / 64);
    bytes = change->bytes;
  }
  FAIL("never reached the bound");
}

TEST_CASE("a step that is too small for another expert is followed by the next one") {
  MemoryFollower follower;
  const auto change = follower.decide(bound(200), {100 * kMiB, 89 * kMiB, 20 * kMiB}, 0);
  REQUIRE(change.has_value());
  CHECK(change->isStep);
}

TEST_CASE("a little more room, or room that is not needed, changes nothing") {
  MemoryFollower follower;
  CHECK_FALSE(follower.decide(bound(102), budget(100), 0).has_value());
  CHECK(follower.decide(bound(104), budget(100), 0).has_value());
  // Everything is in memory: the budget is not used up.
  CHECK_FALSE(follower.decide(bound(200), {100 * kMiB, 85 * kMiB, 20 * kMiB}, 0).has_value());
}

TEST_CASE("waiting for memory for a tenth of a second gives back an eighth of what can be") {
  MemoryFollower follower;
  CHECK_FALSE(follower.decide(bound(100, 0), budget(100), 0).has_value());
  CHECK_FALSE(follower.decide(bound(100, kSecond / 10), budget(100), kSecond).has_value());
  auto change = follower.decide(bound(100, 3 * kSecond / 10), budget(100), 2 * kSecond);
  REQUIRE(change.has_value());
  CHECK(change->reason == BudgetReason::kPressure);
  CHECK(change->bytes == 90 * kMiB - 875); // 1000 bytes are free, an eighth of them less.
  CHECK_FALSE(follower.decide(bound(100, 3 * kSecond / 10), budget(20), 3 * kSecond).has_value());
}

TEST_CASE("pressure before the first look, or within less than a window, says nothing") {
  MemoryFollower follower;
  CHECK_FALSE(follower.decide(bound(100, 50 * kSecond), budget(100), 0).has_value());
  CHECK_FALSE(follower.decide(bound(100, 51 * kSecond), budget(100), kSecond - 1).has_value());
  CHECK(follower.decide(bound(100, 51 * kSecond), budget(100), kSecond).has_value());
}

TEST_CASE("after pressure or a refusal nothing grows for ten seconds") {
  MemoryFollower follower;
  follower.decide(bound(100, 0), budget(100), 0);
  REQUIRE(follower.decide(bound(100, kSecond), budget(100), kSecond).has_value());
  CHECK_FALSE(follower.decide(bound(100, kSecond), budget(90), 11 * kSecond - 1).has_value());
  CHECK(follower.decide(bound(100, kSecond), budget(90), 11 * kSecond).has_value());
  follower.refused(11 * kSecond);
  CHECK_FALSE(follower.decide(bound(100, kSecond), budget(90), 21 * kSecond - 1).has_value());
  CHECK(follower.decide(bound(100, kSecond), budget(90), 21 * kSecond).has_value());
}
