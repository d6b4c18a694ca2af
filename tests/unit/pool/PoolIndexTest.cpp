#include "compiler/pool/PoolIndex.h"

#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>

using namespace moec;

static const std::vector<size_t> kSlices = {3, 1};

static std::vector<PooledExpert> someExperts() {
  return {{0.5, {{1e-300, {1, 2, 3}}, {0.25, {UINT64_MAX}}}},
          {0, {{0, {0, 0, 0}}, {-0.0, {4}}}},
          {1.0 / 3, {{std::numeric_limits<double>::infinity(), {5, 6, 7}}, {2, {8}}}}};
}

static std::string someIndex() {
  std::string text = poolIndexHeader(0xabc);
  std::vector<PooledExpert> experts = someExperts();
  for (size_t e = 0; e < experts.size(); ++e)
    text += poolIndexLine(e, experts[e]);
  return text;
}

static std::vector<PooledExpert> readBack(const std::string &text, uint64_t fingerprint = 0xabc) {
  TemporaryDirectory directory;
  std::ofstream(directory.path("index"), std::ios::binary) << text;
  return readPoolIndex(directory.path("index"), fingerprint, kSlices);
}

TEST_CASE("an index reads back as it was written, errors bit for bit") {
  CHECK(readBack(someIndex()) == someExperts());
}

TEST_CASE("an index that is absent or has another fingerprint has no experts") {
  TemporaryDirectory directory;
  CHECK(readPoolIndex(directory.path("absent"), 0xabc, kSlices).empty());
  CHECK(readBack("").empty());
  CHECK(readBack(someIndex(), 0xabd).empty());
}

TEST_CASE("a truncated index has the experts with complete lines") {
  const std::string text = someIndex();
  for (size_t size = 0; size < text.size(); ++size) {
    size_t lines = 0;
    for (size_t i = 0; i < size; ++i)
      lines += text[i] == '\n';
    size_t whole = lines == 0 ? 0 : lines - 1;
    CHECK(readBack(text.substr(0, size)).size() == whole);
  }
}

TEST_CASE("an invalid line ends the index") {
  const std::string text = someIndex();
  const size_t second = text.find("expert 1");
  for (std::string line : {"expert 2 0000000000000000", "noise", "", "expert 1 00"}) {
    CAPTURE(line);
    CHECK(readBack(text.substr(0, second) + line + "\n" + text.substr(second)).size() == 1);
  }
  std::string longer = text;
  longer.insert(text.find('\n', second), " 0000000000000000");
  CHECK(readBack(longer).size() == 1);
}
