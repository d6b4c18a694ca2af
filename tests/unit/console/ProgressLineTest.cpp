#include "tools/console/ProgressLine.h"

#include <doctest/doctest.h>

using namespace moert::cli;

constexpr uint64_t kSecond = 1'000'000'000;
static uint64_t fakeNow;

/// The output while a step of 100 units takes `seconds`, with one update per tenth of a second.
static std::string writtenDuring(uint64_t seconds, bool isTerminal,
                                 const std::string &step = "loading") {
  std::string written;
  fakeNow = 5 * kSecond;
  {
    ProgressLine line(
        step, [](uint64_t done, uint64_t) { return std::to_string(done); }, 0,
        [&](std::string_view text) { written += text; }, [] { return fakeNow; }, isTerminal);
    const uint64_t begin = fakeNow;
    for (uint64_t tenth = 0; tenth <= seconds * 10; ++tenth) {
      fakeNow = begin + tenth * kSecond / 10;
      line.update(tenth * 100 / (seconds * 10), 100);
    }
  }
  return written;
}

static size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST_CASE("a short step writes nothing") {
  CHECK(writtenDuring(1, true).empty());
  CHECK(writtenDuring(1, false).empty());
  CHECK(writtenDuring(9, false).empty());
}

TEST_CASE("control characters in a step's name are escaped") {
  const std::string written = writtenDuring(11, false, "loading a\x1b[31m");
  CHECK(count(written, "loading a\\x1b[31m") > 0);
  CHECK(count(written, "\x1b") == 0);
}

TEST_CASE("on a terminal one line is rewritten and removed in the end") {
  std::string written = writtenDuring(10, true);
  CHECK(count(written, "\n") == 0);
  CHECK(count(written, "\r") > 30);
  CHECK(written.ends_with("\r\x1b[K"));
  // Line wrap is off for the line, and on again after it.
  CHECK(count(written, "\r\x1b[K\x1b[?7lloading: ") == count(written, " left\x1b[?7h"));
  CHECK(count(written, "\x1b[?7l") > 30);
}

TEST_CASE("without a terminal, lines are written now and then") {
  std::string written = writtenDuring(60, false);
  CHECK(count(written, "\n") == 5);
  CHECK(count(written, "\r") == 0);
}

TEST_CASE("the remaining time follows from the time so far") {
  std::string written = writtenDuring(60, false);
  CHECK(written.find("loading: 50%, 50, 30 s left\n") != std::string::npos);
}

TEST_CASE("the work of an earlier run does not count as speed") {
  std::string written;
  fakeNow = 0;
  ProgressLine line(
      "writing", describeBytes, 900 << 20, [&](std::string_view text) { written += text; },
      [] { return fakeNow; }, false);
  fakeNow += 10 * kSecond;
  line.update(910 << 20, 1000 << 20);
  CHECK(written == "writing: 91%, 910 MiB of 1000 MiB, 1 min 30 s left\n");
}

TEST_CASE("work that is restored on the way does not count as speed, and neither does its time") {
  std::string written;
  fakeNow = 0;
  ProgressLine line(
      "measuring", describeBytes, 0, [&](std::string_view text) { written += text; },
      [] { return fakeNow; }, false);
  fakeNow += 2 * kSecond;
  line.update(10 << 20, 1000 << 20);
  fakeNow += 3 * kSecond;
  line.restore(810 << 20, 1000 << 20);
  CHECK(written.empty());
  // 100 MiB in 8 s and 2 s.
  fakeNow += 8 * kSecond;
  line.update(900 << 20, 1000 << 20);
  CHECK(written == "measuring: 90%, 900 MiB of 1000 MiB, 10 s left\n");
}

TEST_CASE("while everything is restored there is no remaining time") {
  std::string written;
  fakeNow = 0;
  ProgressLine line(
      "measuring", describeBytes, 0, [&](std::string_view text) { written += text; },
      [] { return fakeNow; }, false);
  fakeNow += 10 * kSecond;
  line.restore(900 << 20, 1000 << 20);
  CHECK(written == "measuring: 90%, 900 MiB of 1000 MiB\n");
}

TEST_CASE("a time that is left of the whole replaces that of the step") {
  std::string written;
  fakeNow = 0;
  ProgressLine line(
      "step 2 of 6, measuring", describeBytes, 0, [&](std::string_view text) { written += text; },
      [] { return fakeNow; }, false);
  fakeNow += 10 * kSecond;
  line.leaveWhole(199.6);
  line.update(500 << 20, 1000 << 20);
  CHECK(written == "step 2 of 6, measuring: 50%, 500 MiB of 1000 MiB, 3 min 20 s left in all\n");
}
