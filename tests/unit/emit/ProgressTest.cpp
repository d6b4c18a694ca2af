#include "compiler/driver/Progress.h"

#include <doctest/doctest.h>

using namespace moec;

static uint64_t fakeNs = 0;
static uint64_t fakeClock() {
  return fakeNs;
}
constexpr uint64_t kSecond = 1'000'000'000, kMiB = 1 << 20;

static std::string shown(bool isTerminal, uint64_t stepNs, int steps) {
  fakeNs = 1000;
  std::string text;
  ProgressLine line([&](std::string_view part) { text += part; }, fakeClock, isTerminal);
  line.begin("writing", uint64_t(steps) * kMiB, 0);
  for (int i = 1; i <= steps; ++i) {
    fakeNs += stepNs;
    line.advanceTo(uint64_t(i) * kMiB);
  }
  line.end();
  return text;
}

TEST_CASE("a short step says nothing") {
  CHECK(shown(true, kSecond / 1000, 100).empty());
  CHECK(shown(false, kSecond / 10, 20).empty());
}

TEST_CASE("a log gets a line every five seconds with what is left") {
  std::string text = shown(false, kSecond, 12);
  CHECK(text == "writing: 41%, 5.00 MiB of 12.0 MiB, 7 s left\n"
                "writing: 83%, 10.0 MiB of 12.0 MiB, 2 s left\n");
}

TEST_CASE("a terminal gets one line that is rewritten and removed at the end") {
  std::string text = shown(true, kSecond, 3);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.find("\rwriting: 33%, 1.00 MiB of 3.00 MiB, 2 s left\x1b[K") == 0);
  CHECK(text.rfind("\r\x1b[K") == text.size() - 4);
}

TEST_CASE("what an earlier run did is not counted as speed") {
  fakeNs = 0;
  std::string text;
  ProgressLine line([&](std::string_view part) { text += part; }, fakeClock, false);
  line.begin("writing", 1000 * kMiB, 900 * kMiB);
  fakeNs += 10 * kSecond;
  line.advanceTo(910 * kMiB);
  CHECK(text == "writing: 91%, 910 MiB of 1000 MiB, 1 min 30 s left\n");
}

TEST_CASE("durations are said in the two largest units") {
  CHECK(formatDuration(59) == "59 s");
  CHECK(formatDuration(200) == "3 min 20 s");
  CHECK(formatDuration(7500) == "2 h 5 min");
}
