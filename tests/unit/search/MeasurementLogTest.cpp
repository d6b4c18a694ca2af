#include "compiler/search/MeasurementLog.h"

#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>

using namespace moec;

namespace {

struct Fixture {
  TemporaryDirectory directory;
  std::string path = directory.path("measurements");

  MeasurementLog open(uint64_t fingerprint = 7) const {
    return MeasurementLog::open(path, fingerprint);
  }
  void write(const std::string &text) const { std::ofstream(path, std::ios::binary) << text; }
};

} // namespace

using Numbers = std::vector<double>;

static bool has(const MeasurementLog &log, uint64_t key, const Numbers &numbers) {
  const Numbers *found = log.find(key);
  return found && *found == numbers;
}

TEST_CASE("a log continues an earlier one's measurements, bit for bit") {
  Fixture fixture;
  const Numbers numbers = {0.1, -1e-300, std::numeric_limits<double>::infinity()};
  {
    MeasurementLog log = fixture.open();
    CHECK(log.find(1) == nullptr);
    REQUIRE(log.add(1, numbers).isOk());
    REQUIRE(log.add(UINT64_MAX, {2}).isOk());
    CHECK(has(log, 1, numbers));
  }
  {
    MeasurementLog log = fixture.open();
    CHECK(has(log, 1, numbers));
    CHECK(has(log, UINT64_MAX, {2}));
    REQUIRE(log.add(3, {4, 5}).isOk());
    REQUIRE(log.add(6, {7}).isOk());
  }
  MeasurementLog log = fixture.open();
  CHECK(has(log, 1, numbers));
  CHECK(has(log, UINT64_MAX, {2}));
  CHECK(has(log, 3, {4, 5}));
  CHECK(has(log, 6, {7}));
  CHECK(log.find(4) == nullptr);
}

TEST_CASE("a log of another fingerprint has nothing, and is replaced by the first measurement") {
  Fixture fixture;
  MeasurementLog first = fixture.open();
  REQUIRE(first.add(1, {2}).isOk());
  MeasurementLog other = fixture.open(8);
  CHECK(other.find(1) == nullptr);
  CHECK(has(fixture.open(), 1, {2}));
  REQUIRE(other.add(1, {3}).isOk());
  CHECK(has(fixture.open(8), 1, {3}));
  CHECK(fixture.open().find(1) == nullptr);
}

TEST_CASE("a log that was cut anywhere keeps its whole lines, and continues") {
  Fixture fixture;
  MeasurementLog log = fixture.open();
  REQUIRE(log.add(1, {2, 3, 4}).isOk());
  REQUIRE(log.add(5, {6}).isOk());
  const std::string whole = contentOf(fixture.path);
  const size_t header = whole.find('\n') + 1, second = whole.find('\n', header) + 1;
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    fixture.write(whole.substr(0, size));
    MeasurementLog cut = fixture.open();
    CHECK((cut.find(1) != nullptr) == (size >= second));
    CHECK(cut.find(5) == nullptr);
    REQUIRE(cut.add(8, {9}).isOk());
    MeasurementLog resumed = fixture.open();
    CHECK(has(resumed, 8, {9}));
    CHECK((resumed.find(1) != nullptr) == (size >= second));
  }
}

TEST_CASE("a line with anything but numbers counts as absent") {
  Fixture fixture;
  MeasurementLog log = fixture.open();
  REQUIRE(log.add(1, {2, 3, 4}).isOk());
  std::string text = contentOf(fixture.path);
  text[text.rfind(' ') + 1] = 'x';
  fixture.write(text);
  CHECK(fixture.open().find(1) == nullptr);
}

TEST_CASE("a line with another digit than was written counts as absent") {
  Fixture fixture;
  MeasurementLog log = fixture.open();
  REQUIRE(log.add(1, {2, 3, 4}).isOk());
  const std::string whole = contentOf(fixture.path);
  for (size_t i = whole.find('\n') + 1; i + 1 < whole.size(); ++i) {
    CAPTURE(i);
    std::string text = whole;
    text[i] = text[i] == '4' ? '5' : '4';
    fixture.write(text);
    MeasurementLog damaged = fixture.open();
    CHECK(damaged.find(1) == nullptr);
    CHECK((damaged.find(4) == nullptr && damaged.find(5) == nullptr));
  }
}

TEST_CASE("if a key was measured twice, the last measurement counts") {
  Fixture fixture;
  MeasurementLog log = fixture.open();
  REQUIRE(log.add(1, {2, 3}).isOk());
  REQUIRE(log.add(1, {4, 5}).isOk());
  CHECK(has(log, 1, {4, 5}));
  CHECK(has(fixture.open(), 1, {4, 5}));
}

TEST_CASE("a log that cannot be written is an error with its name") {
  Fixture fixture;
  MeasurementLog log = MeasurementLog::open(fixture.directory.path("absent/log"), 7);
  moert::Status status = log.add(1, {2});
  CHECK_FALSE(status.isOk());
  CHECK(status.message().find("absent/log") != std::string::npos);
}

TEST_CASE("a log that cannot be written anew keeps what it had") {
  Fixture fixture;
  {
    MeasurementLog log = fixture.open();
    REQUIRE(log.add(1, {2}).isOk());
  }
  std::filesystem::create_directory(fixture.path + ".partial");
  MeasurementLog log = fixture.open();
  CHECK_FALSE(log.add(3, {4}).isOk());
  CHECK(has(fixture.open(), 1, {2}));
}
