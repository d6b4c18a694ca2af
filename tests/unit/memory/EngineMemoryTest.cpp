// Each owner takes as many pages as an account counts for it.
#include "runtime/memory/EngineMemory.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <vector>

using namespace moert;

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kTokens = 48, kPoolPages = 6000;

ModelFootprint model() {
  ModelFootprint footprint;
  footprint.residentBytes = 20 * kMiB + 5;
  footprint.kvBytesPerToken = 5120;
  footprint.stateBytes = 9000;
  footprint.arenaBytesPerToken = 400'000;
  footprint.attentionScratchBytes = 3 * kMiB;
  footprint.attentionScratchBytesPerContextToken = 64;
  footprint.logitsBytes = kMiB;
  footprint.pageBytes = 4096;
  return footprint;
}

const ProcessFootprint kProcess = {4 << 20, 1 << 20, 65536, 1 << 20, 4096, 2 << 20};

RunRequest request() {
  RunRequest request;
  request.contextTokens = 256;
  request.threads = 5;
  request.logitsRows = 17;
  request.sessions = 2;
  return request;
}

/// What the system has taken for the region.
uint64_t presentBytes(const ReservedRegion &region) {
  std::vector<unsigned char> present(region.bytes() / 4096);
  REQUIRE(mincore(region.data(), region.bytes(), present.data()) == 0);
  return 4096 * static_cast<uint64_t>(
                    std::ranges::count_if(present, [](unsigned char page) { return page & 1; }));
}

} // namespace

TEST_CASE("an engine takes from its ledger what the account has for each owner") {
  const MemoryAccount account = accountMemory(model(), kProcess, request(), kTokens, kPoolPages);
  Ledger ledger(account.totalBytes());
  const Reservation held = ledger.reserve("held before", account.heldBytes()).value();
  const EngineMemory memory =
      EngineMemory::create(ledger, model(), kProcess, request(), kTokens, kPoolPages).value();
  CHECK(ledger.used() == account.totalBytes());
  CHECK(memory.threads.bytes() == account.bytesOf(owners::kThreads));
  CHECK(memory.weights.bytes() == account.bytesOf(owners::kWeights));
  CHECK(memory.keysAndValues.bytes() == account.bytesOf(owners::kKvCache));
  CHECK(memory.states.bytes() == account.bytesOf(owners::kStates));
  CHECK(memory.step.arena.bytes() + memory.step.scratch.bytes() ==
        account.bytesOf(owners::kActivations));
  CHECK(memory.step.logits.bytes() == account.bytesOf(owners::kLogits));
  CHECK(memory.io.bytes() == account.bytesOf(owners::kIo));
  CHECK(memory.pageTables.bytes() == account.bytesOf(owners::kPageTables));
  CHECK(memory.pool.bytes() == account.bytesOf(owners::kExpertCache));
}

TEST_CASE("an engine whose account lacks a page is refused with the owner that finds none") {
  const MemoryAccount account = accountMemory(model(), kProcess, request(), kTokens, kPoolPages);
  Ledger ledger(account.loadedBytes() - 4096 * 10);
  const Status refused =
      EngineMemory::create(ledger, model(), kProcess, request(), kTokens, kPoolPages).status();
  CHECK(refused.message().starts_with("expert cache: "));
  CHECK(ledger.used() == 0);
}

TEST_CASE("each owner's pages are what its reservation counts") {
  Ledger ledger(UINT64_MAX);
  EngineMemory memory =
      EngineMemory::create(ledger, model(), kProcess, request(), kTokens, kPoolPages).value();
  for (const ReservedRegion *region :
       {&memory.step.arena, &memory.step.scratch, &memory.step.logits})
    CHECK(presentBytes(*region) == region->bytes());
  for (const ReservedRegion *region : {&memory.weights, &memory.pool}) {
    std::ranges::fill(region->span(), std::byte(1)); // As loading does.
    CHECK(presentBytes(*region) == region->bytes());
  }
}
