// The machine with a driver that does everything at random: how long reads take, which of them
// fail, when experts are released, when a layer pass is abandoned.
#include "runtime/policy/CacheMachine.h"

#include "tests/unit/policy/AllCacheRules.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <numeric>
#include <random>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

constexpr uint32_t kLayers = 5;
constexpr CacheReadLimits kLimits{4, 2};
constexpr uint64_t kPageBytes = 1024;
constexpr uint16_t kSlices = 3;

struct RandomDriver {
  /// Some experts have separate copies, if there are any.
  RandomDriver(const CacheRules &rules, uint32_t seed, bool withCopies)
      : random(seed), hasCopies(withCopies), experts(4 + random() % 8),
        machine(directory(rules), kLimits), pages(machine.state().size().experts) {}

  /// Slices end within pages, too.
  CacheDirectory directory(const CacheRules &rules) {
    // Without staging pages, quotas hold the largest record.
    const uint64_t stagingPages = random() % 4 == 0 ? 0 : 5 + random() % 12;
    poolPages = stagingPages;
    CacheDirectory made(rules, stagingPages, {});
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const uint64_t quotaPages = (stagingPages == 0 ? 5 : 0) + random() % 16;
      poolPages += quotaPages;
      made.addLayer(quotaPages);
      for (uint32_t expert = 0; expert < experts; ++expert) {
        std::array<uint64_t, kSlices> ends{512 * (1 + random() % 3)};
        for (size_t slice = 1; slice < kSlices; ++slice)
          ends[slice] = ends[slice - 1] + 512 * (1 + random() % 3);
        const uint32_t copies = hasCopies ? random() % kSlices : 0;
        made.addExpert(ends, kPageBytes, static_cast<uint16_t>(copies));
      }
    }
    return made;
  }

  /// Pages are given with the slices that are read, and taken back with those that leave.
  void act() {
    const CacheDirectory &state = machine.state();
    while (const std::optional<CacheAction> action = machine.next()) {
      const uint32_t id = action->id;
      const uint16_t first = machine.at(id).unit.firstOf(action->endSlice);
      const bool isFirst = action->firstSlice <= first; // Nothing of its copy was there.
      const uint32_t before = isFirst ? 0 : state.pagesFor(id, action->firstSlice),
                     after = state.pagesFor(id, action->endSlice);
      REQUIRE(action->firstSlice < action->endSlice);
      REQUIRE(pages[id] == (action->isRead ? before : after));
      pages[id] = action->isRead ? after : before;
      parts += !action->isRead && action->firstSlice > 0;
      if (!action->isRead)
        continue;
      REQUIRE(action->firstSlice >= first);
      begun.push_back(id);
      bytesRead += state.bytesOf(id, action->firstSlice, action->endSlice);
      upgrades += !isFirst;
      highCopies += isFirst && first > 0;
    }
    check();
  }

  void check() const {
    REQUIRE(machine.state().forbiddenEvents() == 0);
    REQUIRE(std::accumulate(pages.begin(), pages.end(), uint64_t(0)) <= poolPages);
    size_t reading = 0, prefetching = 0;
    for (uint32_t id = 0; id < pages.size(); ++id) {
      const UnitState state = machine.at(id).unit.state;
      REQUIRE(pages[id] == machine.state().pagesHeldBy(id));
      REQUIRE((pages[id] > 0) == (ownerOf(state) != PageOwner::kNobody));
      reading += isBeingRead(state);
      prefetching += isBeingRead(state) && !isDemandedRead(state);
      if (!machine.state().isPassOpen())
        REQUIRE((state != UnitState::kQueued && state != UnitState::kLacking &&
                 state != UnitState::kInUse));
    }
    REQUIRE(reading == begun.size());
    REQUIRE(reading == machine.readsUnderWay());
    REQUIRE(reading <= kLimits.reads);
    REQUIRE(prefetching <= kLimits.prefetchReads);
  }

  /// One of the reads ends. False if the layer pass cannot go on.
  bool endRead() {
    std::swap(begun[random() % begun.size()], begun.back());
    const uint32_t id = begun.back();
    begun.pop_back();
    return machine.completed(id, random() % 50 > 0);
  }

  void abandon() {
    while (!begun.empty())
      (void)endRead();
    machine.abandonPass();
    act();
    REQUIRE(machine.state().prefetchPages() == 0);
  }

  Experts someExperts(size_t most) {
    Experts all(experts);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(1 + random() % most);
    return all;
  }

  void prefetchFrom(uint32_t layer) {
    for (uint32_t later = layer + 1; later < kLayers; ++later) {
      std::vector<PrefetchCandidate> candidates;
      for (uint32_t expert : someExperts(experts))
        candidates.push_back({expert, kFixedPointOne / 16});
      std::vector<uint16_t> slices;
      for (size_t i = 0; i < candidates.size(); ++i)
        slices.push_back(static_cast<uint16_t>(random() % (kSlices + 1)));
      if (random() % 3)
        machine.prefetch({later, {Predictor::kGate, 1, 8, 3, 0}, candidates, slices});
    }
  }

  /// A layer pass with up to two experts in use.
  void runPass(uint32_t layer) {
    const Experts wanted = someExperts(random() % 9 ? 3 : experts);
    prefetchFrom(layer);
    std::vector<uint16_t> slices;
    for (size_t i = 0; i < wanted.size(); ++i)
      slices.push_back(static_cast<uint16_t>(1 + random() % kSlices));
    const bool isWhole = random() % 4 == 0;
    REQUIRE(machine.beginPass(
        layer, {.wanted = wanted, .slices = isWhole ? std::span<uint16_t>() : slices}));
    auto handOut = [&] {
      const uint32_t index = machine.handOut(false);
      const CacheUnit &unit = machine.at(machine.idOf(index)).unit;
      REQUIRE(unit.slicesPresent >= (isWhole ? kSlices : slices[index]));
      return index;
    };
    std::vector<uint32_t> inUse;
    for (act(); machine.releasedCount() < wanted.size(); act()) {
      bool isExecutable = random() % 400 > 0;
      REQUIRE((!machine.ready().empty() || !begun.empty() || !inUse.empty())); // It can go on.
      if (!machine.ready().empty() && inUse.empty())
        inUse.push_back(handOut());
      else if (!begun.empty() && random() % 2)
        isExecutable &= endRead();
      else if (!machine.ready().empty() && inUse.size() < 2)
        inUse.push_back(handOut());
      else if (!inUse.empty()) {
        machine.release(inUse.front());
        inUse.erase(inUse.begin());
      }
      if (!isExecutable) {
        ++abandoned;
        return abandon();
      }
    }
    machine.endPass();
    for (act(); !machine.settlePromotions(); act()) {
      REQUIRE(!begun.empty());
      (void)endRead(); // A failed promotion leaves the list.
    }
    act();
    sum += machine.takeCounts();
  }

  std::mt19937 random;
  bool hasCopies;
  uint32_t experts;
  uint64_t poolPages = 0;
  CacheMachine machine;
  std::vector<uint32_t> pages; // By id.
  std::vector<uint32_t> begun; // Reads under way.
  uint64_t abandoned = 0, bytesRead = 0, upgrades = 0, highCopies = 0, parts = 0;
  CacheCounts sum;
};

} // namespace

TEST_CASE("whatever a driver does, units keep to their table and have the pages that it gave") {
  uint64_t abandoned = 0, upgrades = 0, highCopies = 0, parts = 0;
  CacheCounts sum;
  for (const CacheRules &rules : allRulesAndExchanges())
    for (uint32_t seed = 0; seed < 12; ++seed) {
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      CAPTURE(seed);
      CacheRules surviving = rules;
      surviving.survival = static_cast<PromptSurvival>(seed % 3);
      surviving.baseSlices = static_cast<uint8_t>(seed % 2 * (1 + seed / 4 % 2));
      if (rules.sharing == CacheSharing::kOnePool && seed % 4 == 3)
        surviving.upperPart = kFixedPointOne / 4;
      RandomDriver driver(surviving, seed, seed / 2 % 2 == 1);
      for (uint32_t pass = 0; pass < 200; ++pass) {
        if (pass % 40 == 39) {
          driver.machine.beginPrompt(); // While prefetches are being read, too.
          driver.act();
        }
        driver.runPass(pass % kLayers);
      }
      driver.sum += driver.machine.takeCounts(); // Since the last layer pass that was closed.
      REQUIRE(driver.sum.bytesRead == driver.bytesRead);
      sum += driver.sum;
      abandoned += driver.abandoned;
      upgrades += driver.upgrades;
      highCopies += driver.highCopies;
      parts += driver.parts;
    }
  // All of it happens.
  CHECK(abandoned > 100);
  CHECK(upgrades > 1000);
  CHECK(highCopies > 1000);
  CHECK(sum.hits > 1000);
  CHECK(sum.evictions > 1000);
  CHECK(parts > 2000); // Reduced, or read by a prefetch and not demanded.
  CHECK(sum.useful > 1000);
  CHECK(sum.ready > sum.hits);
  CHECK(sum.ready < sum.hits + sum.useful);
  CHECK(sum.cancelled > 1000);
  CHECK(sum.prefetchesRetained > 100);
  CHECK(sum.promoted > 10);
  CHECK(sum.promotionsRead > sum.promoted);
}

TEST_CASE("a demand that cannot be met leaves the machine as it was") {
  CacheDirectory directory({}, 1, {});
  directory.addLayer(2);
  for (int expert = 0; expert < 3; ++expert)
    directory.addExpert(1);
  CacheMachine machine(std::move(directory), kLimits);
  CHECK_FALSE(machine.beginPass(0, PassDemand{Experts{0, 3}}));
  CHECK_FALSE(machine.beginPass(0, PassDemand{Experts{0, 0}}));
  CHECK_FALSE(machine.state().isPassOpen());
  CHECK(machine.at(0).unit.state == UnitState::kAbsent);
  CHECK(machine.counts() == CacheCounts());
}
