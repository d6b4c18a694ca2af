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
constexpr std::array<uint64_t, 2> kSliceEnds = {1024, 4096};

struct RandomDriver {
  RandomDriver(const CacheRules &rules, uint32_t seed)
      : random(seed), experts(4 + random() % 8), machine(directory(rules), kLimits),
        hasPages(machine.state().size().experts) {}

  CacheDirectory directory(const CacheRules &rules) {
    CacheDirectory made(rules, 5 + random() % 12, {});
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      made.addLayer(random() % 16);
      for (uint32_t expert = 0; expert < experts; ++expert)
        made.addExpert(1 + random() % 5, kSliceEnds);
    }
    return made;
  }

  /// Pages are given once, with the first slice, and taken back once.
  void act() {
    while (const std::optional<CacheAction> action = machine.next()) {
      REQUIRE(hasPages[action->id] != (action->isRead && action->firstSlice == 0));
      hasPages[action->id] = action->isRead;
      if (!action->isRead)
        continue;
      begun.push_back(action->id);
      REQUIRE(action->firstSlice < action->endSlice);
      bytesRead += kSliceEnds[action->endSlice - 1u] -
                   (action->firstSlice == 0 ? 0 : kSliceEnds[action->firstSlice - 1u]);
      upgrades += action->firstSlice > 0;
    }
    check();
  }

  void check() const {
    REQUIRE(machine.state().forbiddenEvents() == 0);
    size_t reading = 0, prefetching = 0;
    for (uint32_t id = 0; id < hasPages.size(); ++id) {
      const UnitState state = machine.at(id).unit.state;
      REQUIRE(hasPages[id] == (ownerOf(state) != PageOwner::kNobody));
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
      if (random() % 3)
        machine.prefetch({later, {Predictor::kGate, 1, 8, 3, 0}, candidates});
    }
  }

  /// A layer pass with up to two experts in use.
  void runPass(uint32_t layer) {
    const Experts wanted = someExperts(random() % 9 ? 3 : experts);
    prefetchFrom(layer);
    std::vector<uint16_t> slices;
    for (size_t i = 0; i < wanted.size(); ++i)
      slices.push_back(static_cast<uint16_t>(1 + random() % 2));
    const bool isWhole = random() % 4 == 0;
    REQUIRE(machine.beginPass(
        layer, {.wanted = wanted, .slices = isWhole ? std::span<uint16_t>() : slices}));
    auto handOut = [&] {
      const uint32_t index = machine.handOut(false);
      REQUIRE(machine.at(machine.idOf(index)).unit.slicesPresent >= (isWhole ? 2 : slices[index]));
      return index;
    };
    std::vector<uint32_t> inUse;
    for (act(); machine.releasedCount() < wanted.size(); act()) {
      bool isExecutable = random() % 400 > 0;
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
  uint32_t experts;
  CacheMachine machine;
  std::vector<bool> hasPages;  // By id.
  std::vector<uint32_t> begun; // Reads under way.
  uint64_t abandoned = 0, bytesRead = 0, upgrades = 0;
  CacheCounts sum;
};

} // namespace

TEST_CASE("whatever a driver does, units keep to their table and have the pages that it gave") {
  uint64_t abandoned = 0, upgrades = 0;
  CacheCounts sum;
  for (const CacheRules &rules : allRulesAndExchanges())
    for (uint32_t seed = 0; seed < 12; ++seed) {
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      CAPTURE(seed);
      CacheRules surviving = rules;
      surviving.survival = static_cast<PromptSurvival>(seed % 3);
      RandomDriver driver(surviving, seed);
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
    }
  // All of it happens.
  CHECK(abandoned > 100);
  CHECK(upgrades > 1000);
  CHECK(sum.hits > 1000);
  CHECK(sum.evictions > 1000);
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
