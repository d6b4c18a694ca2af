#include "compiler/plan/BeladyBound.h"

#include "tests/unit/plan/RandomTrace.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

/// One layer, one token a step.
static RoutingTrace traceOf(uint32_t experts, uint32_t topK, std::vector<uint16_t> chosen) {
  LayerRoutes layer{experts, topK, chosen};
  std::vector<TraceStep> steps(chosen.size() / topK);
  return makeTrace(std::span(&layer, 1), steps).value();
}

static std::vector<std::vector<uint64_t>> evenBytes(uint32_t layers, uint32_t experts,
                                                    uint64_t bytes) {
  return std::vector<std::vector<uint64_t>>(layers, std::vector<uint64_t>(experts, bytes));
}

TEST_CASE("what is needed last is let go, the newcomer too if that is it") {
  // Two of three stay:  0 1 2 0 1 2 0 1
  //   0, 1 missing. 2 is missing and wanted after 0 and 1: it passes. 0, 1 hits. 2 is missing; 0
  //   and 1 are wanted before it ever is again. 0, 1 hits.
  RoutingTrace trace = traceOf(3, 1, {0, 1, 2, 0, 1, 2, 0, 1});
  BeladyBound bound = beladyBound(trace, evenBytes(1, 3, 8192), 4096, 4);
  CHECK(bound.misses == 4);
  CHECK(bound.bytesRead == 4 * 8192);
}

TEST_CASE("experts that the cache starts with are hits, as far as the pages hold them") {
  RoutingTrace trace = traceOf(3, 1, {0, 1, 2, 0, 1, 2, 0, 1});
  const HeldExperts all = {{2, 1, 0}}, last = {{2}};
  CHECK(beladyBound(trace, evenBytes(1, 3, 8192), 4096, 4, all).misses == 2);
  CHECK(beladyBound(trace, evenBytes(1, 3, 8192), 4096, 6, all).misses == 0);
  CHECK(beladyBound(trace, evenBytes(1, 3, 8192), 4096, 6, last).misses == 2);
}

TEST_CASE("the bound while decoding is that of decode steps alone: prompts read for nothing") {
  // A prompt demands 0 and 1, then a token 2, a prompt 0, a token 0.
  std::vector<uint16_t> chosen{0, 1, 2, 0, 0, 0};
  LayerRoutes layer{3, 1, chosen};
  const std::vector<TraceStep> steps{{2, true}, {1}, {2, true}, {1}};
  const RoutingTrace trace = makeTrace(std::span(&layer, 1), steps).value();
  const BeladyBound one = beladyBound(trace, evenBytes(1, 3, 4096), 4096, 1);
  CHECK(one.bytesRead == 3 * 4096);   // 0 stays.
  CHECK(one.decodeBytesRead == 4096); // 2; the second prompt brings 0.
  CHECK(beladyBound(trace, evenBytes(1, 3, 4096), 4096, 1, {{2}}).decodeBytesRead == 0);
}

TEST_CASE("the pages are one pool for all layers") {
  // Layer 0 wants 0 1 0 1, layer 1 always 0: of three pages layer 0 gets two.
  std::vector<uint16_t> first{0, 1, 0, 1}, second{0, 0, 0, 0};
  std::vector<LayerRoutes> layers{{2, 1, first}, {2, 1, second}};
  RoutingTrace trace = makeTrace(layers, std::vector<TraceStep>(4)).value();
  CHECK(beladyBound(trace, evenBytes(2, 2, 4096), 4096, 3).misses == 3);
  // One of two pages is layer 1's (2 hits of 3 with one page), the other gives one hit of 2.
  CHECK(beladyBound(trace, evenBytes(2, 2, 4096), 4096, 2).misses == 4);
}

TEST_CASE("records of different sizes may stay in part") {
  // 3 and 1 pages, alternating, two pages: the cache keeps 1 page of the one and all of the other.
  RoutingTrace trace = traceOf(2, 1, {0, 1, 0, 1});
  BeladyBound bound =
      beladyBound(trace, std::vector<std::vector<uint64_t>>{{12288, 4096}}, 4096, 2);
  CHECK(bound.bytesRead == 12288 + 4096 + 8192);
  CHECK(bound.misses == 2); // As if both were of one page.
}

/// The fewest misses of any cache, by trying every content after every layer pass; those of
/// decode steps alone where they alone count.
static uint32_t fewestMisses(const RoutingTrace &trace, uint32_t capacity, uint32_t start,
                             bool countsPrompts) {
  uint32_t experts = trace.layerExperts[0], sets = 1u << experts;
  std::vector<uint32_t> misses(sets, UINT32_MAX);
  for (uint32_t held = 0; held < sets; ++held)
    if ((held & ~start) == 0 && static_cast<uint32_t>(__builtin_popcount(held)) <= capacity)
      misses[held] = 0;
  for (const RoutingPass &pass : trace.passes) {
    uint32_t wanted = 0;
    for (uint32_t expert : trace.demandOf(pass).wanted)
      wanted |= 1u << expert;
    std::vector<uint32_t> next(sets, UINT32_MAX);
    for (uint32_t held = 0; held < sets; ++held) {
      if (misses[held] == UINT32_MAX)
        continue;
      const auto missing = static_cast<uint32_t>(__builtin_popcount(wanted & ~held));
      const uint32_t cost = misses[held] + (countsPrompts || pass.tokens == 1 ? missing : 0);
      for (uint32_t after = held | wanted, part = after;; part = (part - 1) & after) {
        if (static_cast<uint32_t>(__builtin_popcount(part)) <= capacity)
          next[part] = std::min(next[part], cost);
        if (part == 0)
          break;
      }
    }
    misses = next;
  }
  return *std::min_element(misses.begin(), misses.end());
}

TEST_CASE("no cache of whole experts of one size can do better, and one can do as well") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<TraceStep> steps;
    for (int i = 0; i < 20; ++i)
      steps.push_back({random() % 3 == 0 ? 3u : 1u});
    RoutingTrace trace = randomTrace(random, 1, 6, 1 + random() % 3, steps);
    const HeldExperts starts[] = {{}, {{1, 4, 5}}};
    for (uint32_t capacity = 0; capacity <= 6; ++capacity)
      for (uint32_t start : {0u, 1u << 1 | 1u << 4 | 1u << 5}) {
        const BeladyBound bound =
            beladyBound(trace, evenBytes(1, 6, 4096), 4096, capacity, starts[start != 0]);
        REQUIRE(bound.misses == fewestMisses(trace, capacity, start, true));
        REQUIRE(bound.decodeBytesRead == 4096 * fewestMisses(trace, capacity, start, false));
      }
  }
}
