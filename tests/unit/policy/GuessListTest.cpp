// Which experts are guessed, and what becomes of guesses when layers are played.
#include "runtime/policy/GuessList.h"

#include "tests/unit/policy/AllCacheRules.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

constexpr GuessRule kThreeOfEight{Predictor::kGate, 1, 8, 3, 0};

/// A directory with guesses, played without time: what is guessed is read at the end of a play.
struct GuessingCache {
  GuessingCache(const CacheRules &rules, const std::vector<std::vector<uint32_t>> &pages,
                const std::vector<uint64_t> &quotas, uint64_t transit)
      : GuessingCache(rules, pages, quotas, transit, sizeOf(pages)) {}

  Experts play(uint32_t layer, const Experts &wanted) {
    return play(layer, wanted, [] {});
  }

  /// The unkept experts; `check` runs whenever pages have changed.
  template <typename Check> Experts play(uint32_t layer, const Experts &wanted, Check check) {
    REQUIRE(directory.beginPlay(layer, PlayDemand{wanted}));
    Experts unkept(directory.unkept().begin(), directory.unkept().end());
    list.beginPlay(directory, layer);
    dropRefuted();
    list.select(directory);
    check();
    for (uint32_t expert : wanted)
      readInTurn(directory.idOf(layer, expert), check);
    for (uint32_t id : unkept)
      if (directory.at(id).isHeld)
        directory.drop(id);
    readGuesses(check);
    directory.endPlay();
    readGuesses(check);
    return unkept;
  }

  void dropRefuted() {
    for (uint32_t id : list.refuted())
      directory.dropGuess(id);
  }

  void name(uint32_t layer, const GuessRule &rule, const Experts &experts) {
    std::vector<GuessCandidate> candidates;
    for (uint32_t expert : experts)
      candidates.push_back({expert, kWholeShare / 8});
    list.name({layer, rule, candidates});
  }

  Experts guessedIn(uint32_t layer) const {
    Experts guessed;
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert)
      if (directory.at(directory.idOf(layer, expert)).isGuess)
        guessed.push_back(expert);
    return guessed;
  }

  CacheDirectory directory;
  GuessList list;

private:
  static DirectorySize sizeOf(const std::vector<std::vector<uint32_t>> &pages) {
    DirectorySize size{.layers = pages.size()};
    for (const std::vector<uint32_t> &layer : pages) {
      size.experts += layer.size();
      size.widestLayer = std::max(size.widestLayer, layer.size());
    }
    return size;
  }
  GuessingCache(const CacheRules &rules, const std::vector<std::vector<uint32_t>> &pages,
                const std::vector<uint64_t> &quotas, uint64_t transit, const DirectorySize &size)
      : directory(rules, transit, size), list(size) {
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

  template <typename Check> void readGuesses(Check check) {
    while (list.hasNext() && !directory.at(list.next()).isHeld &&
           directory.hasRoomForGuess(list.next())) {
      list.begin(directory);
      check();
    }
  }
};

} // namespace

static GuessingCache evenCache(uint64_t quota, uint64_t transit, const CacheRules &rules = {}) {
  return GuessingCache(rules, std::vector<std::vector<uint32_t>>(4, std::vector<uint32_t>(8, 1)),
                       std::vector<uint64_t>(4, quota), transit);
}

static Experts selected(const CacheDirectory &directory, const GuessRule &rule, uint32_t layer,
                        const std::vector<GuessCandidate> &candidates) {
  std::vector<uint32_t> ids, leaving;
  selectGuesses(rule, directory, layer, candidates, ids, leaving);
  for (uint32_t &id : ids)
    id = directory.expertOf(id);
  return ids;
}

TEST_CASE("a plan guesses where the rule of one layer at least names a predictor") {
  CHECK_FALSE(guessesAnything({}));
  std::vector<GuessRule> rules(3);
  CHECK_FALSE(guessesAnything(rules));
  rules.back().predictor = Predictor::kGate;
  CHECK(guessesAnything(rules));
}

TEST_CASE("the likeliest absent experts are guessed, up to the rule's limits") {
  GuessingCache cache = evenCache(4, 4);
  cache.play(1, {5});
  std::vector<GuessCandidate> candidates{{5, 900}, {2, 800}, {7, 700}, {0, 600}, {1, 500}};
  const CacheDirectory &directory = cache.directory;
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 8, 0}, 1, candidates) == Experts{2, 7, 0, 1});
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 2, 0}, 1, candidates) == Experts{2, 7});
  CHECK(selected(directory, {Predictor::kGate, 1, 2, 8, 0}, 1, candidates) == Experts{2});
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 8, 600}, 1, candidates) == Experts{2, 7, 0});
  CHECK(selected(directory, {Predictor::kOff, 1, 5, 8, 0}, 1, candidates).empty());
  CHECK(selected(directory, {Predictor::kGate, 1, 5, 8, 0}, 2, {{5, 900}}) == Experts{5});
}

TEST_CASE("an expert that has pages as a guess is not guessed again") {
  GuessingCache cache = evenCache(4, 4);
  cache.directory.holdGuess(cache.directory.idOf(1, 2));
  CHECK(selected(cache.directory, kThreeOfEight, 1, {{2, 9}, {3, 8}}) == Experts{3});
}

constexpr CacheRules kOneLruPool{EvictionPolicy::kLru, CacheSharing::kOnePool,
                                 PromptSurvival::kEverything};

TEST_CASE("an expert that is in memory is not read, though the open play does not keep it") {
  GuessingCache cache = evenCache(1, 4, kOneLruPool);
  cache.play(1, {6, 7});
  cache.play(0, {0, 1});
  REQUIRE(cache.directory.beginPlay(0, PlayDemand{Experts{2}}));
  Experts absent, leaving, seven{cache.directory.idOf(1, 7)};
  REQUIRE(Experts(cache.directory.unkept().begin(), cache.directory.unkept().end()) == seven);
  const std::vector<GuessCandidate> candidates{{6, 9}, {7, 9}, {5, 8}};
  selectGuesses({Predictor::kGate, 1, 8, 1, 0}, cache.directory, 1, candidates, absent, leaving);
  CHECK(absent == Experts{cache.directory.idOf(1, 5)}); // The only read that the rule allows.
  CHECK(leaving == seven);
}

TEST_CASE("an expert that would leave becomes a guess with its pages, as far as there is room") {
  for (uint64_t transit : {0, 1, 2, 4}) {
    CAPTURE(transit);
    GuessingCache cache = evenCache(1, transit, kOneLruPool);
    cache.play(1, {6, 7});
    cache.play(0, {0, 1});
    cache.name(1, kThreeOfEight, {7});
    cache.play(0, {2});
    CHECK(cache.list.retained().size() == (transit > 0 ? 1 : 0));
    CHECK(cache.directory.guessPages() == (transit > 0 ? 1 : 0));
    CHECK_FALSE(cache.directory.at(cache.directory.idOf(1, 7)).isHeld);
    CHECK_FALSE(cache.list.hasNext());
    cache.play(1, {7});
    CHECK(cache.list.adopted().size() == (transit > 0 ? 1 : 0));
    CHECK(cache.list.retained().empty());
  }
}

TEST_CASE("a layer with a record larger than the transit pages is not guessed") {
  GuessingCache cache({}, {{1, 1, 3}, {1, 1, 2}}, {4, 4}, 2);
  CHECK(selected(cache.directory, kThreeOfEight, 0, {{0, 9}}).empty());
  CHECK_FALSE(cache.directory.hasRoomForGuess(cache.directory.idOf(0, 0)));
  CHECK(selected(cache.directory, kThreeOfEight, 1, {{0, 9}}) == Experts{0});
  CHECK(cache.directory.hasRoomForGuess(cache.directory.idOf(1, 0)));
}

TEST_CASE("a wanted guess is adopted, another one of the layer is refuted") {
  GuessingCache cache = evenCache(4, 4);
  cache.name(1, kThreeOfEight, {3, 4, 5});
  cache.play(0, {0});
  CHECK(cache.guessedIn(1) == Experts{3, 4, 5});
  cache.play(1, {5, 6});
  CHECK(cache.list.adopted().size() == 1);
  CHECK(cache.directory.expertOf(cache.list.adopted()[0]) == 5);
  CHECK(cache.list.refuted().size() == 2);
  CHECK(cache.guessedIn(1).empty());
  CHECK(cache.directory.guessPages() == 0);
}

TEST_CASE("a guess that was not begun is forgotten when its layer is played") {
  GuessingCache cache = evenCache(4, 2);
  cache.name(1, kThreeOfEight, {3, 4, 5}); // The third has no room.
  cache.play(0, {0});
  CHECK(cache.guessedIn(1) == Experts{3, 4});
  CHECK(cache.list.hasNext());
  cache.play(1, {3});
  CHECK_FALSE(cache.list.hasNext());
}

TEST_CASE("the nearest layer is guessed first, in the order of likelihood") {
  GuessingCache cache = evenCache(4, 4);
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.name(1, kThreeOfEight, {4, 3, 2});
  cache.play(0, {0});
  CHECK(cache.guessedIn(1) == Experts{2, 3, 4});
  CHECK(cache.guessedIn(2) == Experts{7});
}

TEST_CASE("what is said of a layer replaces what was said before and not begun") {
  GuessingCache cache = evenCache(4, 2);
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.play(0, {0});
  CHECK(cache.guessedIn(2) == Experts{6, 7});
  cache.name(2, kThreeOfEight, {1, 7});
  cache.play(1, {0, 1, 2, 3, 4, 5}); // Two pass through the transit pages: no guess can stay.
  CHECK(cache.guessedIn(2) == Experts{1, 7});
}

TEST_CASE("a demand that lacks pages lets go guesses of later layers, the last one first") {
  GuessingCache cache = evenCache(4, 3);
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.play(0, {0});
  REQUIRE(cache.guessedIn(2) == Experts{5, 6, 7});
  cache.play(1, {0, 1, 2, 3}); // Fits into the quota.
  CHECK(cache.guessedIn(2) == Experts{5, 6, 7});
  cache.play(3, {0});
  cache.name(2, kThreeOfEight, {7, 6, 5});
  cache.play(0, {0});
  cache.play(1, {0, 1, 2, 3, 4}); // One more than the quota.
  CHECK(cache.guessedIn(2) == Experts{6, 7});
}

TEST_CASE("of more layers than may be guessed at a time the rest is not heard") {
  GuessingCache cache({}, std::vector<std::vector<uint32_t>>(6, std::vector<uint32_t>(4, 1)),
                      std::vector<uint64_t>(6, 2), 8);
  for (uint32_t layer = 1; layer < 6; ++layer)
    cache.name(layer, kThreeOfEight, {layer % 4});
  cache.play(0, {0});
  CHECK(cache.guessedIn(3) == Experts{3});
  CHECK(cache.guessedIn(4).empty());
}

TEST_CASE("whatever is guessed, decisions are the same, pages suffice and nothing is left over") {
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
      uint64_t transit = 5 + random() % 15;
      uint64_t poolPages = std::accumulate(quotas.begin(), quotas.end(), transit);
      GuessingCache cache(rules, pages, quotas, transit), plain(rules, pages, quotas, transit);
      auto check = [&] {
        uint64_t held = cache.directory.guessPages();
        for (uint32_t l = 0; l < layers; ++l)
          held += cache.directory.pagesHeld(l);
        REQUIRE(held <= poolPages);
        REQUIRE(cache.directory.guessPages() <= transit);
      };
      size_t adopted = 0;
      auto someExperts = [&](size_t most) {
        Experts all(experts);
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), random);
        all.resize(1 + random() % most);
        return all;
      };
      for (uint32_t play = 0; play < 120; ++play) {
        uint32_t layer = play % layers;
        for (uint32_t ahead = 1; ahead <= kMostAhead; ++ahead)
          if (layer + ahead < layers && random() % 2)
            cache.name(layer + ahead, kThreeOfEight, someExperts(experts));
        Experts wanted = someExperts(play % 11 == 0 ? experts : 4);
        Experts unkept = cache.play(layer, wanted, check);
        adopted += cache.list.adopted().size();
        REQUIRE(unkept == plain.play(layer, wanted));
        REQUIRE(cache.guessedIn(layer).empty());
        for (uint32_t id = 0; id < layers * experts; ++id)
          REQUIRE(cache.directory.at(id).isHeld == plain.directory.at(id).isHeld);
      }
      CHECK(cache.directory.guessPages() == 0); // Nothing is guessed beyond the last layer.
      CHECK(adopted > 0);
    }
}
