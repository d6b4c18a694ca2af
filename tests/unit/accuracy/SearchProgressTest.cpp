// Which windows of a search count as work of this process.
#include "compiler/accuracy/SearchProgress.h"

#include <doctest/doctest.h>

#include <utility>

using namespace moec;

namespace {

struct Counted final : Progress {
  void begin(std::string_view, uint64_t total, uint64_t) override { expected = total; }
  void advanceTo(uint64_t now) override { done += now - std::exchange(last, now); }
  void restoreTo(uint64_t now) override { restored += now - std::exchange(last, now); }
  void end() override { hasEnded = true; }

  uint64_t expected = 0, done = 0, restored = 0, last = 0;
  bool hasEnded = false;
};

} // namespace

TEST_CASE("passes of an earlier run are restored, between passes of this one") {
  Counted counted;
  {
    SearchProgress progress(&counted, "windows", 100);
    CHECK(counted.expected == 100);
    progress.advanceTo(4);
    progress.restorePass(24);
    progress.restorePass(24);
    progress.beginPass();
    progress.advanceTo(3);
    CHECK(counted.done == 4 + 3);
    CHECK(counted.restored == 48);
    CHECK(counted.last == 55);
    progress.restorePass(90); // More than was expected.
    CHECK(counted.last == 100);
  }
  CHECK(counted.hasEnded);
}
