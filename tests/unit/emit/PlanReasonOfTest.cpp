#include "compiler/emit/PlanReasonOf.h"

#include <doctest/doctest.h>

using namespace moec;

TEST_CASE("an artifact keeps every part of a decision in its own place") {
  const moert::PlanReason expected{"eviction", "reuse-distance", "It loses least.",
                                   Origin::kMeasured};
  CHECK(planReasonOf({"eviction", "reuse-distance", "It loses least.", Origin::kMeasured}) ==
        expected);
}
