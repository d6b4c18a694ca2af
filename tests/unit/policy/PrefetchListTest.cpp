// Which experts are prefetched, and which prefetches are useful, retained or cancelled.
#include "runtime/policy/CacheMachine.h"

#include "tests/unit/policy/AllCacheRules.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

constexpr PrefetchRule kThreeOfEight{Predictor::kGate, 1, 8, 3, 0};

/// A machine whose reads complete at once.
struct PrefetchingCache {
  PrefetchingCache(const CacheRules &rules, const std::vector<std::vector<uint32_t>> &pages,
                   const std::vector<uint64_t> &quotas, uint64_t staging)
      : machine(directoryOf(rules, pages, quotas, staging), {16, 16}) {}

  Experts runPass(uint32_t layer, const Experts &wanted) {
    return runPass(layer, wanted, [] {});
  }

  /// The unkept experts; `check` runs whenever pages have changed.
  template <typename Check> Experts runPass(uint32_t layer, const Experts &wanted, Check check) {
    REQUIRE(machine.beginPass(layer, PassDemand{wanted}));
    Experts unkept(directory().unkept().begin(), directory().unkept().end());
    for (act(check); !machine.isAllHandedOut(); act(check))
      machine.release(machine.handOut(false));
    machine.endPass();
    act(check);
    counts = machine.takeCounts();
    return unkept;
  }

  void name(uint32_t layer, const PrefetchRule &rule, const Experts &experts) {
    std::vector<PrefetchCandidate> candidates;
    for (uint32_t expert : experts)
      candidates.push_back({expert, kFixedPointOne / 8});
    machine.prefetch({layer, rule, candidates});
  }

  Experts prefetchedIn(uint32_t layer) const {
    Experts prefetched;
    for (uint32_t expert = 0; expert < directory().expertsIn(layer); ++expert)
      if (directory().at(directory().idOf(layer, expert)).isPrefetch())
        prefetched.push_back(expert);
    return prefetched;
  }

  const CacheDirectory &directory() const { return machine.state(); }

  CacheMachine machine;
  CacheCounts counts; // In the last layer pass.

private:
  static CacheDirectory directoryOf(const CacheRules &rules,
                                    const std::vector<std::vector<uint32_t>> &pages,
                                    const std::vector<uint64_t> &quotas, uint64_t staging) {
    CacheDirectory directory(rules, staging, {});
    for (size_t l = 0; l < pages.size(); ++l) {
      directory.addLayer(quotas[l]);
      for (uint32_t recordPages : pages[l])
        directory.addExpert(recordPages);
    }
    return directory;
  }

  template <typename Check> void act(Check check) {
    check();
    while (const std::optional<CacheAction> action = machine.next()) {
      if (action->isRead)
        REQUIRE(machine.completed(action->id, true));
      check();
    }
  }
};

} // namespace

static PrefetchingCache evenCache(uint64_t quota, uint64_t staging, const CacheRules &rules = {}) {
  return PrefetchingCache(rules, std::vector<std::vector<uint32_t>>(4, std::vector<uint32_t>(8, 1)),
                          std::vector<uint64_t>(4, quota), staging);
}

/// What is prefetched of layer 1, which holds expert 5, with a rule and candidates.
static Experts selected(const PrefetchRule &rule,
                        const std::vector<PrefetchCandidate> &candidates) {
  PrefetchingCache cache = evenCache(4, 4);
  cache.runPass(1, {5});
  cache.machine.prefetch({1, rule, candidates});
  cache.runPass(0, {0});
  return cache.prefetchedIn(1);
}

TEST_CASE("a plan prefetches where the rule of one layer at least names a predictor") {
  CHECK_FALSE(prefetchesAnything({}));
  std::vector<PrefetchRule> rules(3);
  CHECK_FALSE(prefetchesAnything(rules));
  rules.back().predictor = Predictor::kGate;
  CHECK(prefetchesAnything(rules));
}

TEST_CASE("the likeliest absent experts are prefetched, up to the rule's limits") {
  const std::vector<PrefetchCandidate> candidates{{5, 900}, {2, 800}, {7, 700}, {0, 600}, {1, 500}};
  CHECK(selected({Predictor::kGate, 1, 5, 8, 0}, candidates) == Experts{0, 1, 2, 7});
  CHECK(selected({Predictor::kGate, 1, 5, 2, 0}, candidates) == Experts{2, 7});
  CHECK(selected({Predictor::kGate, 1, 2, 8, 0}, candidates) == Experts{2});
  CHECK(selected({Predictor::kGate, 1, 5, 8, 600}, candidates) == Experts{0, 2, 7});
  CHECK(selected({Predictor::kOff, 1, 5, 8, 0}, candidates).empty());
  CHECK(selected({Predictor::kGate, 1, 5, 8, 0}, {{5, 900}}).empty());
}

TEST_CASE("an expert that has pages as a prefetch is not prefetched again") {
  PrefetchingCache cache = evenCache(4, 4);
  for (const Experts &named : {Experts{2}, Experts{2, 3}}) {
    cache.name(1, kThreeOfEight, named);
    cache.runPass(0, {0});
  }
  CHECK(cache.counts.prefetchesRead == 1);
  CHECK(cache.prefetchedIn(1) == Experts{2, 3});
}

constexpr CacheRules kOneLruPool{EvictionPolicy::kLru, CacheSharing::kOnePool,
                                 PromptSurvival::kEverything};

TEST_CASE("an expert that is in memory is not read, though the open pass does not keep it") {
  PrefetchingCache cache = evenCache(1, 4, kOneLruPool);
  cache.runPass(1, {6, 7});
  cache.runPass(0, {0, 1});
  // The only read that the rule allows is of the third candidate.
  cache.name(1, {Predictor::kGate, 1, 8, 1, 0}, {6, 7, 5});
  CHECK(cache.runPass(0, {2}) == Experts{cache.directory().idOf(1, 7)});
  CHECK(cache.counts.prefetchesRetained == 1);
  CHECK(cache.counts.prefetchesRead == 1);
  CHECK(cache.prefetchedIn(1) == Experts{5, 7});
}

TEST_CASE("an expert that would leave becomes a prefetch with its pages, as far as there is room") {
  for (uint64_t staging : {0, 1, 2, 4}) {
    CAPTURE(staging);
    PrefetchingCache cache = evenCache(1, staging, kOneLruPool);
    cache.runPass(1, {6, 7});
    cache.runPass(0, {0, 1});
    cache.name(1, kThreeOfEight, {7});
    cache.runPass(0, {2});
    CHECK(cache.counts.prefetchesRetained == (staging > 0 ? 1 : 0));
    CHECK(cache.directory().prefetchPages() == (staging > 0 ? 1 : 0));
    CHECK_FALSE(cache.directory().at(cache.directory().idOf(1, 7)).isHeld());
    CHECK_FALSE(cache.machine.hasPrefetchToRead());
    cache.runPass(1, {7});
    CHECK(cache.counts.useful == (staging > 0 ? 1 : 0));
    CHECK(cache.counts.prefetchesRetained == 0);
  }
}

TEST_CASE("a layer with a record larger than the staging pages is not prefetched") {
  PrefetchingCache cache({}, {{1, 1, 3}, {1, 1, 2}}, {4, 4}, 2);
  cache.name(1, kThreeOfEight, {0});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1) == Experts{0});
  CHECK_FALSE(cache.directory().hasRoomForPrefetch(cache.directory().idOf(0, 0), 1));
  CHECK(cache.directory().hasRoomForPrefetch(cache.directory().idOf(1, 0), 1));
  cache.name(0, kThreeOfEight, {1});
  cache.runPass(1, {1});
  CHECK(cache.prefetchedIn(0).empty());
}

TEST_CASE("a wanted prefetch is useful, another one of the layer is cancelled") {
  PrefetchingCache cache = evenCache(4, 4);
  cache.name(1, kThreeOfEight, {3, 4, 5});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1) == Experts{3, 4, 5});
  cache.runPass(1, {5, 6});
  CHECK(cache.counts.useful == 1);
  CHECK(cache.directory().at(cache.directory().idOf(1, 5)).isHeld());
  CHECK(cache.counts.cancelled == 2);
  CHECK(cache.prefetchedIn(1).empty());
  CHECK(cache.directory().prefetchPages() == 0);
}

TEST_CASE("a prefetch that was not begun is forgotten when its layer is executed") {
  PrefetchingCache cache = evenCache(4, 2);
  cache.name(1, kThreeOfEight, {3, 4, 5}); // The third has no room.
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1) == Experts{3, 4});
  CHECK(cache.machine.hasPrefetchToRead());
  cache.runPass(1, {3});
  CHECK_FALSE(cache.machine.hasPrefetchToRead());
}

TEST_CASE("the nearest layer is prefetched first, in the order of likelihood") {
  PrefetchingCache cache = evenCache(4, 4);
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.name(1, kThreeOfEight, {4, 3, 2});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1) == Experts{2, 3, 4});
  CHECK(cache.prefetchedIn(2) == Experts{7});
}

TEST_CASE("what is said of a layer replaces what was said before and not begun") {
  PrefetchingCache cache = evenCache(4, 2);
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(2) == Experts{6, 7});
  cache.name(2, kThreeOfEight, {1, 7});
  cache.runPass(1, {0, 1, 2, 3, 4, 5}); // Two pass through the staging pages: no prefetch can stay.
  CHECK(cache.prefetchedIn(2) == Experts{1, 7});
}

constexpr PrefetchRule kAdaptive{Predictor::kAdaptiveGate, 3, 8, 3, 0};

TEST_CASE("an adaptive rule is made from each layer up to its distance, another from one alone") {
  const PrefetchRule gate{Predictor::kGate, 2, 8, 3, 0};
  const PrefetchRule off{Predictor::kOff, 2, 8, 3, 0};
  for (uint32_t distance = 1; distance <= 4; ++distance) {
    CHECK(kAdaptive.predictsFrom(distance) == (distance <= 3));
    CHECK(gate.predictsFrom(distance) == (distance == 2));
    CHECK_FALSE(off.predictsFrom(distance));
  }
}

TEST_CASE("with an adaptive rule a layer is prefetched once all that is predicted for those before "
          "it is held") {
  PrefetchingCache cache = evenCache(4, 4);
  cache.runPass(1, {3, 4});
  cache.runPass(2, {5});
  // The nearest layer is always prefetched, whichever is named first.
  cache.name(2, kAdaptive, {5, 6});
  cache.name(1, kAdaptive, {3, 7});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1) == Experts{7});
  CHECK(cache.prefetchedIn(2).empty());
  // Everything of layer 1 is held, 6 of layer 2 is not: layer 3 is not looked at.
  cache.runPass(1, {3}); // Cancels 7.
  cache.name(1, kAdaptive, {3, 4});
  cache.name(2, kAdaptive, {5, 6});
  cache.name(3, kAdaptive, {1});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1).empty());
  CHECK(cache.prefetchedIn(2) == Experts{6});
  CHECK(cache.prefetchedIn(3).empty());
  // A rule of a fixed distance does not wait for others.
  cache.name(2, kAdaptive, {7});
  cache.name(3, kThreeOfEight, {1});
  cache.runPass(1, {3});
  CHECK(cache.prefetchedIn(3) == Experts{1});
}

TEST_CASE("less likely candidates than an adaptive rule reads do not hold up other layers") {
  const uint32_t likely = kFixedPointOne / 4;
  for (uint32_t least : {likely, likely / 2 - 1}) {
    PrefetchingCache cache = evenCache(4, 4);
    cache.runPass(1, {3});
    const std::vector<PrefetchCandidate> near{{3, likely}, {7, likely / 2}}, far{{6, likely}};
    PrefetchRule rule = kAdaptive;
    rule.minProbability = least;
    cache.machine.prefetch({1, rule, near});
    cache.machine.prefetch({2, rule, far});
    cache.runPass(0, {0});
    CHECK(cache.prefetchedIn(2) == (least == likely ? Experts{6} : Experts{}));
  }
}

TEST_CASE("what an earlier prediction selected counts as in memory, whether or not it was read") {
  for (uint64_t staging : {8, 1}) { // With one staging page the second one is not read.
    CAPTURE(staging);
    PrefetchingCache cache = evenCache(4, staging);
    cache.name(2, kAdaptive, {1, 2});
    cache.runPass(0, {0});
    CHECK(cache.prefetchedIn(2) == (staging == 8 ? Experts{1, 2} : Experts{1}));
    cache.name(2, kAdaptive, {1, 2});
    cache.name(3, kAdaptive, {6});
    cache.runPass(1, {0});
    CHECK(cache.machine.slicesCounted(cache.directory().idOf(3, 6)) == 1);
  }
}

TEST_CASE("a layer that an adaptive rule does not reach keeps what was selected before") {
  PrefetchingCache cache = evenCache(4, 4);
  cache.name(3, kAdaptive, {1});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(3) == Experts{1});
  cache.name(2, kAdaptive, {5}); // Is absent.
  cache.name(3, kAdaptive, {2});
  cache.runPass(1, {0});
  CHECK(cache.prefetchedIn(3) == Experts{1});
  CHECK(cache.machine.slicesCounted(cache.directory().idOf(3, 1)) == 1);
  CHECK(cache.machine.slicesCounted(cache.directory().idOf(3, 2)) == 0);
  cache.name(3, kAdaptive, {2}); // One layer ahead it is always reached.
  cache.runPass(2, {5});
  CHECK(cache.prefetchedIn(3) == Experts{1, 2});
  CHECK(cache.machine.slicesCounted(cache.directory().idOf(3, 1)) == 0);
}

TEST_CASE("a demand that lacks pages lets go prefetches of later layers, the last one first") {
  PrefetchingCache cache = evenCache(4, 3);
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.runPass(0, {0});
  REQUIRE(cache.prefetchedIn(2) == Experts{5, 6, 7});
  cache.runPass(1, {0, 1, 2, 3}); // Fits into the quota.
  CHECK(cache.prefetchedIn(2) == Experts{5, 6, 7});
  cache.runPass(3, {0});
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.runPass(0, {0});
  cache.runPass(1, {0, 1, 2, 3, 4}); // One more than the quota.
  CHECK(cache.prefetchedIn(2) == Experts{6, 7});
}

TEST_CASE("of more layers than may be prefetched at a time the rest is not heard") {
  PrefetchingCache cache({}, std::vector<std::vector<uint32_t>>(6, std::vector<uint32_t>(4, 1)),
                         std::vector<uint64_t>(6, 2), 8);
  for (uint32_t layer = 1; layer < 6; ++layer)
    cache.name(layer, kThreeOfEight, {layer % 4});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(3) == Experts{3});
  CHECK(cache.prefetchedIn(4).empty());
}

TEST_CASE(
    "whatever is prefetched, decisions are the same, pages suffice and nothing is left over") {
  for (const CacheRules &rules : allRules())
    for (uint32_t seed = 0; seed < 20; ++seed) {
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      CAPTURE(seed);
      std::mt19937 random(seed);
      size_t layers = 2 + random() % 5;
      uint32_t experts = 4 + random() % 8;
      std::vector<std::vector<uint32_t>> pages(layers, std::vector<uint32_t>(experts, 3));
      std::vector<uint64_t> quotas;
      for (std::vector<uint32_t> &layer : pages) {
        for (uint32_t &one : layer)
          one = seed % 2 ? one : 1 + random() % 5;
        quotas.push_back(random() % 20);
      }
      uint64_t staging = 5 + random() % 15;
      uint64_t poolPages = std::accumulate(quotas.begin(), quotas.end(), staging);
      PrefetchingCache cache(rules, pages, quotas, staging), plain(rules, pages, quotas, staging);
      auto check = [&] {
        uint64_t held = cache.directory().prefetchPages();
        for (uint32_t l = 0; l < layers; ++l)
          held += cache.directory().pagesHeld(l);
        REQUIRE(held <= poolPages);
        REQUIRE(cache.directory().prefetchPages() <= staging);
      };
      uint64_t useful = 0;
      auto someExperts = [&](size_t most) {
        Experts all(experts);
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), random);
        all.resize(1 + random() % most);
        return all;
      };
      for (uint32_t pass = 0; pass < 120; ++pass) {
        uint32_t layer = pass % layers;
        for (uint32_t ahead = 1; ahead <= kMostAhead; ++ahead)
          if (layer + ahead < layers && random() % 2)
            cache.name(layer + ahead, seed % 4 < 2 ? kThreeOfEight : kAdaptive,
                       someExperts(experts));
        Experts wanted = someExperts(pass % 11 == 0 ? experts : 4);
        Experts unkept = cache.runPass(layer, wanted, check);
        useful += cache.counts.useful;
        REQUIRE(unkept == plain.runPass(layer, wanted));
        REQUIRE(cache.prefetchedIn(layer).empty());
        for (uint32_t id = 0; id < layers * experts; ++id)
          REQUIRE(cache.directory().at(id).isHeld() == plain.directory().at(id).isHeld());
      }
      CHECK(cache.directory().prefetchPages() == 0); // Nothing is prefetched beyond the last layer.
      CHECK(useful > 0);
    }
}

TEST_CASE(
    "an expert is expected if its rule asked for it in time, whether or not it could be read") {
  // Layer 1 keeps expert 5. Its rule reads two of the absent ones that are likely enough.
  const PrefetchRule rule = {Predictor::kGate, 1, 8, 2, kFixedPointOne / 8};
  const std::vector<PrefetchCandidate> candidates = {{3, kFixedPointOne / 2},
                                                     {5, kFixedPointOne / 4},
                                                     {2, kFixedPointOne / 4},
                                                     {1, kFixedPointOne / 5},
                                                     {0, kFixedPointOne / 9}};
  for (uint64_t staging : {4, 1}) { // With one staging page the second is not read.
    CAPTURE(staging);
    PrefetchingCache cache = evenCache(4, staging);
    cache.runPass(1, {5});
    cache.machine.prefetch({1, rule, candidates});
    cache.runPass(0, {0});
    CHECK(cache.prefetchedIn(1).size() == (staging == 4 ? 2 : 1));
    Experts expected;
    for (uint32_t expert = 0; expert < 8; ++expert)
      if (cache.machine.slicesCounted(cache.machine.state().idOf(1, expert)) > 0)
        expected.push_back(expert);
    CHECK(expected == Experts{2, 3, 5});
    cache.runPass(1, {7});
    CHECK(cache.machine.slicesCounted(cache.machine.state().idOf(1, 3)) == 0);
    CHECK(cache.machine.slicesCounted(cache.machine.state().idOf(1, 7)) == 1);
  }
}

TEST_CASE("where low slices are held alone prefetches are read with the slices of their rank") {
  const auto prefetchedPages = [](uint8_t baseSlices) {
    CacheDirectory directory({.baseSlices = baseSlices}, 12, {});
    for (int layer = 0; layer < 2; ++layer) {
      directory.addLayer(4);
      for (int expert = 0; expert < 4; ++expert)
        directory.addExpert(std::array<uint64_t, 2>{1, 4}, 1);
    }
    CacheMachine machine(std::move(directory), {16, 16});
    const std::vector<PrefetchCandidate> candidates = {
        {3, kFixedPointOne / 2}, {2, kFixedPointOne / 4}, {1, kFixedPointOne / 8}};
    const std::vector<uint16_t> slices = {kAllSlices, 1, 0};
    machine.prefetch({1, {Predictor::kGate, 1, 4, 4, 0}, candidates, slices});
    REQUIRE(machine.beginPass(0, {Experts{0}}));
    while (const std::optional<CacheAction> action = machine.next())
      if (action->isRead)
        REQUIRE(machine.completed(action->id, true));
    std::vector<uint32_t> pages;
    for (uint32_t expert = 0; expert < 4; ++expert) {
      pages.push_back(machine.state().pagesHeldBy(4 + expert));
      CHECK(machine.slicesCounted(4 + expert) == machine.at(4 + expert).unit.slicesPresent);
    }
    return pages;
  };
  CHECK(prefetchedPages(1) == std::vector<uint32_t>{0, 0, 1, 4});
  CHECK(prefetchedPages(0) == std::vector<uint32_t>{0, 4, 4, 4});
}

namespace {

/// Two layers of four experts, each of a low copy of one page and a high one of three. Reads end
/// when they are told to.
struct CopiesCache {
  explicit CopiesCache(const CacheRules &rules = {}) : machine(directory(rules), {16, 16}) {}
  static CacheDirectory directory(const CacheRules &rules) {
    CacheDirectory made(rules, 6, {});
    for (int layer = 0; layer < 2; ++layer) {
      made.addLayer(3);
      for (int expert = 0; expert < 4; ++expert)
        made.addExpert(std::array<uint64_t, 2>{1, 4}, 1, 1);
    }
    return made;
  }

  void act() {
    while (const std::optional<CacheAction> action = machine.next())
      if (action->isRead)
        begun.push_back(action->id);
  }
  void endReads() {
    for (act(); !begun.empty(); act()) {
      const uint32_t id = begun.back();
      begun.pop_back();
      REQUIRE(machine.completed(id, true));
    }
  }
  void beginPass(uint32_t layer, uint32_t expert, uint16_t slices) {
    const Experts wanted = {expert};
    REQUIRE(machine.beginPass(layer, {.wanted = wanted, .slices = {&slices, 1}}));
  }
  CacheCounts endPass() {
    endReads();
    machine.release(machine.handOut(false));
    machine.endPass();
    act();
    return machine.takeCounts();
  }
  /// A layer pass of layer 0, after which expert 1 of layer 1 is prefetched or still being read.
  void prefetch(uint16_t slices, bool isRead) {
    const PrefetchCandidate candidate = {1, kFixedPointOne};
    beginPass(0, 0, 1);
    endPass();
    machine.prefetch({1, {Predictor::kGate, 1, 4, 4, 0}, {&candidate, 1}, {&slices, 1}});
    beginPass(0, 0, 1);
    if (isRead)
      endReads();
    act();
    machine.release(machine.handOut(false));
    machine.endPass();
    REQUIRE(machine.takeCounts().prefetchesRead == 1);
  }

  CacheMachine machine;
  std::vector<uint32_t> begun;
};

} // namespace

TEST_CASE("a prefetch of one copy is given back where the other one is demanded, read or not") {
  for (bool isRead : {false, true})
    for (uint16_t slices : {1, 2}) {
      const uint16_t demanded = slices == 1 ? 2 : 1;
      CAPTURE(isRead);
      CAPTURE(slices);
      CopiesCache cache;
      cache.prefetch(slices, isRead);
      CHECK(cache.machine.slicesCounted(5) == slices);
      cache.beginPass(1, 1, demanded);
      const CacheCounts counts = cache.endPass();
      CHECK(counts.misses == 1);
      CHECK(counts.useful == 0);
      CHECK(counts.cancelled == 1);
      CHECK(counts.evictions == 0);
      CHECK(counts.bytesRead == (demanded == 1 ? 1 : 3));
      CHECK(cache.machine.at(5).unit.slicesPresent == demanded);
      CHECK(cache.machine.state().pagesHeld(1) == (demanded == 1 ? 1 : 3));
      CHECK(cache.machine.state().prefetchPages() == 0);
    }
}

TEST_CASE("a prefetch of the copy that is demanded is useful, read or not") {
  for (bool isRead : {false, true})
    for (uint16_t slices : {1, 2}) {
      CAPTURE(isRead);
      CAPTURE(slices);
      CopiesCache cache;
      cache.prefetch(slices, isRead);
      CHECK(cache.machine.state().prefetchPages() == (slices == 1 ? 1 : 3));
      cache.beginPass(1, 1, slices);
      const CacheCounts counts = cache.endPass();
      CHECK(counts.useful == 1);
      CHECK(counts.bytesRead == 0);
    }
}

TEST_CASE("a low copy that is held counts as one, however a prefetch would read the expert") {
  CopiesCache cache;
  cache.beginPass(1, 1, 1);
  cache.endPass();
  const PrefetchCandidate candidate = {1, kFixedPointOne};
  cache.machine.prefetch({1, {Predictor::kGate, 1, 4, 4, 0}, {&candidate, 1}});
  cache.beginPass(0, 0, 1);
  CHECK(cache.endPass().prefetchesRead == 0);
  CHECK(cache.machine.slicesCounted(5) == 1);
  cache.beginPass(1, 1, 2); // Demanded at high precision after all: the low copy leaves.
  const CacheCounts counts = cache.endPass();
  CHECK(counts.misses == 1);
  CHECK(counts.evictions == 1);
  CHECK(counts.bytesRead == 3);
  CHECK(cache.machine.state().pagesHeld(1) == 3);
}

TEST_CASE("a low copy that leaves while a high one is expected does not count as one") {
  CopiesCache cache({.sharing = CacheSharing::kOnePool});
  cache.beginPass(1, 1, 1);
  cache.endPass();
  cache.beginPass(0, 0, 2);
  cache.endPass();
  const PrefetchCandidate candidate = {1, kFixedPointOne};
  cache.machine.prefetch({1, {Predictor::kGate, 1, 4, 4, 0}, {&candidate, 1}});
  cache.beginPass(0, 1, 2); // 7 pages of 6: the low copy of the other layer leaves.
  CHECK(cache.endPass().prefetchesRead == 0);
  CHECK(!cache.machine.at(5).isHeld());
  CHECK(cache.machine.slicesCounted(5) == 0);
}
