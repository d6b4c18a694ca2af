// Which experts are promoted and when they join; that the timing of reads changes nothing.
#include "runtime/policy/CacheMachine.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <set>
#include <vector>

using namespace moert;

using Experts = std::vector<uint32_t>;
using Importances = std::vector<uint64_t>;

namespace {

constexpr uint32_t kExperts = 6;

/// A machine whose reads complete when a test says so, at the latest when a promotion waits.
struct ExchangingCache {
  ExchangingCache(const ExchangeRule &exchange, const std::vector<uint64_t> &pages,
                  uint64_t staging, uint32_t recordPages = 1)
      : quotas(pages), machine(directoryOf(exchange, pages, staging, recordPages), {16, 2}) {}

  /// A step of one token in one layer: demands these experts, adds these importances.
  void runPass(uint32_t layer, const Experts &wanted, const Importances &added,
               uint32_t tokens = 1) {
    REQUIRE(machine.beginPass(layer, {.wanted = wanted, .tokens = tokens, .importances = added}));
    for (act(); !machine.isAllHandedOut(); act()) {
      if (machine.ready().empty())
        finish();
      else
        machine.release(machine.handOut(false));
    }
    machine.endPass();
    for (act(); !machine.settlePromotions(); act()) {
      ++waits;
      finish();
    }
    act();
    REQUIRE(machine.state().forbiddenEvents() == 0);
    REQUIRE(machine.state().pagesHeld(layer) <= quotaOf(layer));
    REQUIRE(machine.state().prefetchPages() <= machine.state().pagesInStaging());
    last = machine.takeCounts();
    sum += last;
  }

  /// Completes the reads under way.
  void finish() {
    for (uint32_t id : reading)
      REQUIRE(machine.completed(id, true));
    reading.clear();
  }

  Experts held(uint32_t layer) const {
    Experts list;
    for (uint32_t expert = 0; expert < kExperts; ++expert)
      if (machine.at(machine.state().idOf(layer, expert)).isHeld())
        list.push_back(expert);
    return list;
  }
  uint64_t quotaOf(uint32_t layer) const { return quotas[layer]; }

  std::vector<uint64_t> quotas;
  CacheMachine machine;
  std::vector<uint32_t> reading;
  CacheCounts last, sum;
  uint32_t waits = 0;

private:
  static CacheDirectory directoryOf(const ExchangeRule &exchange,
                                    const std::vector<uint64_t> &pages, uint64_t staging,
                                    uint32_t recordPages) {
    CacheDirectory directory({.eviction = EvictionPolicy::kImportance, .exchange = exchange},
                             staging, {});
    for (uint64_t quota : pages) {
      directory.addLayer(quota);
      for (uint32_t expert = 0; expert < kExperts; ++expert)
        directory.addExpert(recordPages, 4096);
    }
    return directory;
  }

  void act() {
    while (const std::optional<CacheAction> action = machine.next())
      if (action->isRead)
        reading.push_back(action->id);
  }
};

/// So much for one expert, nothing for the others.
Importances only(uint32_t expert, uint64_t added) {
  Importances all(kExperts);
  all[expert] = added;
  return all;
}

const Importances kNothing(kExperts);

} // namespace

TEST_CASE(
    "the most important absent expert takes the place of the least important one, a token later") {
  ExchangingCache cache({1, 1, 6}, {2, 2}, 2);
  cache.runPass(0, {0, 1}, {4000, 3000, 0, 0, 0, 0});
  cache.runPass(1, {0, 1}, {4000, 3000, 0, 0, 0, 0});
  CHECK(cache.held(0) == Experts{0, 1});
  // Experts 2 and 3 are more important than 1: 3 is the most important. Layer 1 has the last layer
  // pass before the turn of layer 0.
  cache.runPass(0, {0}, {0, 0, 5000, 6000, 0, 0});
  CHECK(cache.held(0) == Experts{0, 1});
  CHECK(cache.machine.hasPrefetchToRead() == false);
  CHECK(cache.reading.size() == 1);
  cache.finish();
  cache.runPass(1, {0}, kNothing);
  CHECK(cache.held(0) == Experts{0, 3});
  CHECK(cache.waits == 0);
  CHECK(cache.sum.promoted == 1);
  CHECK(cache.machine.slicesCounted(3) == 1);
  CHECK(cache.machine.slicesCounted(1) == 0);
}

TEST_CASE("nothing is exchanged for an expert that is not more important, or is pinned") {
  ExchangingCache cache({1, 1, 6}, {2, 2}, 2);
  REQUIRE(cache.machine.pin(1));
  cache.runPass(0, {0, 1}, {4000, 0, 0, 0, 0, 0});
  cache.runPass(1, {0}, kNothing);
  // More than the pinned expert 1, less than expert 0.
  cache.runPass(0, {0}, only(2, 3000));
  cache.runPass(1, {0}, kNothing);
  CHECK(cache.held(0) == Experts{0, 1});
  CHECK(cache.sum.promotionsRead == 0);
}

TEST_CASE("a promotion that has not arrived by its time is waited for") {
  ExchangingCache cache({1, 1, 6}, {1, 1}, 2);
  cache.runPass(0, {0}, only(0, 100));
  cache.runPass(1, {0}, kNothing);
  cache.runPass(0, {0}, only(1, 5000));
  CHECK(cache.waits == 0);
  cache.runPass(1, {0}, kNothing);
  CHECK(cache.waits == 1);
  CHECK(cache.held(0) == Experts{1});
}

TEST_CASE("what lost its importance meanwhile does not join, and its pages are free again") {
  ExchangingCache cache({2, 2, 1}, {1, 1}, 1);
  cache.runPass(0, {0}, only(0, 100)); // Turns 2, 4, ... of layer 0 exchange.
  cache.runPass(1, {0}, kNothing);
  cache.runPass(0, {0}, only(1, 5000));
  cache.runPass(1, {0}, kNothing);
  CHECK(cache.machine.state().prefetchPages() == 1);
  cache.runPass(0, {0}, only(0, 100000));
  cache.runPass(1, {0}, kNothing);
  CHECK(cache.held(0) == Experts{0});
  CHECK(cache.sum.promoted == 0);
  CHECK(cache.sum.cancelled == 1);
  CHECK(cache.machine.state().prefetchPages() == 0);
}

TEST_CASE("a promotion whose read fails is an error, and nothing is exchanged") {
  ExchangingCache cache({1, 1, 6}, {1, 1}, 2);
  cache.runPass(0, {0}, only(0, 10));
  cache.runPass(1, {0}, kNothing);
  cache.runPass(0, {0}, only(1, 5000));
  REQUIRE(cache.reading.size() == 1);
  CHECK_FALSE(cache.machine.completed(cache.reading.front(), false));
  cache.reading.clear();
  CHECK(cache.machine.settlePromotions());
  cache.runPass(1, {0}, kNothing);
  CHECK(cache.held(0) == Experts{0});
  CHECK(cache.machine.state().prefetchPages() == 0);
}

TEST_CASE("layers exchange in turn, each once in a round of tokens") {
  constexpr uint32_t kRound = 4;
  ExchangingCache cache({kRound, 1, 11}, {1, 1, 1, 1}, 4);
  std::mt19937 random(5);
  std::vector<Experts> promotedAt(4);
  for (uint32_t token = 0; token < 5 * kRound; ++token)
    for (uint32_t layer = 0; layer < 4; ++layer) {
      const uint64_t before = cache.sum.promotionsRead;
      // Another expert becomes important with every token.
      cache.runPass(layer, {cache.held(layer).empty() ? 0 : cache.held(layer)[0]},
                    only(token % kExperts, 1000 + 1000 * token));
      if (cache.sum.promotionsRead > before)
        promotedAt[layer].push_back(token);
      cache.finish();
    }
  std::set<uint32_t> places;
  for (const Experts &tokens : promotedAt) {
    CHECK(tokens.size() >= 4);
    for (uint32_t token : tokens)
      CHECK(token % kRound == tokens[0] % kRound);
    places.insert(tokens[0] % kRound);
  }
  CHECK(places.size() == 4);
}

TEST_CASE("promotions have at most the staging pages, and a demand that needs these comes first") {
  ExchangingCache cache({1, 1, 6}, {1, 1, 1}, 1);
  for (uint32_t layer : {0, 1, 2})
    cache.runPass(layer, {0}, only(0, 10));
  cache.runPass(0, {0}, only(1, 5000));
  cache.runPass(1, {0}, only(1, 5000)); // There is a page for one of them only.
  CHECK(cache.sum.promotionsRead == 1);
  // The demand of two more experts takes the page.
  cache.runPass(2, {0, 2, 3}, kNothing, 2);
  CHECK(cache.held(0) == Experts{0});
  CHECK(cache.sum.promoted == 0);
  CHECK(cache.sum.cancelled == 1);
}

TEST_CASE("an expert that is demanded while it is being promoted is used, and its promotion ends") {
  ExchangingCache cache({2, 2, 6}, {1, 1}, 2);
  cache.runPass(0, {0}, only(0, 10));
  cache.runPass(1, {0}, kNothing);
  cache.runPass(0, {0}, only(1, 5000));
  CHECK(cache.reading.size() == 1);
  cache.runPass(1, {0}, kNothing);
  cache.runPass(0, {1}, kNothing);
  CHECK(cache.last.useful == 1);
  CHECK(cache.held(0) == Experts{1});
  CHECK(cache.sum.promoted == 0);
}

TEST_CASE("steps of several tokens ask for no promotion, and a prompt cancels all") {
  ExchangingCache cache({1, 1, 6}, {1, 1}, 2);
  cache.runPass(0, {0}, only(0, 10));
  cache.runPass(1, {0}, kNothing);
  cache.runPass(0, {0}, only(1, 5000), 2);
  CHECK(cache.sum.promotionsRead == 0);
  cache.runPass(1, {0}, only(1, 5000));
  CHECK(cache.sum.promotionsRead == 1);
  cache.finish();
  cache.machine.beginPrompt();
  while (cache.machine.next())
    ;
  CHECK(cache.machine.state().prefetchPages() == 0);
}

TEST_CASE(
    "the same demands and importances give the same experts in memory, however late reads are") {
  uint32_t waits = 0;
  for (const ExchangeRule &exchange :
       {ExchangeRule{1, 1, 3}, ExchangeRule{3, 1, 4}, ExchangeRule{5, 4, 6}})
    for (uint32_t seed = 0; seed < 20; ++seed) {
      CAPTURE(exchange.everyTokens);
      CAPTURE(seed);
      std::mt19937 random(seed), timing(seed + 1000);
      const uint32_t recordPages = 1 + random() % 2;
      const std::vector<uint64_t> quotas = {2 * recordPages, 3 * recordPages, 4 * recordPages};
      const uint64_t staging = recordPages * (1 + random() % 4);
      ExchangingCache prompt(exchange, quotas, staging, recordPages);
      ExchangingCache late(exchange, quotas, staging, recordPages);
      for (uint32_t pass = 0; pass < 300; ++pass) {
        const uint32_t layer = pass % 3;
        // Experts in memory, as a mask has it; now and then another one.
        Experts wanted = prompt.held(layer);
        if (wanted.empty() || random() % 40 == 0)
          wanted = {uint32_t(random() % kExperts)};
        Importances added(kExperts);
        for (int use = 0; use < 2; ++use)
          added[random() % kExperts] += random() % 10000;
        const uint32_t tokens = random() % 50 == 0 ? 3 : 1;
        prompt.runPass(layer, wanted, added, tokens);
        prompt.finish();
        late.runPass(layer, wanted, added, tokens);
        if (timing() % 4 == 0)
          late.finish();
        for (uint32_t each = 0; each < 3; ++each)
          REQUIRE(prompt.held(each) == late.held(each));
        CHECK(prompt.last.promoted == late.last.promoted);
        CHECK(prompt.last.hits == late.last.hits);
      }
      CHECK(prompt.sum.promoted > 10);
      CHECK(prompt.waits == 0);
      waits += late.waits;
    }
  CHECK(waits > 100);
}
