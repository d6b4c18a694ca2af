// Which experts are prefetched, and what becomes of prefetches when layers are executed.
#include "runtime/policy/PrefetchList.h"

#include "tests/unit/policy/AllCacheRules.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

constexpr PrefetchRule kThreeOfEight{Predictor::kGate, 1, 8, 3, 0};

/// A directory with prefetches, executed without time: what is prefetched is read at the end of a
/// layer pass.
struct PrefetchingCache {
  PrefetchingCache(const CacheRules &rules, const std::vector<std::vector<uint32_t>> &pages,
                   const std::vector<uint64_t> &quotas, uint64_t staging)
      : PrefetchingCache(rules, pages, quotas, staging, sizeOf(pages)) {}

  Experts runPass(uint32_t layer, const Experts &wanted) {
    return runPass(layer, wanted, [] {});
  }

  /// The unkept experts; `check` runs whenever pages have changed.
  template <typename Check> Experts runPass(uint32_t layer, const Experts &wanted, Check check) {
    REQUIRE(directory.beginPass(layer, PassDemand{wanted}));
    Experts unkept(directory.unkept().begin(), directory.unkept().end());
    list.beginPass(directory, layer);
    dropCancelled();
    list.select(directory);
    check();
    for (uint32_t expert : wanted)
      readInTurn(directory.idOf(layer, expert), check);
    for (uint32_t id : unkept)
      if (directory.at(id).isHeld)
        directory.drop(id);
    readPrefetches(check);
    directory.endPass();
    readPrefetches(check);
    return unkept;
  }

  void dropCancelled() {
    for (uint32_t id : list.cancelled())
      directory.dropPrefetch(id);
  }

  void name(uint32_t layer, const PrefetchRule &rule, const Experts &experts) {
    std::vector<PrefetchCandidate> candidates;
    for (uint32_t expert : experts)
      candidates.push_back({expert, kFixedPointOne / 8});
    list.name({layer, rule, candidates});
  }

  Experts prefetchedIn(uint32_t layer) const {
    Experts prefetched;
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert)
      if (directory.at(directory.idOf(layer, expert)).isPrefetch)
        prefetched.push_back(expert);
    return prefetched;
  }

  CacheDirectory directory;
  PrefetchList list;

private:
  static DirectorySize sizeOf(const std::vector<std::vector<uint32_t>> &pages) {
    DirectorySize size{.layers = pages.size()};
    for (const std::vector<uint32_t> &layer : pages) {
      size.experts += layer.size();
      size.widestLayer = std::max(size.widestLayer, layer.size());
    }
    return size;
  }
  PrefetchingCache(const CacheRules &rules, const std::vector<std::vector<uint32_t>> &pages,
                   const std::vector<uint64_t> &quotas, uint64_t staging, const DirectorySize &size)
      : directory(rules, staging, size), list(size) {
    for (size_t l = 0; l < pages.size(); ++l) {
      directory.addLayer(quotas[l]);
      for (uint32_t recordPages : pages[l])
        directory.addExpert(recordPages);
    }
  }

  /// An expert that passes through finds room once those before it have left.
  template <typename Check> void readInTurn(uint32_t id, Check check) {
    if (directory.at(id).isHeld)
      return;
    for (uint32_t other : directory.unkept())
      if (!directory.hasRoomFor(id) && directory.at(other).isHeld)
        directory.drop(other);
    REQUIRE(directory.hasRoomFor(id));
    directory.hold(id);
    check();
  }

  template <typename Check> void readPrefetches(Check check) {
    while (list.hasNext() && !directory.at(list.next()).isHeld &&
           directory.hasRoomForPrefetch(list.next())) {
      list.begin(directory);
      check();
    }
  }
};

} // namespace

static PrefetchingCache evenCache(uint64_t quota, uint64_t staging, const CacheRules &rules = {}) {
  return PrefetchingCache(rules, std::vector<std::vector<uint32_t>>(4, std::vector<uint32_t>(8, 1)),
                          std::vector<uint64_t>(4, quota), staging);
}

static Experts selected(const CacheDirectory &directory, const PrefetchRule &rule, uint32_t layer,
                        const std::vector<PrefetchCandidate> &candidates) {
  std::vector<uint32_t> ids, leaving;
  selectPrefetches(rule, directory, layer, candidates, ids, leaving);
  for (uint32_t &id : ids)
    id = directory.expertOf(id);
  return ids;
}

TEST_CASE("a plan prefetches where the rule of one layer at least names a predictor") {
  CHECK_FALSE(prefetchesAnything({}));
  std::vector<PrefetchRule> rules(3);
  CHECK_FALSE(prefetchesAnything(rules));
  rules.back().predictor = Predictor::kGate;
  CHECK(prefetchesAnything(rules));
}

TEST_CASE("the likeliest absent experts are prefetched, up to the rule's limits") {
  PrefetchingCache cache = evenCache(4, 4);
  cache.runPass(1, {5});
  std::vector<PrefetchCandidate> candidates{{5, 900}, {2, 800}, {7, 700}, {0, 600}, {1, 500}};
  const CacheDirectory &directory = cache.directory;
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 8, 0}, 1, candidates) == Experts{2, 7, 0, 1});
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 2, 0}, 1, candidates) == Experts{2, 7});
  CHECK(selected(directory, {Predictor::kGate, 1, 2, 8, 0}, 1, candidates) == Experts{2});
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 8, 600}, 1, candidates) == Experts{2, 7, 0});
  CHECK(selected(directory, {Predictor::kOff, 1, 5, 8, 0}, 1, candidates).empty());
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 8, 0}, 2, {{5, 900}}) == Experts{5});
}

TEST_CASE("an expert that has pages as a prefetch is not prefetched again") {
  PrefetchingCache cache = evenCache(4, 4);
  cache.directory.holdPrefetch(cache.directory.idOf(1, 2));
  CHECK(selected(cache.directory, kThreeOfEight, 1, {{2, 9}, {3, 8}}) == Experts{3});
}

constexpr CacheRules kOneLruPool{EvictionPolicy::kLru, CacheSharing::kOnePool,
                                 PromptSurvival::kEverything};

TEST_CASE("an expert that is in memory is not read, though the open pass does not keep it") {
  PrefetchingCache cache = evenCache(1, 4, kOneLruPool);
  cache.runPass(1, {6, 7});
  cache.runPass(0, {0, 1});
  REQUIRE(cache.directory.beginPass(0, PassDemand{Experts{2}}));
  Experts absent, leaving, seven{cache.directory.idOf(1, 7)};
  REQUIRE(Experts(cache.directory.unkept().begin(), cache.directory.unkept().end()) == seven);
  const std::vector<PrefetchCandidate> candidates{{6, 9}, {7, 9}, {5, 8}};
  selectPrefetches({Predictor::kGate, 1, 8, 1, 0}, cache.directory, 1, candidates, absent, leaving);
  CHECK(absent == Experts{cache.directory.idOf(1, 5)}); // The only read that the rule allows.
  CHECK(leaving == seven);
}

TEST_CASE("an expert that would leave becomes a prefetch with its pages, as far as there is room") {
  for (uint64_t staging : {0, 1, 2, 4}) {
    CAPTURE(staging);
    PrefetchingCache cache = evenCache(1, staging, kOneLruPool);
    cache.runPass(1, {6, 7});
    cache.runPass(0, {0, 1});
    cache.name(1, kThreeOfEight, {7});
    cache.runPass(0, {2});
    CHECK(cache.list.retained().size() == (staging > 0 ? 1 : 0));
    CHECK(cache.directory.prefetchPages() == (staging > 0 ? 1 : 0));
    CHECK_FALSE(cache.directory.at(cache.directory.idOf(1, 7)).isHeld);
    CHECK_FALSE(cache.list.hasNext());
    cache.runPass(1, {7});
    CHECK(cache.list.useful().size() == (staging > 0 ? 1 : 0));
    CHECK(cache.list.retained().empty());
  }
}

TEST_CASE("a layer with a record larger than the staging pages is not prefetched") {
  PrefetchingCache cache({}, {{1, 1, 3}, {1, 1, 2}}, {4, 4}, 2);
  CHECK(selected(cache.directory, kThreeOfEight, 0, {{0, 9}}).empty());
  CHECK_FALSE(cache.directory.hasRoomForPrefetch(cache.directory.idOf(0, 0)));
  CHECK(selected(cache.directory, kThreeOfEight, 1, {{0, 9}}) == Experts{0});
  CHECK(cache.directory.hasRoomForPrefetch(cache.directory.idOf(1, 0)));
}

TEST_CASE("a wanted prefetch is useful, another one of the layer is cancelled") {
  PrefetchingCache cache = evenCache(4, 4);
  cache.name(1, kThreeOfEight, {3, 4, 5});
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1) == Experts{3, 4, 5});
  cache.runPass(1, {5, 6});
  CHECK(cache.list.useful().size() == 1);
  CHECK(cache.directory.expertOf(cache.list.useful()[0]) == 5);
  CHECK(cache.list.cancelled().size() == 2);
  CHECK(cache.prefetchedIn(1).empty());
  CHECK(cache.directory.prefetchPages() == 0);
}

TEST_CASE("a prefetch that was not begun is forgotten when its layer is executed") {
  PrefetchingCache cache = evenCache(4, 2);
  cache.name(1, kThreeOfEight, {3, 4, 5}); // The third has no room.
  cache.runPass(0, {0});
  CHECK(cache.prefetchedIn(1) == Experts{3, 4});
  CHECK(cache.list.hasNext());
  cache.runPass(1, {3});
  CHECK_FALSE(cache.list.hasNext());
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
        uint64_t held = cache.directory.prefetchPages();
        for (uint32_t l = 0; l < layers; ++l)
          held += cache.directory.pagesHeld(l);
        REQUIRE(held <= poolPages);
        REQUIRE(cache.directory.prefetchPages() <= staging);
      };
      size_t useful = 0;
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
            cache.name(layer + ahead, kThreeOfEight, someExperts(experts));
        Experts wanted = someExperts(pass % 11 == 0 ? experts : 4);
        Experts unkept = cache.runPass(layer, wanted, check);
        useful += cache.list.useful().size();
        REQUIRE(unkept == plain.runPass(layer, wanted));
        REQUIRE(cache.prefetchedIn(layer).empty());
        for (uint32_t id = 0; id < layers * experts; ++id)
          REQUIRE(cache.directory.at(id).isHeld == plain.directory.at(id).isHeld);
      }
      CHECK(cache.directory.prefetchPages() == 0); // Nothing is prefetched beyond the last layer.
      CHECK(useful > 0);
    }
}
