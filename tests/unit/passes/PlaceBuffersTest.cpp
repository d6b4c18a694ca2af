// Offsets of buffers, checked by rules that are independent of how the offsets were found.
#include "passes/PlaceBuffers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using mlir::moe::Lifetime;
using mlir::moe::placeBuffers;

namespace {

uint64_t arenaBytes(const std::vector<Lifetime> &lifetimes, const std::vector<uint64_t> &offsets) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i)
    bytes = std::max(bytes, offsets[i] + lifetimes[i].bytes);
  return bytes;
}

/// A lower bound of any placement: the live bytes at the fullest instruction.
uint64_t fullestInstant(const std::vector<Lifetime> &lifetimes) {
  uint64_t fullest = 0;
  for (uint32_t t = 0; t < 1000; ++t) {
    uint64_t alive = 0;
    for (const Lifetime &l : lifetimes)
      if (l.first <= t && t <= l.last)
        alive += l.bytes;
    fullest = std::max(fullest, alive);
  }
  return fullest;
}

std::vector<Lifetime> randomLifetimes(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Lifetime> lifetimes(1 + random() % 60);
  for (Lifetime &l : lifetimes) {
    l.bytes = 64 * (1 + random() % 40);
    l.first = random() % 100;
    l.last = l.first + random() % 20;
  }
  return lifetimes;
}

} // namespace

TEST_CASE("buffers with overlapping lifetimes never share bytes") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::vector<Lifetime> lifetimes = randomLifetimes(seed);
    std::vector<uint64_t> offsets = placeBuffers(lifetimes);
    REQUIRE(offsets.size() == lifetimes.size());
    for (size_t i = 0; i < offsets.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        bool isTogether =
            lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
        bool isApart = offsets[i] + lifetimes[i].bytes <= offsets[j] ||
                       offsets[j] + lifetimes[j].bytes <= offsets[i];
        CHECK((!isTogether || isApart));
      }
  }
}

TEST_CASE("offsets are multiples of the sizes' alignment") {
  for (uint32_t seed = 0; seed < 50; ++seed)
    for (uint64_t offset : placeBuffers(randomLifetimes(seed)))
      CHECK(offset % 64 == 0);
}

TEST_CASE("buffers with consecutive lifetimes share one offset") {
  std::vector<Lifetime> lifetimes = {{64, 0, 1}, {64, 2, 3}, {64, 4, 5}};
  CHECK(placeBuffers(lifetimes) == std::vector<uint64_t>{0, 0, 0});
}

TEST_CASE("a buffer whose last use is another's first does not share with it") {
  std::vector<Lifetime> lifetimes = {{64, 0, 2}, {64, 2, 3}};
  CHECK(placeBuffers(lifetimes) == std::vector<uint64_t>{0, 64});
}

TEST_CASE("a gap that is large enough is used before the arena grows") {
  // The two large ones leave [128, 192) free at instruction 1 only below the third.
  std::vector<Lifetime> lifetimes = {{256, 0, 4}, {128, 0, 0}, {128, 2, 4}, {64, 1, 1}};
  std::vector<uint64_t> offsets = placeBuffers(lifetimes);
  CHECK(offsets == std::vector<uint64_t>{0, 256, 256, 256});
}

TEST_CASE("the arena stays near the live bytes at the fullest instruction") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::vector<Lifetime> lifetimes = randomLifetimes(seed);
    uint64_t bound = fullestInstant(lifetimes);
    uint64_t bytes = arenaBytes(lifetimes, placeBuffers(lifetimes));
    CHECK(bytes >= bound);
    CHECK(bytes * 2 <= bound * 3); // Random lists are harder than any model's.
  }
}

TEST_CASE("no buffers need no offsets") {
  CHECK(placeBuffers({}).empty());
}
