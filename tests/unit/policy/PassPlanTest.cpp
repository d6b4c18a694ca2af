#include "runtime/policy/PassPlan.h"

#include "tests/unit/policy/PassPlanDefinition.h"

#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace moert;

/// In memory since the layer pass `lastUse`, not wanted now.
static PassCandidate resident(uint32_t expert, uint64_t lastUse, uint64_t pages = 1) {
  return {.use = {expert, lastUse, 0, 0}, .pages = pages, .isReady = true};
}
/// Wanted by execute 100.
static PassCandidate missing(uint32_t expert, uint32_t rank, uint64_t pages = 1) {
  return {.use = {expert, 100, rank, 0}, .pages = pages, .isWanted = true};
}
static PassCandidate hit(uint32_t expert, uint32_t rank, uint64_t pages = 1) {
  return {.use = {expert, 100, rank, 0}, .pages = pages, .isReady = true, .isWanted = true};
}

/// Added to the numbers of experts for their upper slices.
static constexpr uint32_t kUpper = 100;

static PassCandidate upperOf(PassCandidate candidate) {
  candidate.use.isUpper = true;
  return candidate;
}

static std::vector<uint32_t> keptOf(const PassLimits &limits,
                                    std::vector<PassCandidate> candidates) {
  PassScratch scratch;
  planPass(limits, candidates, scratch);
  std::vector<uint32_t> kept;
  for (const PassCandidate &candidate : candidates)
    if (candidate.isKept)
      kept.push_back(candidate.use.expert + (candidate.use.isUpper ? kUpper : 0));
  return kept;
}

using Experts = std::vector<uint32_t>;

TEST_CASE("what fits into the quota stays") {
  PassLimits limits{4, 4, 1};
  CHECK(keptOf(limits, {resident(1, 5), resident(2, 6), missing(3, 0), hit(4, 1)}) ==
        Experts{1, 2, 3, 4});
}

TEST_CASE("beyond the quota the least recently used goes, whether or not it is the one in memory") {
  PassLimits limits{2, 2, 1};
  CHECK(keptOf(limits, {resident(1, 5), resident(2, 6), missing(3, 0)}) == Experts{2, 3});
}

TEST_CASE("of a pass that wants more than the quota the most popular stay") {
  PassLimits limits{2, 5, 1}; // 3 pages in staging.
  CHECK(keptOf(limits, {resident(9, 5), missing(1, 2), missing(2, 0), missing(3, 3), hit(4, 1)}) ==
        Experts{2, 4});
}

TEST_CASE("experts that pass through get room for two, even if something in memory has to go") {
  PassLimits limits{4, 4, 1}; // Nothing in staging.
  // Two of the six do not fit. Two pages are for them: of the four hits that would stay the two
  // least popular go, and when the layer pass is over the two that came have their pages.
  CHECK(keptOf(limits, {hit(0, 0), hit(1, 1), hit(2, 2), missing(3, 4), missing(4, 5),
                        hit(5, 3)}) == Experts{0, 1, 3, 4});
  // A single one needs room for one.
  CHECK(keptOf(limits, {hit(0, 0), hit(1, 1), hit(2, 2), hit(3, 3), missing(4, 4)}) ==
        Experts{0, 1, 2, 4});
}

TEST_CASE("what passes through stays where it fits, the last to leave first") {
  // 0 and 1 fill the quota. 5 and 6 pass, in two pages in staging and the two of 1, which 5 keeps.
  CHECK(keptOf({4, 6, 2}, {hit(0, 0, 2), hit(1, 1, 2), missing(5, 2, 2), missing(6, 3, 2)}) ==
        Experts{0, 5});
  // Both 0 and 1 make room for a record of 3 pages, which then has the whole quota.
  CHECK(keptOf({3, 4, 3}, {hit(0, 0, 1), hit(1, 1, 2), missing(5, 2, 3), missing(6, 3, 2)}) ==
        Experts{5});
}

TEST_CASE("missing experts that stay do not give way to those that pass through") {
  PassLimits limits{2, 2, 1};
  // They are read last, when the others have passed.
  CHECK(keptOf(limits, {missing(0, 0), missing(1, 1), missing(2, 2), missing(3, 3)}) ==
        Experts{0, 1});
}

TEST_CASE("a quota of nothing keeps nothing") {
  CHECK(keptOf({0, 3, 3}, {missing(0, 0, 3), missing(1, 1, 3)}).empty());
}

TEST_CASE("an expert larger than the quota is not kept and drives nobody out") {
  PassLimits limits{3, 8, 4};
  CHECK(keptOf(limits, {resident(0, 5, 3), missing(1, 0, 4)}) == Experts{0});
}

TEST_CASE("a pinned expert stays although it is the oldest") {
  PassLimits limits{2, 3, 1};
  std::vector<PassCandidate> candidates = {resident(1, 5), resident(2, 6), missing(3, 0)};
  candidates[0].isPinned = true;
  CHECK(keptOf(limits, candidates) == Experts{1, 3});
}

TEST_CASE("upper slices leave before their expert, and after one that was used before them") {
  const std::vector<PassCandidate> candidates = {resident(1, 5), upperOf(resident(1, 5)),
                                                 resident(2, 7), upperOf(resident(2, 6))};
  CHECK(keptOf({3, 3, 2}, candidates) == Experts{1, 2, 2 + kUpper});
  CHECK(keptOf({2, 2, 2}, candidates) == Experts{2, 2 + kUpper});
  CHECK(keptOf({1, 1, 1}, candidates) == Experts{2});
}

TEST_CASE("upper slices that would be read do not stay without their expert") {
  // 1 leaves for the two pages of records that pass through, of which its upper slices are one.
  CHECK(keptOf({3, 3, 2}, {hit(1, 2), upperOf(missing(1, 2)), hit(2, 0), missing(3, 3, 2)}) ==
        Experts{2, 3});
}

TEST_CASE("a record whose parts both pass through is one record") {
  // Both parts of 3 pass through, so that room for one record of two pages is enough.
  CHECK(keptOf({2, 4, 2}, {hit(1, 0), hit(2, 1), missing(3, 2), upperOf(missing(3, 2))}) ==
        Experts{1, 2});
}

TEST_CASE("with a pool of their own upper slices compete among themselves") {
  PassLimits limits{4, 8, 2};
  limits.upperPages = 1;
  const std::vector<PassCandidate> candidates = {resident(1, 5), upperOf(resident(1, 5)),
                                                 resident(2, 6), upperOf(resident(2, 4)),
                                                 missing(3, 0)};
  CHECK(keptOf(limits, candidates) == Experts{1, 1 + kUpper, 2, 3});
  limits.upperPages = 2;
  CHECK(keptOf(limits, candidates) == Experts{2, 2 + kUpper, 3}); // 1 takes its own along.
  limits.otherUpperPages = limits.otherPages = 2;
  CHECK(keptOf(limits, candidates) == Experts{2, 3});
}

TEST_CASE("a copy of high precision stays or passes through without a candidate below it") {
  // Low copies of a page, high ones of two; 2 gave up its low copy for a high one.
  const std::vector<PassCandidate> candidates = {resident(1, 5), upperOf(missing(2, 0, 2)),
                                                 upperOf(resident(3, 6, 2)), resident(4, 4)};
  CHECK(keptOf({6, 8, 2}, candidates) == Experts{1, 2 + kUpper, 3 + kUpper, 4});
  CHECK(keptOf({5, 7, 2}, candidates) == Experts{1, 2 + kUpper, 3 + kUpper});
  PassLimits limits{4, 8, 2};
  limits.upperPages = 2; // Each precision has its own pool.
  CHECK(keptOf(limits, candidates) == Experts{1, 2 + kUpper, 4});
  limits.upperPages = 1;
  CHECK(keptOf(limits, candidates) == Experts{1, 4});
}

/// Experts in memory, wanted, or both, some with upper slices as candidates of their own, some with
/// nothing but them.
static std::vector<PassCandidate> randomCandidates(std::mt19937 &draw, uint32_t experts,
                                                   bool hasUpper) {
  const auto random = [&draw] { return static_cast<uint32_t>(draw()); };
  std::vector<PassCandidate> candidates;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    const uint32_t kind = random() % 3;
    PassCandidate one = {
        .use = {expert, kind == 0 ? random() % 8 : 100u, random() % 16, random() % 4},
        .pages = 1 + random() % 4,
        .isReady = kind != 1,
        .isWanted = kind != 0,
        .isPinned = random() % 16 == 0,
        .isUsedAgain = random() % 2 == 0};
    PassCandidate upper = one;
    upper.use.isUpper = true;
    upper.use.value = std::min<uint64_t>(one.use.value, random() % 4);
    upper.pages = 1 + random() % 6;
    upper.isReady = one.isReady && random() % 2 == 0;
    upper.isWanted = one.isWanted && (random() % 2 == 0 || !upper.isReady);
    const bool isUpperACandidate = hasUpper && (upper.isReady || upper.isWanted);
    if (!isUpperACandidate || random() % 8 != 0)
      candidates.push_back(one);
    if (isUpperACandidate)
      candidates.push_back(upper);
  }
  std::shuffle(candidates.begin(), candidates.end(), draw);
  return candidates;
}

TEST_CASE("what stays is what the definition in plain loops keeps") {
  PassScratch scratch;
  std::mt19937 random(1);
  size_t reduced = 0;
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    std::vector<PassCandidate> found = randomCandidates(random, 1 + random() % 24, round % 3 != 0);
    uint64_t pages = 1;
    for (const PassCandidate &one : found)
      pages += one.pages;
    PassLimits limits{.quotaPages = random() % pages, .largestRecordPages = 1 + random() % 10};
    limits.limitPages = std::max(limits.quotaPages, limits.largestRecordPages) + random() % 12;
    limits.otherPages = random() % (limits.quotaPages + 1) / 3;
    if (round % 2 == 0) {
      limits.upperPages = random() % (limits.quotaPages + 1);
      limits.otherUpperPages = std::min(limits.otherPages, *limits.upperPages) / 2;
    }
    if (round % 5 == 0)
      limits.onceTargetPages = random() % pages;
    std::vector<PassCandidate> expected = found;
    moert::test::planByDefinition(limits, expected);
    planPass(limits, found, scratch);
    for (size_t i = 0; i < found.size(); ++i)
      REQUIRE(found[i].isKept == expected[i].isKept);
    reduced += std::ranges::count_if(found, [](const PassCandidate &one) { return !one.isKept; });
  }
  CHECK(reduced > 4000);
}

TEST_CASE("the work of a pass grows with the candidates, not with their square or cube") {
  for (bool hasTwoPools : {false, true}) {
    std::mt19937 random(2);
    std::vector<PassCandidate> candidates = randomCandidates(random, 4096, true);
    uint64_t pages = 0;
    for (const PassCandidate &one : candidates)
      pages += one.pages;
    PassLimits limits{.quotaPages = pages / 3, .limitPages = pages / 3, .largestRecordPages = 10};
    if (hasTwoPools)
      limits.upperPages = pages / 6;
    PassScratch scratch;
    planPass(limits, candidates, scratch);
    CHECK(scratch.comparisons < 100 * candidates.size());
  }
}
