// Every policy on traces that are short enough to work out by hand, and the rules around them.
#include "runtime/policy/CacheDirectory.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

/// Ends a layer pass, whatever its experts need of pages meanwhile.
void readAndEvict(CacheDirectory &directory) {
  for (uint32_t id : directory.wanted())
    if (directory.at(id).unit.hasOtherCopyThan(directory.at(id).demanded))
      directory.apply(id, UnitEvent::kEvicted);
  for (uint32_t id : directory.wanted())
    if (directory.demand(id) != UnitState::kReady) {
      directory.apply(id, UnitEvent::kReadBegun);
      directory.apply(id, UnitEvent::kReadCompleted);
    }
  for (uint32_t id : directory.unkept())
    directory.apply(id, UnitEvent::kEvicted);
  for (uint32_t id : directory.reduced())
    directory.apply(id, UnitEvent::kReduced);
  directory.endPass();
}

/// Layers of records of one page.
struct SmallCache {
  SmallCache(const CacheRules &rules, std::vector<uint64_t> quotas, uint32_t experts,
             uint64_t staging = 0)
      : directory(rules, staging, {quotas.size(), quotas.size() * experts, experts}) {
    for (uint64_t quota : quotas) {
      directory.addLayer(quota);
      for (uint32_t expert = 0; expert < experts; ++expert)
        directory.addExpert(1);
    }
  }

  /// The experts that had to be read.
  Experts runPass(uint32_t layer, const PassDemand &demand) {
    Experts missing;
    REQUIRE(directory.beginPass(layer, demand));
    for (uint32_t expert : demand.wanted)
      if (!directory.at(directory.idOf(layer, expert)).isHeld())
        missing.push_back(expert);
    readAndEvict(directory);
    return missing;
  }
  Experts runPass(uint32_t layer, const Experts &wanted) {
    return runPass(layer, PassDemand{wanted});
  }

  Experts heldIn(uint32_t layer) const {
    Experts held;
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert)
      if (directory.at(directory.idOf(layer, expert)).isHeld())
        held.push_back(expert);
    return held;
  }

  CacheDirectory directory;
};

} // namespace

static CacheRules rulesOf(EvictionPolicy policy, CacheSharing sharing = CacheSharing::kLayerQuotas,
                          PromptSurvival survival = PromptSurvival::kEverything) {
  return {policy, sharing, survival};
}

TEST_CASE("LRU keeps what was wanted last") {
  SmallCache cache(rulesOf(EvictionPolicy::kLru), {2}, 4);
  for (const Experts &wanted : {Experts{0}, {0}, {0}, {1}, {2}})
    cache.runPass(0, wanted);
  CHECK(cache.heldIn(0) == Experts{1, 2});
}

TEST_CASE("LFU counts the uses of experts that are not in memory, too") {
  SmallCache cache(rulesOf(EvictionPolicy::kLfu), {2}, 4, 1);
  for (const Experts &wanted : {Experts{0}, {0}, {0}, {1}, {1}, {2}})
    cache.runPass(0, wanted);
  CHECK(cache.heldIn(0) == Experts{0, 1}); // 3, 2 and 1 uses.
  CHECK(cache.runPass(0, Experts{2}) == Experts{2});
  CHECK(cache.heldIn(0) == Experts{0, 2}); // 3, 2 and 2: the older last use goes.
}

TEST_CASE("LFU counts the tokens of a chunk") {
  SmallCache cache(rulesOf(EvictionPolicy::kLfu), {2}, 4, 2);
  Experts wanted{3, 1, 0}, uses{9, 3, 1};
  cache.runPass(0, PassDemand{wanted, uses, 10});
  CHECK(cache.heldIn(0) == Experts{1, 3});
  cache.runPass(0, Experts{0});
  cache.runPass(0, Experts{0});
  cache.runPass(0, Experts{0});
  CHECK(cache.heldIn(0) == Experts{0, 3}); // 4, 3 and 9 uses.
}

TEST_CASE("EdgeMoE's layers compete by uses and nearness") {
  // Two layers share 2 pages.
  SmallCache cache(rulesOf(EvictionPolicy::kEdgeMoe, CacheSharing::kOnePool), {1, 1}, 4, 1);
  cache.runPass(0, Experts{0}); // Held: 0/0 with 1 use.
  cache.runPass(1, Experts{0}); // And 1/0.
  // Layer 0 executes: its own turn is 2 away, layer 1's turn 1. 1/2 for 0/0, 1/1 for 1/0, 1/2 for
  // 0/1: the two of layer 0 are equal, and 0/0 was used longer ago.
  cache.runPass(0, Experts{1});
  CHECK(cache.heldIn(0) == Experts{1});
  CHECK(cache.heldIn(1) == Experts{0});
  // Layer 1: 1 for 0/1; 1/2 for 1/0, 1/2 for 1/1, which was used later.
  cache.runPass(1, Experts{1});
  CHECK(cache.heldIn(0) == Experts{1});
  CHECK(cache.heldIn(1) == Experts{1});
}

TEST_CASE("with one pool smaller than a token's demand LRU never hits, least-stale does") {
  for (EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kLeastStale}) {
    SmallCache cache(rulesOf(policy, CacheSharing::kOnePool), {1, 1, 0}, 2, 1);
    size_t missing = 0;
    for (int token = 0; token < 4; ++token)
      for (uint32_t layer = 0; layer < 3; ++layer)
        missing += cache.runPass(layer, Experts{0}).size();
    // Least-stale lets go the layer furthest away, which is the one being executed: token after
    // token layers 0 and 1 are hits, layer 2 passes.
    CHECK(missing == (policy == EvictionPolicy::kLru ? 12 : 6));
  }
}

TEST_CASE("least-stale lets go what its layer did not want in its last turn") {
  SmallCache cache(rulesOf(EvictionPolicy::kLeastStale, CacheSharing::kOnePool), {2, 2}, 4);
  cache.runPass(0, Experts{0});
  cache.runPass(1, Experts{0});
  cache.runPass(0, Experts{1}); // 0/0 has missed a turn; 1/0 has not.
  cache.runPass(1, Experts{0});
  cache.runPass(0, Experts{1});
  cache.runPass(1, Experts{1});
  CHECK(cache.heldIn(0) == Experts{0, 1});
  CHECK(cache.heldIn(1) == Experts{0, 1});
  cache.runPass(0, Experts{2}); // A fifth page: 0/0 has missed 3 turns, 0/1 one, 1/0 one.
  CHECK(cache.heldIn(0) == Experts{1, 2});
  CHECK(cache.heldIn(1) == Experts{0, 1});
}

TEST_CASE("adaptive replacement keeps what is wanted again against experts that pass by once") {
  SmallCache cache(rulesOf(EvictionPolicy::kArc), {3}, 8);
  for (const Experts &wanted : {Experts{0}, {1}, {0}, {1}, {2}, {3}, {4}, {5}})
    cache.runPass(0, wanted);
  CHECK(cache.heldIn(0) == Experts{0, 1, 5}); // LRU would hold 3, 4, 5.
}

TEST_CASE("adaptive replacement gives pages to experts wanted once when their ghosts are wanted") {
  SmallCache cache(rulesOf(EvictionPolicy::kArc), {3}, 8);
  for (const Experts &wanted : {Experts{0}, {1}, {0}, {1}, {2}, {3}})
    cache.runPass(0, wanted);
  CHECK(cache.heldIn(0) == Experts{0, 1, 3}); // Once: 3; again: 0, 1; ghost: 2.
  cache.runPass(0, Experts{2});               // The target becomes 1 page: not 3 goes, but 0.
  CHECK(cache.heldIn(0) == Experts{1, 2, 3});
}

TEST_CASE(
    "the reuseDistance policy holds the popular against a newcomer and forgets them in time") {
  SmallCache cache(rulesOf(EvictionPolicy::kReuseDistance), {2}, 4, 2);
  for (int token = 0; token < 100; ++token)
    cache.runPass(0, Experts{0, 1});
  // Frequencies after 100 tokens: long 1 - (63/64)^100 = 0.79, recent 1.
  cache.runPass(0, Experts{2}); // (8/64 + 1/2) / 9 = 0.07 against about 0.75.
  CHECK(cache.heldIn(0) == Experts{0, 1});
  for (int token = 0; token < 100; ++token)
    cache.runPass(0, Experts{2, 3});
  CHECK(cache.heldIn(0) == Experts{2, 3});
}

TEST_CASE("the reuseDistance policy shares one pool by popularity among the layers") {
  SmallCache cache(rulesOf(EvictionPolicy::kReuseDistance, CacheSharing::kOnePool), {2, 2}, 4, 1);
  // Layer 0 always wants expert 0; layer 1 takes each of its four in turn.
  for (uint32_t token = 0; token < 40; ++token) {
    cache.runPass(0, Experts{0});
    cache.runPass(1, Experts{token % 4});
  }
  CHECK(cache.heldIn(0) == Experts{0});
  CHECK(cache.heldIn(1).size() == 3); // More than half of the pool.
}

TEST_CASE("with one pool a layer takes pages from another one, with quotas it does not") {
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool}) {
    SmallCache cache(rulesOf(EvictionPolicy::kLru, sharing), {2, 2}, 4);
    cache.runPass(0, Experts{0, 1});
    cache.runPass(1, Experts{0, 1, 2});
    bool isShared = sharing == CacheSharing::kOnePool;
    CHECK(cache.heldIn(0) == (isShared ? Experts{0} : Experts{0, 1}));
    CHECK(cache.heldIn(1).size() == (isShared ? 3 : 2));
  }
}

TEST_CASE("a pinned expert is never let go, by any policy") {
  for (EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kEdgeMoe, EvictionPolicy::kArc,
        EvictionPolicy::kLeastStale, EvictionPolicy::kReuseDistance}) {
    SmallCache cache(rulesOf(policy), {3}, 8);
    REQUIRE(cache.directory.pin(5));
    cache.runPass(0, Experts{5});
    for (uint32_t token = 0; token < 20; ++token)
      cache.runPass(0, Experts{token % 4, 6});
    CHECK(cache.directory.at(5).isHeld());
    cache.directory.unpin(5);
    for (uint32_t token = 0; token < 20; ++token)
      cache.runPass(0, Experts{token % 4, 6, 7});
    CHECK_FALSE(cache.directory.at(5).isHeld());
  }
}

TEST_CASE("pins leave room for the largest record") {
  SmallCache cache(rulesOf(EvictionPolicy::kLru), {2}, 4);
  CHECK(cache.directory.pin(0));
  CHECK(cache.directory.pin(0)); // Nests, and takes no more pages.
  CHECK_FALSE(cache.directory.pin(1));
  CHECK(cache.directory.pinnedPages(0) == 1);
  cache.directory.unpin(0);
  CHECK_FALSE(cache.directory.pin(1));
  cache.directory.unpin(0);
  CHECK(cache.directory.pin(1));
}

TEST_CASE(
    "a pass of an expert that does not exist or is wanted twice is refused and changes nothing") {
  SmallCache cache(rulesOf(EvictionPolicy::kLru), {2}, 4);
  CHECK_FALSE(cache.directory.beginPass(0, PassDemand{Experts{0, 4}}));
  CHECK_FALSE(cache.directory.beginPass(0, PassDemand{Experts{1, 2, 1}}));
  CHECK(cache.directory.at(1).history.lastUse == 0);
  CHECK(cache.runPass(0, Experts{1, 2}) == Experts{1, 2});
}

TEST_CASE("of what a layer is to start with the first experts that fit are taken") {
  SmallCache cache(rulesOf(EvictionPolicy::kLru), {3}, 8);
  cache.runPass(0, Experts{7});
  Experts wanted{4, 7, 2, 5}, fitting, uses;
  REQUIRE(cache.directory.selectFitting(0, PassDemand{wanted, Experts{9, 8, 7, 6}}, fitting, uses));
  CHECK(fitting == Experts{4, 7, 2}); // 7 is there already.
  CHECK(uses == Experts{9, 8, 7});
  CHECK_FALSE(cache.directory.selectFitting(0, PassDemand{Experts{8}}, fitting, uses));
  CHECK_FALSE(cache.directory.selectFitting(0, PassDemand{Experts{1, 1}}, fitting, uses));
}

TEST_CASE("where a prompt forgets all use what is in memory stays, and counts start again") {
  SmallCache cache(
      rulesOf(EvictionPolicy::kLfu, CacheSharing::kLayerQuotas, PromptSurvival::kContents), {2}, 4,
      1);
  for (const Experts &wanted : {Experts{0}, {0}, {0}, {1}})
    cache.runPass(0, wanted);
  cache.directory.beginPrompt();
  CHECK(cache.heldIn(0) == Experts{0, 1});
  cache.runPass(0, Experts{2});
  CHECK(cache.heldIn(0) == Experts{1, 2}); // 0 and 1 uses alike; the lowest expert goes.
}

TEST_CASE("a prompt fades the use of experts that have left, too") {
  SmallCache cache(rulesOf(EvictionPolicy::kReuseDistance), {1}, 4, 1);
  cache.runPass(0, Experts{0});
  cache.runPass(0, Experts{1}); // 1/2 of recent frequency against 1/4.
  REQUIRE(cache.heldIn(0) == Experts{1});
  const uint32_t before = cache.directory.at(0).history.longFrequency;
  cache.directory.beginPrompt();
  CHECK(cache.directory.at(0).history.longFrequency == before / 4);
}

TEST_CASE("to the reuseDistance policy experts of the prompt before count less than this one's") {
  for (bool isNewPrompt : {false, true}) {
    SmallCache cache(rulesOf(EvictionPolicy::kReuseDistance), {2}, 4, 1);
    for (int i = 0; i < 16; ++i)
      cache.runPass(0, Experts{0});
    if (isNewPrompt)
      cache.directory.beginPrompt();
    for (const Experts &wanted : {Experts{1}, {1}, {1}, {2}})
      cache.runPass(0, wanted);
    CAPTURE(isNewPrompt);
    // 8/9 of the long frequency, 1 - (63/64)^16 = 0.22, is 0.19 of 0 when 2 comes, or a quarter; 1
    // has (8 * 3/64 + 7/16) / 9 = 0.09, 2 has 0.07.
    CHECK(cache.heldIn(0) == (isNewPrompt ? Experts{1, 2} : Experts{0, 1}));
  }
}

/// What the open layer pass lets go, had every expert in memory stood for eviction; behind those
/// the experts of which it lets upper slices go.
static std::pair<Experts, Experts> unkeptOfAll(const CacheDirectory &directory, uint32_t executed,
                                               uint64_t quota, uint64_t staging,
                                               const std::vector<uint32_t> &turns) {
  std::vector<PassCandidate> all;
  uint32_t layers = static_cast<uint32_t>(directory.layerCount());
  PassLimits limits{quota, quota + staging, 0};
  for (uint32_t layer = 0; layer < layers; ++layer) {
    LayerDistance distance;
    distance.layers = layers;
    distance.layersAhead = layer > executed ? layer - executed : layer + layers - executed;
    distance.turn = turns[layer];
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert) {
      uint32_t id = directory.idOf(layer, expert);
      const DirectoryEntry &entry = directory.at(id);
      if (layer == executed)
        limits.largestRecordPages =
            std::max<uint64_t>(limits.largestRecordPages, entry.pages.most());
      if (!entry.isHeld() && !entry.isWanted)
        continue;
      auto add = [&](const ExpertHistory &history, bool isUpper, uint64_t pages, bool isReady,
                     bool isWanted) {
        PassCandidate candidate;
        candidate.use = {id, history.lastUse, history.rank,
                         keepingValue(directory.cacheRules().eviction, history, distance), isUpper};
        candidate.pages = pages;
        candidate.isReady = isReady;
        candidate.isWanted = isWanted;
        candidate.isPinned = entry.pins > 0;
        if (pages > 0 && (isReady || isWanted))
          all.push_back(candidate);
      };
      const uint16_t held = entry.isHeld() ? entry.unit.slicesHeld() : uint16_t(0),
                     wanted = entry.isWanted ? entry.demanded : uint16_t(0),
                     low = entry.unit.lowCopySlices, both = std::max(held, wanted);
      if (low > 0) { // One copy: the one in memory, unless a higher one is wanted.
        add(entry.history, both > low, directory.pagesFor(id, both),
            held > 0 && (held > low) == (both > low), entry.isWanted);
        continue;
      }
      const uint8_t base = directory.cacheRules().baseSlices;
      const uint64_t whole = directory.pagesFor(id, entry.unit.slices),
                     first = base == 0 ? whole : directory.pagesFor(id, base);
      add(entry.history, false, first, held > 0, wanted > 0);
      if (base > 0)
        add(directory.upperHistory(id), true, whole - first, held > base, wanted > base);
    }
  }
  PassScratch scratch;
  planPass(limits, all, scratch);
  Experts unkept, reduced;
  for (const PassCandidate &candidate : all)
    if (!candidate.isKept)
      (candidate.use.isUpper && !directory.at(candidate.use.expert).hasCopies() ? reduced : unkept)
          .push_back(candidate.use.expert);
  std::erase_if(reduced, [&](uint32_t id) { return std::ranges::count(unkept, id) > 0; });
  return {unkept, reduced};
}

TEST_CASE("with one pool the first few experts of each layer decide as if all of them did") {
  for (EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kEdgeMoe,
        EvictionPolicy::kLeastStale, EvictionPolicy::kReuseDistance})
    for (uint32_t seed = 0; seed < 30; ++seed) {
      CAPTURE(int(policy));
      CAPTURE(seed);
      std::mt19937 random(seed);
      uint32_t layers = 2 + random() % 4, experts = 4 + random() % 12;
      uint64_t quota = 30 + random() % 60, staging = random() % 12;
      const auto survival = static_cast<PromptSurvival>(seed % 2);
      CacheRules rules = rulesOf(policy, CacheSharing::kOnePool, survival);
      rules.baseSlices = seed % 2;
      CacheDirectory directory(rules, staging, {layers, size_t(layers) * experts, experts});
      for (uint32_t layer = 0; layer < layers; ++layer) {
        directory.addLayer(layer == 0 ? quota : 0);
        for (uint32_t expert = 0; expert < experts; ++expert) {
          const uint64_t pages = seed % 3 == 0 ? 4 : 1 + random() % 9;
          const uint64_t first = 1 + random() % pages;
          const bool hasCopies = seed % 5 >= 2 && first < pages && random() % 2 == 0;
          directory.addExpert(std::array{first, pages}, 1, hasCopies);
        }
      }
      REQUIRE(directory.pin(directory.idOf(1, 2)));
      std::vector<uint32_t> turns(layers);
      for (uint32_t pass = 0; pass < 150; ++pass) {
        if (pass == 75)
          directory.beginPrompt();
        uint32_t layer = pass % layers;
        Experts wanted(experts);
        for (uint32_t expert = 0; expert < experts; ++expert)
          wanted[expert] = expert;
        std::shuffle(wanted.begin(), wanted.end(), random);
        wanted.resize(pass % 13 == 0 ? experts : 1 + random() % 4);
        std::vector<uint16_t> slices;
        for (size_t i = 0; i < wanted.size(); ++i)
          slices.push_back(static_cast<uint16_t>(1 + random() % 2));
        REQUIRE(directory.beginPass(layer, {.wanted = wanted, .slices = slices}));
        ++turns[layer];
        Experts unkept(directory.unkept().begin(), directory.unkept().end());
        Experts reduced(directory.reduced().begin(), directory.reduced().end());
        std::ranges::sort(unkept);
        std::ranges::sort(reduced);
        REQUIRE(std::pair(unkept, reduced) == unkeptOfAll(directory, layer, quota, staging, turns));
        readAndEvict(directory);
      }
    }
}

TEST_CASE("a copy has the pages that its bytes lie in, whether or not low slices are held alone") {
  for (uint8_t baseSlices : {0, 1, 2}) {
    CAPTURE(int(baseSlices));
    CacheDirectory directory({.baseSlices = baseSlices}, 0, {});
    directory.addLayer(10);
    directory.addExpert(std::array<uint64_t, 3>{6, 14, 22}, 4, 1); // The low copy ends in page 1.
    directory.addExpert(std::array<uint64_t, 3>{6, 8, 22}, 4, 2);
    auto pagesOf = [&](uint32_t id, uint16_t slices) {
      const PageRange pages = directory.pageRangeFor(id, slices);
      return std::pair(pages.first, pages.end);
    };
    CHECK(pagesOf(0, 0) == std::pair(0u, 0u));
    CHECK(pagesOf(0, 1) == std::pair(0u, 2u));
    CHECK(pagesOf(0, 2) == std::pair(1u, 6u)); // For the whole copy, as for a record.
    CHECK(pagesOf(0, 3) == std::pair(1u, 6u));
    CHECK(pagesOf(1, 1) == std::pair(0u, 2u));
    CHECK(pagesOf(1, 2) == std::pair(0u, 2u));
    CHECK(pagesOf(1, 3) == std::pair(2u, 6u));
    CHECK(directory.at(0).bytes == 16);
    CHECK(directory.at(1).bytes == 14);
    CHECK(directory.at(0).pages.most() == 5);
    CHECK(directory.bytesOf(0, 1, 3) == 16);
    CHECK(directory.bytesOf(0, 0, 1) == 6);
    CHECK(directory.bytesOf(1, 0, 2) == 8);
    CHECK(directory.hasCopies());
  }
}

TEST_CASE("with two pools low copies are in one and copies of high precision in the other") {
  CacheDirectory directory({.baseSlices = 1, .upperPart = kFixedPointOne / 2}, 4, {});
  directory.addLayer(8);
  for (int expert = 0; expert < 8; ++expert)
    directory.addExpert(std::array<uint64_t, 2>{1, 5}, 1, 1); // One page, or four.
  auto runPass = [&](const Experts &wanted, const std::vector<uint16_t> &slices) {
    REQUIRE(directory.beginPass(0, {.wanted = wanted, .slices = slices}));
    readAndEvict(directory);
  };
  auto slicesHeld = [&] {
    std::vector<uint16_t> slices;
    for (uint32_t id = 0; id < 8; ++id)
      slices.push_back(directory.at(id).isHeld() ? directory.at(id).unit.slicesHeld()
                                                 : uint16_t(0));
    return slices;
  };
  runPass({0}, {2});
  for (uint32_t expert : {1, 2, 3, 4})
    runPass({expert}, {1});
  CHECK(slicesHeld() == std::vector<uint16_t>{2, 1, 1, 1, 1, 0, 0, 0});
  runPass({5}, {1}); // A low copy leaves for it, although it was used after the high one.
  CHECK(slicesHeld() == std::vector<uint16_t>{2, 0, 1, 1, 1, 1, 0, 0});
  runPass({2}, {2}); // The low copy of 2 leaves its page to others.
  CHECK(slicesHeld() == std::vector<uint16_t>{0, 0, 2, 1, 1, 1, 0, 0});
  runPass({6}, {1});
  CHECK(slicesHeld() == std::vector<uint16_t>{0, 0, 2, 1, 1, 1, 1, 0});
  CHECK(directory.pagesHeld(0) == 8);
  Experts fitting, uses;
  REQUIRE(directory.selectFitting(0, PassDemand{Experts{2, 7}}, fitting, uses));
  CHECK(fitting == Experts{2}); // The pool of the high copies is full.
}

TEST_CASE("adaptive replacement remembers by the pages that experts had, not by their records") {
  CacheDirectory directory({.eviction = EvictionPolicy::kArc, .baseSlices = 1}, 4, {});
  directory.addLayer(6);
  for (int expert = 0; expert < 8; ++expert)
    directory.addExpert(std::array<uint64_t, 2>{1, 4}, 1);
  auto runPass = [&](uint32_t expert, uint16_t slices) {
    const Experts wanted = {expert};
    REQUIRE(directory.beginPass(0, {.wanted = wanted, .slices = {&slices, 1}}));
    readAndEvict(directory);
  };
  for (uint32_t expert : {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5})
    runPass(expert, 1);
  runPass(6, 1);
  runPass(6, 1);
  // Seven pages are remembered of the twelve that may be; 28 pages of records would be too many.
  CHECK(directory.pagesHeld(0) == 6);
  CHECK(directory.adaptiveReplacement()->placeOf(0).list == ArcList::kAgainGhost);
  CHECK(directory.adaptiveReplacement()->placeOf(0).pages == 1);
  runPass(6, 2); // Three more pages: three experts leave.
  CHECK(directory.adaptiveReplacement()->placeOf(6).pages == 4);
  CHECK(directory.adaptiveReplacement()->placeOf(3).list == ArcList::kAgainGhost);
  CHECK(directory.pagesHeld(0) == 6);
}
