#include "runtime/memory/MemoryBudget.h"

#include <doctest/doctest.h>

using namespace moert;

static ModelFootprint model() {
  ModelFootprint footprint;
  footprint.residentBytes = 10 << 20;
  footprint.kvBytesPerToken = 5120;
  footprint.arenaBytesPerToken = 30000;
  footprint.logitsBytes = 16384;
  footprint.pageBytes = 8192;
  footprint.expertPayloadBytes = uint64_t(10) * 32 * 20736;
  footprint.cache.layers.assign(10,
                                {32, 4, 3, 12, 96}); // 32 records of 3 pages, 4 of them at a time.
  return footprint;
}

static const ProcessFootprint kProcess = {4 << 20, 1 << 20, 65536, 1 << 20, 4096, 2 << 20};
static const RunRequest kRequest = {256, std::nullopt, 128, 2, 1, 0};

TEST_CASE("the smallest budget is accepted and one byte less is refused") {
  uint64_t smallest = smallestAccount(model(), kProcess, kRequest).totalBytes();
  REQUIRE(accountForBudget(model(), kProcess, kRequest, {smallest, {}}));
  CHECK(accountForBudget(model(), kProcess, kRequest, {smallest, {}})->poolPages == 3);
  CHECK_FALSE(accountForBudget(model(), kProcess, kRequest, {smallest - 1, {}}));
}

TEST_CASE("no account exceeds its budget, and one page more would") {
  uint64_t smallest = smallestAccount(model(), kProcess, kRequest).totalBytes();
  for (uint64_t extra = 0; extra < (12u << 20); extra += 77777) {
    auto account = accountForBudget(model(), kProcess, kRequest, {smallest + extra, {}});
    REQUIRE(account);
    CHECK(account->totalBytes() <= smallest + extra);
    if (account->poolPages == largestPoolPages(model().cache))
      continue;
    MemoryAccount more =
        accountMemory(model(), kProcess, kRequest, account->prefillChunk, account->poolPages + 1);
    CHECK(more.totalBytes() > smallest + extra);
  }
}

TEST_CASE("a percentage counts expert bytes on top of everything else") {
  auto quarter = accountForBudget(model(), kProcess, kRequest, {0, 0.25});
  REQUIRE(quarter);
  CHECK(quarter->poolPages == uint64_t(10) * 32 * 20736 / 4 / 8192);
  CHECK(quarter->prefillChunk == 128);
  CHECK_FALSE(accountForBudget(model(), kProcess, kRequest, {0, 0.001}));
}

TEST_CASE("100% of the expert bytes is enough for every record with its padding") {
  auto all = accountForBudget(model(), kProcess, kRequest, {0, 1.0});
  REQUIRE(all);
  CHECK(all->poolPages == 10 * 32 * 3); // Payloads alone: 810 pages.
  CHECK(accountForBudget(model(), kProcess, kRequest, {0, 0.99})->poolPages == 801);
}

TEST_CASE("a requested chunk is kept at any cost") {
  RunRequest request = kRequest;
  request.prefillChunk = 64;
  uint64_t smallest = smallestAccount(model(), kProcess, request).totalBytes();
  CHECK(accountForBudget(model(), kProcess, request, {smallest, {}})->prefillChunk == 64);
  CHECK_FALSE(accountForBudget(model(), kProcess, request, {smallest - 1, {}}));
}
