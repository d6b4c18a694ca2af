#include "compiler/plan/PoolPlaces.h"

#include <doctest/doctest.h>

using namespace moec;

static constexpr uint64_t kPage = 1 << 20;

/// Twice as fast into what was read into at once, once as fast behind 128 MiB.
static ReadTable fasterLately() {
  ReadTable reads = {{4096}, {1}, {{1e9, Origin::kMeasured}}};
  reads.reused = {{kPage, {2, Origin::kMeasured}}};
  return reads;
}

TEST_CASE("memory that nothing was read into is as slow as it gets") {
  const ReadTable reads = fasterLately();
  PoolPlaces places(reads, 8, 4);
  CHECK(places.take(0, 3, 3 * kPage) == 1);
  CHECK(places.take(1, 1, kPage) == 1);
}

TEST_CASE("a place that is taken again is as fast as its last read is near") {
  const ReadTable reads = fasterLately();
  PoolPlaces places(reads, 4, 4);
  places.take(0, 2, 2 * kPage); // The first two pages.
  places.giveBack(0, 0);
  CHECK(places.take(1, 2, 2 * kPage) == doctest::Approx(ReusedFactors(reads).of(2 * kPage)));
  places.take(2, 2, 2 * kPage); // The others.
  places.giveBack(1, 0);
  CHECK(places.take(3, 2, 2 * kPage) == doctest::Approx(ReusedFactors(reads).of(4 * kPage)));
}

TEST_CASE("a record takes the time of its pages, each as fast as itself") {
  const ReadTable reads = fasterLately();
  PoolPlaces places(reads, 2, 2);
  places.take(0, 1, kPage);
  places.giveBack(0, 0);
  // One page at twice the rate, and one at the table's.
  CHECK(places.take(1, 2, 2 * kPage) == doctest::Approx(2 / (1 / 2.0 + 1)));
}

TEST_CASE("where all memory is alike a pool of any size costs nothing") {
  const ReadTable reads = {{4096}, {1}, {{1e9, Origin::kMeasured}}};
  PoolPlaces places(reads, UINT64_MAX, 1);
  CHECK(places.take(0, 3, 3 * kPage) == 1);
  places.giveBack(0, 0);
}

TEST_CASE("pages are added to those that an expert has, and given back from the last on") {
  const ReadTable reads = fasterLately();
  PoolPlaces places(reads, 4, 4);
  places.take(0, 1, kPage);
  places.take(0, 3, 2 * kPage);
  CHECK(places.take(0, 3, kPage) == 1); // Into pages that it has.
  places.giveBack(0, 1);
  // The two that it gave back, read into just now.
  CHECK(places.take(1, 2, 2 * kPage) == doctest::Approx(ReusedFactors(reads).of(2 * kPage)));
}
