// The cache against a model of it that is a page long, over random executes; and its promise to
// allocate nothing.
#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"
#include "tests/unit/support/CountAllocations.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <tuple>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

/// One layer: which experts are in memory, oldest use first decides who leaves.
struct LayerModel {
  struct Use {
    uint64_t time;
    uint32_t rank;
    uint16_t slices; // That are in memory, or will be.
  };
  /// Pages of the copy that an expert has with so many slices.
  struct Pages {
    uint16_t lowCopySlices = 0;
    uint64_t low = 0, high = 0;
    uint64_t of(uint16_t slices) const { return slices <= lowCopySlices ? low : high; }
    bool areSame(uint16_t a, uint16_t b) const {
      return (a <= lowCopySlices) == (b <= lowCopySlices);
    }
  };
  std::vector<Pages> pages; // Per expert.
  uint64_t quota = 0, staging = 0;
  std::map<uint32_t, Use> held;
  uint64_t hits = 0, misses = 0, replaced = 0;

  uint64_t pagesOf(uint32_t expert) const { return pages[expert].of(held.at(expert).slices); }
  uint64_t sum(const Experts &experts) const {
    return std::accumulate(experts.begin(), experts.end(), uint64_t(0),
                           [&](uint64_t total, uint32_t e) { return total + pagesOf(e); });
  }
  uint64_t largest() const {
    uint64_t most = 0;
    for (const Pages &each : pages)
      most = std::max({most, each.low, each.high});
    return most;
  }

  void runPass(uint64_t time, const Experts &wanted, const std::vector<uint16_t> &slices) {
    std::map<uint32_t, Use> before = held;
    for (uint32_t rank = 0; rank < wanted.size(); ++rank) {
      const auto found = before.find(wanted[rank]);
      const uint16_t had = found == before.end() ? uint16_t(0) : found->second.slices,
                     has = std::max(had, slices[rank]);
      hits += had == has;
      misses += had < has;
      if (had > 0 && !pages[wanted[rank]].areSame(had, has)) { // Its copy is given up.
        before.erase(found);
        ++replaced;
      }
      held[wanted[rank]] = {time, rank, has};
    }
    Experts kept; // Who leaves first stands first.
    for (const auto &[expert, use] : held)
      if (pagesOf(expert) <= quota)
        kept.push_back(expert);
    std::sort(kept.begin(), kept.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(held[a].time, ~held[a].rank, a) <
             std::tuple(held[b].time, ~held[b].rank, b);
    });
    while (sum(kept) > quota)
      kept.erase(kept.begin());
    auto isKept = [&](uint32_t e) { return std::find(kept.begin(), kept.end(), e) != kept.end(); };
    uint64_t streamed = 0;
    for (uint32_t expert : wanted)
      streamed += !before.count(expert) && !isKept(expert);
    Experts staying; // Kept and in memory from the start.
    for (uint32_t expert : kept)
      if (before.count(expert))
        staying.push_back(expert);
    uint64_t room = std::min<uint64_t>(streamed, 2) * largest();
    uint64_t allowed = quota + staging > room ? quota + staging - room : 0;
    while (streamed > 0 && sum(staying) > allowed) {
      kept.erase(std::find(kept.begin(), kept.end(), staying.front()));
      staying.erase(staying.begin());
    }
    for (uint32_t expert : wanted) // The most popular first into what is left.
      if (!before.count(expert) && !isKept(expert) && sum(kept) + pagesOf(expert) <= quota)
        kept.push_back(expert);
    std::map<uint32_t, Use> after;
    for (uint32_t expert : kept)
      after[expert] = held[expert];
    held = after;
  }
};

} // namespace

/// Layer passes a layer holding up to `atOnce` experts at a time; the invariants hold all the
/// while.
static void executeLoosely(CacheUnderTest &test, uint32_t layer, const Experts &wanted,
                           const std::vector<uint16_t> &slices, size_t atOnce,
                           std::mt19937 &random) {
  ExpertCache &cache = *test.cache;
  uint64_t limit = test.layers[layer].quotaPages + test.config.stagingPages;
  REQUIRE(cache.beginLayer(layer, {.wanted = wanted, .slices = slices}).isOk());
  std::vector<int> inUse;
  std::vector<bool> seen(wanted.size());
  for (bool isOver = false; !isOver;) {
    Result<int> index = cache.nextReady();
    REQUIRE(index.status().message() == "");
    isOver = *index < 0;
    if (!isOver) {
      REQUIRE(!seen[static_cast<size_t>(*index)]);
      seen[static_cast<size_t>(*index)] = true;
      inUse.push_back(*index);
    }
    REQUIRE(cache.pagesHeld(layer) <= limit);
    while (inUse.size() >= atOnce || (isOver && !inUse.empty())) {
      std::swap(inUse[random() % inUse.size()], inUse.back());
      const auto place = static_cast<size_t>(inUse.back());
      const uint16_t present = cache.slicesOf(inUse.back());
      REQUIRE(present >= slices[place]);
      // Whatever was read meanwhile, the bytes in use are still this expert's.
      REQUIRE(test.model.shows(cache.bytes(inUse.back()), layer, wanted[place], present));
      REQUIRE(cache.release(inUse.back()).isOk());
      inUse.pop_back();
    }
  }
  REQUIRE(std::count(seen.begin(), seen.end(), true) == static_cast<long>(wanted.size()));
  REQUIRE(cache.endLayer().isOk());
}

TEST_CASE(
    "over random passes the cache holds what its model holds, in whatever order reads arrive") {
  uint64_t replaced = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const bool hasCopies = seed >= 60;
    uint32_t experts = 4 + random() % 12;
    uint64_t pageBlocks = uint64_t(1) << random() % 3;
    std::vector<std::vector<uint64_t>> sizes(3, std::vector<uint64_t>(experts));
    for (auto &layer : sizes)
      for (uint64_t &blocks : layer)
        blocks = seed % 2 ? 4 : 1 + random() % 8;
    FakeModel model(sizes, hasCopies ? copiesCut : nestedCut);
    FakeReadQueue queue(model.file, 1 + random() % 6);
    queue.choose = [&](size_t) { return random(); };
    std::vector<LayerModel> expected(3);
    std::vector<uint64_t> quotas;
    uint64_t staging = 8 + random() % 16; // Always a largest record, so that any quota works.
    for (size_t l = 0; l < 3; ++l) {
      quotas.push_back(random() % 3 == 0 ? 0 : random() % 40);
      expected[l].quota = quotas[l];
      expected[l].staging = staging;
      for (uint32_t expert = 0; expert < experts; ++expert) {
        const uint64_t blocks = sizes[l][expert], pages = (blocks + pageBlocks - 1) / pageBlocks;
        const RecordCut cut = hasCopies ? copiesCut(expert, blocks) : RecordCut();
        if (cut.lowCopySlices == 0) {
          expected[l].pages.push_back({0, 0, pages});
          continue;
        }
        const uint64_t lowEnd = cut.ends[cut.lowCopySlices - 1u];
        expected[l].pages.push_back({cut.lowCopySlices, (lowEnd + pageBlocks - 1) / pageBlocks,
                                     pages - lowEnd / pageBlocks});
      }
    }
    CacheUnderTest test(model, queue, quotas, staging, pageBlocks * kBlock);
    for (uint64_t time = 1; time <= 60; ++time) {
      uint32_t layer = random() % 3;
      queue.eager = random() % 3;
      Experts wanted = someExperts(random, experts, time % 7 == 0 ? experts : 4);
      std::vector<uint16_t> slices;
      for (uint32_t expert : wanted) {
        const uint16_t all = model.slicesOf(layer, expert);
        slices.push_back(hasCopies ? static_cast<uint16_t>(1 + random() % all) : all);
      }
      expected[layer].runPass(time, wanted, slices);
      // One record at a time always fits; two do while staging holds two of the largest.
      const uint64_t largest = expected[layer].largest();
      executeLoosely(test, layer, wanted, slices, staging >= 2 * largest ? 1 + random() % 2 : 1,
                     random);
      for (uint32_t l = 0; l < 3; ++l) {
        Experts held;
        for (const auto &[expert, use] : expected[l].held)
          held.push_back(expert);
        REQUIRE(test.readyIn(l) == held);
        REQUIRE(test.cache->pagesHeld(l) == expected[l].sum(held));
        REQUIRE(test.cache->pagesHeld(l) <= quotas[l]);
      }
    }
    uint64_t hits = 0, misses = 0;
    for (const LayerModel &layer : expected) {
      hits += layer.hits;
      misses += layer.misses;
    }
    CHECK(test.cache->totalCounts().hits == hits);
    CHECK(test.cache->totalCounts().misses == misses);
    for (const LayerModel &layer : expected)
      replaced += layer.replaced;
  }
  CHECK(replaced > 100);
}

static void checkThatNothingIsAllocated(RecordCut (*cutOf)(uint32_t, uint64_t)) {
  FakeModel model({std::vector<uint64_t>(16, 3), std::vector<uint64_t>(16, 3)}, cutOf);
  FakeReadQueue queue(model.file, 4);
  std::unique_ptr<ThreadPool> threads = ThreadPool::create(3).value();
  CacheUnderTest test(model, queue, {12, 6}, 6, kBlock, monotonicNs, {.baseSlices = 1}, false,
                      threads.get());
  std::mt19937 random(9);
  const std::vector<uint16_t> one(16, 1), all(16, 2);
  std::vector<Experts> wanted;
  for (int i = 0; i < 50; ++i)
    wanted.push_back(someExperts(random, 16, 16));
  uint64_t before = allocationsSoFar();
  bool isOk = true;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::span<const uint16_t> slices = i % 3 == 0 ? all : one;
    isOk = isOk &&
           test.cache
               ->beginLayer(i % 2, {.wanted = wanted[i], .slices = slices.first(wanted[i].size())})
               .isOk();
    for (int index; (index = test.cache->nextReady().value()) >= 0;)
      isOk = isOk && test.cache->release(index).isOk();
    isOk = isOk && test.cache->endLayer().isOk();
  }
  uint64_t after = allocationsSoFar();
  CHECK(isOk);
  CHECK(after == before);
}

TEST_CASE("layer passes allocate nothing") {
  checkThatNothingIsAllocated(nestedCut);
  checkThatNothingIsAllocated(copiesCut);
}

TEST_CASE("the stated cost of the tables covers what is allocated for them") {
  FakeModel model({std::vector<uint64_t>(64, 3), std::vector<uint64_t>(64, 7)}, copiesCut);
  FakeReadQueue queue(model.file, 4);
  std::unique_ptr<ThreadPool> threads = ThreadPool::create(3).value();
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
    for (uint8_t baseSlices : {0, 1}) {
      CAPTURE(int(sharing));
      CAPTURE(int(baseSlices));
      const CacheRules rules = {.sharing = sharing, .baseSlices = baseSlices};
      CacheUnderTest test(model, queue, {100, 60}, 14, kBlock, monotonicNs, rules, false,
                          threads.get());
      uint64_t before = allocatedBytesSoFar();
      Result<std::unique_ptr<ExpertCache>> made = ExpertCache::create(test.config, queue);
      uint64_t after = allocatedBytesSoFar();
      REQUIRE(made.isOk());
      CHECK(after > before);
      CHECK(after - before <= accountedTableBytes(test.config));
    }
}
