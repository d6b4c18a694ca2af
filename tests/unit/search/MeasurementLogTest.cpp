#include "compiler/search/MeasurementLog.h"

#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <limits>

using namespace moec;

using Numbers = std::vector<double>;

static bool has(const MeasurementLog &log, uint64_t key, const Numbers &numbers) {
  const Numbers *found = log.find(key);
  return found && *found == numbers;
}

TEST_CASE("a log continues an earlier one's measurements, bit for bit") {
  const TemporaryDirectory directory;
  const std::string path = directory.path("measurements");
  const Numbers numbers = {0.1, -1e-300, std::numeric_limits<double>::infinity()};
  {
    MeasurementLog log(path, 7);
    CHECK(log.find(1) == nullptr);
    REQUIRE(log.add(1, numbers).isOk());
    REQUIRE(log.add(UINT64_MAX, {2}).isOk());
    CHECK(has(log, 1, numbers));
  }
  {
    MeasurementLog log(path, 7);
    CHECK(has(log, 1, numbers));
    CHECK(has(log, UINT64_MAX, {2}));
    REQUIRE(log.add(3, {4, 5}).isOk());
  }
  const MeasurementLog log(path, 7);
  CHECK(has(log, 1, numbers));
  CHECK(has(log, UINT64_MAX, {2}));
  CHECK(has(log, 3, {4, 5}));
  CHECK(log.find(4) == nullptr);
  CHECK(MeasurementLog(path, 8).find(1) == nullptr);
}

TEST_CASE("if a key was measured twice, the last measurement counts") {
  const TemporaryDirectory directory;
  const std::string path = directory.path("measurements");
  MeasurementLog log(path, 7);
  REQUIRE(log.add(1, {2, 3}).isOk());
  REQUIRE(log.add(1, {4, 5}).isOk());
  CHECK(has(log, 1, {4, 5}));
  CHECK(has(MeasurementLog(path, 7), 1, {4, 5}));
}
