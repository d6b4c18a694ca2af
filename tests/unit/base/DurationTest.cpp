#include "runtime/base/Duration.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("durations have at most two units") {
  CHECK(formatDuration(0) == "0 s");
  CHECK(formatDuration(59) == "59 s");
  CHECK(formatDuration(200) == "3 min 20 s");
  CHECK(formatDuration(7500) == "2 h 5 min");
}
