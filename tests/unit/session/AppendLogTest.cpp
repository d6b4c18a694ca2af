#include "compiler/session/AppendLog.h"

#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace moec;

namespace {

struct Fixture {
  TemporaryDirectory directory;
  std::string path = directory.path("log");

  AppendLog open(uint64_t fingerprint = 7, std::string_view kind = "moec-test 1") const {
    return AppendLog(path, kind, fingerprint);
  }
  void write(const std::string &text) const { std::ofstream(path, std::ios::binary) << text; }
};

} // namespace

using Lines = std::vector<AppendLog::Words>;

static const AppendLog::Words kFirst = {1, UINT64_MAX, 3}, kSecond = {}, kThird = {4};

static void append(AppendLog log, const Lines &lines) {
  for (const AppendLog::Words &words : lines)
    REQUIRE(log.append(words).isOk());
}

TEST_CASE("a log continues an earlier one's lines") {
  Fixture fixture;
  CHECK(fixture.open().lines().empty());
  append(fixture.open(), {kFirst, kSecond});
  append(fixture.open(), {kThird});
  CHECK(fixture.open().lines() == Lines{kFirst, kSecond, kThird});
}

TEST_CASE("a log of another fingerprint or kind has no lines, and is replaced by the first one") {
  Fixture fixture;
  append(fixture.open(), {kFirst});
  CHECK(fixture.open(8).lines().empty());
  CHECK(fixture.open(7, "moec-test 2").lines().empty());
  CHECK(fixture.open().lines() == Lines{kFirst});
  append(fixture.open(8), {kThird});
  CHECK(fixture.open(8).lines() == Lines{kThird});
  CHECK(fixture.open().lines().empty());
}

TEST_CASE("a log that was cut anywhere keeps its whole lines, and continues") {
  Fixture fixture;
  append(fixture.open(), {kFirst, kThird});
  const std::string whole = contentOf(fixture.path);
  const size_t header = whole.find('\n') + 1, second = whole.find('\n', header) + 1;
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    fixture.write(whole.substr(0, size));
    Lines expected;
    if (size >= second)
      expected.push_back(kFirst);
    CHECK(fixture.open().lines() == expected);
    append(fixture.open(), {kSecond});
    expected.push_back(kSecond);
    CHECK(fixture.open().lines() == expected);
  }
}

TEST_CASE("a line with another byte than was written ends the log") {
  Fixture fixture;
  append(fixture.open(), {kFirst, kThird});
  const std::string whole = contentOf(fixture.path);
  const size_t header = whole.find('\n') + 1, second = whole.find('\n', header) + 1;
  for (size_t i = header; i < whole.size(); ++i)
    for (char other : {'0', '5', 'x', '\n'})
      if (whole[i] != other) {
        CAPTURE(i);
        std::string text = whole;
        text[i] = other;
        fixture.write(text);
        CHECK(fixture.open().lines() == (i < second ? Lines{} : Lines{kFirst}));
      }
}

TEST_CASE("lines that are not kept are cut off by the next one") {
  Fixture fixture;
  append(fixture.open(), {kFirst, kSecond, kThird});
  AppendLog log = fixture.open();
  log.keep(1);
  REQUIRE(log.append(kThird).isOk());
  CHECK(fixture.open().lines() == Lines{kFirst, kThird});
}

TEST_CASE("a log that cannot be written is an error with its name") {
  Fixture fixture;
  AppendLog log(fixture.directory.path("absent/log"), "moec-test 1", 7);
  const moert::Status status = log.append(kFirst);
  CHECK_FALSE(status.isOk());
  CHECK(status.message().find("absent/log") != std::string::npos);
}
