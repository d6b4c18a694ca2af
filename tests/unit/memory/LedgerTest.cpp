// Ledgers, reservations and regions: what is counted is what there is, and errors change nothing.
#include "runtime/memory/Ledger.h"

#include "tests/unit/support/FailAllocations.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <thread>
#include <utility>
#include <vector>

using namespace moert;

constexpr uint64_t kKiB = 1024;

TEST_CASE("a reservation is given back by its last owner") {
  Ledger ledger(100);
  {
    Reservation first = ledger.reserve("first", 60).value();
    Reservation second = std::move(first);
    CHECK(second.bytes() == 60);
    CHECK(first.bytes() == 0);
    CHECK(ledger.used() == 60);
    second = ledger.reserve("third", 10).value();
    CHECK(ledger.used() == 10);
    CHECK(second.resize(100).isOk());
    CHECK(second.resize(0).isOk());
    CHECK(second.resize(40).isOk());
    CHECK(ledger.used() == 40);
  }
  CHECK(ledger.used() == 0);
}

TEST_CASE("a refusal names the owner, what it asked for and what is left, and changes nothing") {
  Ledger ledger(10 * kKiB);
  Reservation cache = ledger.reserve("expert cache", 6 * kKiB).value();
  const Status refused = ledger.reserve("logits", 5 * kKiB).status();
  CHECK(refused.code() == StatusCode::kFailed);
  CHECK(refused.message() == "logits: 5120 bytes (5.00 KiB) of memory asked for, 4096 bytes "
                             "(4.00 KiB) of 10240 bytes (10.0 KiB) left");
  CHECK_FALSE(cache.resize(UINT64_MAX).isOk());
  CHECK(cache.bytes() == 6 * kKiB);
  CHECK(ledger.used() == 6 * kKiB);
  ledger.setCapacity(4 * kKiB); // What is reserved stays.
  CHECK_FALSE(cache.resize(7 * kKiB).isOk());
  CHECK(cache.resize(4 * kKiB).isOk());
}

TEST_CASE("reservations of several threads are never more than the capacity together") {
  Ledger ledger(1000);
  std::vector<std::thread> threads;
  std::atomic<bool> isOver = false;
  for (uint64_t number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      for (uint64_t i = 0; i < 2000; ++i) {
        Reservation reservation = ledger.reserve("a thread", 0).value();
        (void)reservation.resize(100 + (i * 7 + number * 131) % 500);
        isOver = isOver || ledger.used() > ledger.capacity();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK_FALSE(isOver);
  CHECK(ledger.used() == 0);
}

TEST_CASE(
    "a ledger that only counts grants any size, lists owners, and its regions have no memory") {
  std::vector<MemoryItem> items = {{"heap", 7, true}, {"logits"}, {"expert cache"}};
  {
    Ledger ledger(items);
    const ReservedRegion cache =
        ReservedRegion::create(ledger, "expert cache", uint64_t(1) << 60).value();
    const ReservedRegion rows = ReservedRegion::create(ledger, "logits", 1).value();
    const Reservation more = ledger.reserve("logits", 4).value();
    CHECK(cache.data() == nullptr);
    CHECK(cache.bytes() == uint64_t(1) << 60);
    CHECK(ledger.used() == 7 + (uint64_t(1) << 60) + 4096 + 4);
  }
  CHECK(items[0].bytes == 7);
  CHECK(items[1].bytes == 4096 + 4);
  CHECK(items[2].bytes == uint64_t(1) << 60);
}

TEST_CASE("a region that gets no memory leaves ledger, size and content as they were") {
  Ledger ledger(64 * kKiB);
  CHECK_FALSE(ReservedRegion::create(ledger, "arena", 65 * kKiB).isOk());
  for (uint64_t successes : {0, 1}) {
    const FailingAllocation failing(successes);
    CHECK(ReservedRegion::create(ledger, "arena", 8 * kKiB).status().code() == StatusCode::kFailed);
    CHECK(failing.failed() == (successes == 0 ? AllocationKind::kMap : AllocationKind::kPopulate));
    CHECK(ledger.used() == 0);
  }
  ReservedRegion region = ReservedRegion::create(ledger, "arena", 8 * kKiB).value();
  std::ranges::fill(region.span(), std::byte(7));
  const auto isUnchanged = [&] {
    return region.bytes() == 8 * kKiB && ledger.used() == 8 * kKiB &&
           std::ranges::all_of(region.span(), [](std::byte b) { return b == std::byte(7); });
  };
  for (uint64_t successes : {0, 1}) {
    const FailingAllocation failing(successes);
    CHECK(region.resize(32 * kKiB).code() == StatusCode::kFailed);
    CHECK(failing.failed() ==
          (successes == 0 ? AllocationKind::kRemap : AllocationKind::kPopulate));
    CHECK(isUnchanged());
  }
  CHECK(region.resize(65 * kKiB).message().starts_with("arena: "));
  CHECK(isUnchanged());
  REQUIRE(region.resize(64 * kKiB).isOk());
  CHECK(ledger.used() == ledger.capacity());
  CHECK(region.data()[0] == std::byte(7));
  REQUIRE(region.resize(4 * kKiB).isOk());
  CHECK(ledger.used() == 4 * kKiB);
}

TEST_CASE("what a region releases is others' to reserve, until it is taken back") {
  Ledger ledger(16 * kKiB);
  ReservedRegion region = ReservedRegion::create(ledger, "pool", 12 * kKiB).value();
  std::byte *const start = region.data();
  region.release(4 * kKiB);
  CHECK(ledger.used() == 4 * kKiB);
  CHECK(region.bytes() == 12 * kKiB);
  {
    const Reservation other = ledger.reserve("arena", 12 * kKiB).value();
    CHECK_FALSE(region.takeBack().isOk());
  }
  REQUIRE(region.takeBack().isOk());
  CHECK(ledger.used() == 12 * kKiB);
  CHECK(region.data() == start);
  region.leaveLedger();
  CHECK(ledger.used() == 0);
  CHECK(region.data() == start);
}
