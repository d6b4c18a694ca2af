#include "compiler/pool/PoolIndex.h"

#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <limits>

using namespace moec;

static const std::vector<size_t> kSlices = {3, 1};

static std::vector<PooledExpert> someExperts() {
  return {{0.5, {{1e-300, {1, 2, 3}}, {0.25, {UINT64_MAX}}}},
          {0, {{0, {0, 0, 0}}, {-0.0, {4}}}},
          {1.0 / 3, {{std::numeric_limits<double>::infinity(), {5, 6, 7}}, {2, {8}}}}};
}

/// The index of some experts' words, read back.
static std::vector<PooledExpert> readBack(const std::vector<AppendLog::Words> &lines) {
  TemporaryDirectory directory;
  AppendLog log(directory.path("index"), kPoolIndex, 0xabc);
  for (const AppendLog::Words &words : lines)
    REQUIRE(log.append(words).isOk());
  return readPoolIndex(AppendLog(directory.path("index"), kPoolIndex, 0xabc), kSlices);
}

static std::vector<AppendLog::Words> someLines() {
  std::vector<AppendLog::Words> lines;
  for (const PooledExpert &expert : someExperts())
    lines.push_back(poolIndexWords(expert));
  return lines;
}

TEST_CASE("an index reads back as it was written, errors bit for bit") {
  CHECK(readBack(someLines()) == someExperts());
  CHECK(readBack({}).empty());
}

TEST_CASE("a line of other slices ends the index") {
  std::vector<AppendLog::Words> lines = someLines();
  lines[1].push_back(0);
  CHECK(readBack(lines).size() == 1);
  lines[1].resize(lines[1].size() - 2);
  CHECK(readBack(lines).size() == 1);
}
