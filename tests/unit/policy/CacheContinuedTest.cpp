// A cache that continues with other quotas and rules.
#include "runtime/policy/CacheMachine.h"
#include "runtime/policy/InstantReads.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <array>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

constexpr uint32_t kExperts = 8;
constexpr CacheReadLimits kLimits = {16, 4};

/// Layers of records of two pages; without time, as a replay drives it.
struct Cache {
  Cache(const CacheRules &rules, const std::vector<uint64_t> &quotas, uint64_t staging = 2)
      : machine(directoryOf(rules, quotas, staging), kLimits) {}

  static CacheDirectory directoryOf(const CacheRules &rules, const std::vector<uint64_t> &quotas,
                                    uint64_t staging) {
    CacheDirectory directory(rules, staging, {quotas.size(), quotas.size() * kExperts, kExperts});
    for (uint64_t quota : quotas) {
      directory.addLayer(quota);
      for (uint32_t expert = 0; expert < kExperts; ++expert)
        directory.addExpert(2, 8192);
    }
    return directory;
  }

  Cache continued(const CacheRules &rules, const std::vector<uint64_t> &quotas) {
    machine.cancelAllPrefetches();
    act();
    Cache next(rules, quotas);
    next.machine.continueFrom(machine);
    return next;
  }

  void act() {
    while (const std::optional<CacheAction> action = machine.next())
      if (action->isRead)
        REQUIRE(machine.completed(action->id, true));
  }

  /// The number of hits.
  uint64_t runPass(uint32_t layer, const Experts &wanted) {
    REQUIRE(machine.beginPass(layer, {wanted}));
    act();
    while (!machine.isAllHandedOut()) {
      REQUIRE(!machine.ready().empty());
      machine.release(machine.handOut(false));
      act();
    }
    machine.endPass();
    act();
    return machine.takeCounts().hits;
  }

  Experts heldIn(uint32_t layer) const {
    Experts held;
    for (uint32_t expert = 0; expert < kExperts; ++expert)
      if (machine.at(machine.state().idOf(layer, expert)).isHeld())
        held.push_back(expert);
    return held;
  }

  CacheMachine machine;
};

/// Two experts of a layer.
Experts twoOf(std::mt19937 &random) {
  const auto below4 = [&] { return static_cast<uint32_t>(random() % 4); };
  return {below4(), 4 + below4()};
}

CacheRules rulesOf(EvictionPolicy policy) {
  return {policy, CacheSharing::kLayerQuotas, PromptSurvival::kEverything};
}

} // namespace

TEST_CASE("with smaller quotas the experts that would leave last stay, with larger ones all do") {
  Cache cache(rulesOf(EvictionPolicy::kLru), {8, 8});
  for (uint32_t expert : {0, 1, 2, 3, 1})
    cache.runPass(0, {expert});
  cache.runPass(1, {5});
  Cache smaller = cache.continued(rulesOf(EvictionPolicy::kLru), {4, 4});
  CHECK(smaller.heldIn(0) == Experts{1, 3});
  CHECK(smaller.heldIn(1) == Experts{5});
  CHECK(smaller.machine.state().pagesHeld(0) == 4);
  Cache larger = smaller.continued(rulesOf(EvictionPolicy::kLru), {10, 10});
  CHECK(larger.heldIn(0) == Experts{1, 3});
  CHECK(larger.runPass(0, {0, 1, 2}) == 1);
  CHECK(larger.heldIn(0) == Experts{0, 1, 2, 3});
}

TEST_CASE("what was used of absent experts is remembered") {
  Cache cache(rulesOf(EvictionPolicy::kLfu), {4});
  for (uint32_t expert : {7, 7, 7, 7, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2})
    cache.runPass(0, {expert});
  CHECK(cache.heldIn(0) == Experts{1, 2});
  Cache next = cache.continued(rulesOf(EvictionPolicy::kLfu), {4});
  CHECK(next.heldIn(0) == Experts{1, 2});
  next.runPass(0, {7});
  next.runPass(0, {7}); // Six uses beside five.
  CHECK(next.heldIn(0) == Experts{2, 7});
}

TEST_CASE("pinned experts stay before others, and their pins go") {
  Cache cache(rulesOf(EvictionPolicy::kLru), {8});
  REQUIRE(cache.machine.pin(0));
  for (uint32_t expert : {0, 1, 2, 3})
    cache.runPass(0, {expert});
  Cache next = cache.continued(rulesOf(EvictionPolicy::kLru), {4});
  CHECK(next.heldIn(0) == Experts{0, 3});
  next.runPass(0, {4});
  CHECK(next.heldIn(0) == Experts{3, 4});
}

TEST_CASE("prefetches are cancelled and not taken over") {
  Cache cache(rulesOf(EvictionPolicy::kLru), {8, 8}, 6);
  const PrefetchCandidate candidate = {6, kFixedPointOne};
  cache.machine.prefetch({1, {Predictor::kGate, 1, 4, 4, 0}, {&candidate, 1}});
  cache.runPass(0, {0});
  REQUIRE(cache.machine.state().prefetchPages() == 2);
  Cache next = cache.continued(rulesOf(EvictionPolicy::kLru), {8, 8});
  CHECK(next.machine.state().prefetchPages() == 0);
  CHECK(next.heldIn(1).empty());
  CHECK(next.runPass(1, {6}) == 0);
}

TEST_CASE("with the same rules and quotas a cache goes on as if nothing had happened") {
  for (const CacheRules &rules : allRules()) {
    // Adaptive replacement begins anew.
    if (rules.eviction == EvictionPolicy::kArc)
      continue;
    CAPTURE(int(rules.eviction));
    CAPTURE(int(rules.sharing));
    std::mt19937 random(5);
    Cache undisturbed(rules, {6, 4, 8}), changed(rules, {6, 4, 8});
    for (int step = 0; step < 200; ++step) {
      if (step % 40 == 20) {
        Cache next = changed.continued(rules, {6, 4, 8});
        changed.machine = std::move(next.machine);
      }
      const uint32_t layer = static_cast<uint32_t>(step % 3);
      const Experts wanted = twoOf(random);
      REQUIRE(undisturbed.runPass(layer, wanted) == changed.runPass(layer, wanted));
      REQUIRE(undisturbed.heldIn(layer) == changed.heldIn(layer));
    }
  }
}

TEST_CASE("from any rules to any others the quotas hold and the cache works on") {
  std::mt19937 random(7);
  for (const CacheRules &from : allRules())
    for (const CacheRules &to : allRules()) {
      Cache cache(from, {6, 4, 8});
      for (uint32_t step = 0; step < 60; ++step)
        cache.runPass(step % 3, twoOf(random));
      Cache next = cache.continued(to, {4, 2, 4});
      uint64_t held = 0;
      for (uint32_t layer = 0; layer < 3; ++layer)
        held += next.machine.state().pagesHeld(layer);
      CHECK(held <= 10);
      CHECK(held >= 4); // The pool was full, perhaps of one layer.
      for (uint32_t step = 0; step < 60; ++step)
        next.runPass(step % 3, twoOf(random));
      CHECK(next.machine.state().forbiddenEvents() == 0);
    }
}

TEST_CASE("copies stay with the precision that they have, and leave whole where quotas shrink") {
  for (bool hasTwoPools : {false, true}) {
    CAPTURE(hasTwoPools);
    const CacheRules rules = {.sharing = CacheSharing::kOnePool,
                              .baseSlices = hasTwoPools,
                              .upperPart = hasTwoPools ? kFixedPointOne / 2 : 0};
    auto directoryOf = [&](uint64_t quota) {
      CacheDirectory directory(rules, 5, {});
      directory.addLayer(quota);
      for (uint32_t expert = 0; expert < kExperts; ++expert) // A page of low precision, or three.
        directory.addExpert(std::array<uint64_t, 3>{1, 3, 4}, 1, 1);
      return directory;
    };
    CacheMachine machine(directoryOf(16), kLimits);
    const std::array<uint16_t, 7> demanded = {3, 1, 2, 1, 1, 1, 1};
    for (uint32_t expert = 0; expert < demanded.size(); ++expert) {
      const Experts wanted = {expert};
      executeInstantly(machine, 0, {.wanted = wanted, .slices = {&demanded[expert], 1}});
    }
    auto slicesHeld = [](const CacheMachine &of) {
      std::vector<uint16_t> slices;
      for (uint32_t id = 0; id < kExperts; ++id)
        slices.push_back(of.at(id).isHeld() ? of.at(id).unit.slicesPresent : uint16_t(0));
      return slices;
    };
    CHECK(slicesHeld(machine) == std::vector<uint16_t>{3, 1, 2, 1, 1, 1, 1, 0});
    CacheMachine same(directoryOf(16), kLimits), smaller(directoryOf(8), kLimits);
    same.continueFrom(machine);
    CHECK(slicesHeld(same) == slicesHeld(machine));
    CHECK(same.state().pagesHeld(0) == 11);
    smaller.continueFrom(machine);
    // Four pages for low copies and four for high ones, or eight for the last ones used.
    CHECK(slicesHeld(smaller) == (hasTwoPools ? std::vector<uint16_t>{0, 0, 2, 1, 1, 1, 1, 0}
                                              : std::vector<uint16_t>{0, 1, 2, 1, 1, 1, 1, 0}));
    const Experts wanted = {2};
    executeInstantly(smaller, 0, {wanted}); // The slice that its copy is lacking.
    CHECK(smaller.counts().evictions == machine.counts().evictions);
    CHECK(smaller.counts().bytesRead == machine.counts().bytesRead + 1);
  }
}
