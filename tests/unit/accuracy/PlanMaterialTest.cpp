#include "compiler/accuracy/PlanMaterial.h"

#include <doctest/doctest.h>
#include <limits>

using namespace moec;

static WidthSearchOutcome timedOutcome(double fewestBytesNs) {
  WidthSearchOutcome outcome;
  outcome.isMet = outcome.isTimed = true;
  outcome.best.solver = "mckp";
  outcome.best.assignment = {1};
  outcome.best.tokenNs = 2.5e6;
  MeasuredWidths &fewest = outcome.fewestBytes.emplace();
  fewest.solver = "uniform";
  fewest.assignment = {0};
  fewest.tokenNs = fewestBytesNs;
  return outcome;
}

TEST_CASE("widths chosen by least time are reported beside those of the fewest bytes") {
  CHECK(widthsChosen(timedOutcome(3e6), "within 20MiB on this").widths.reason.reason ==
        "2.5 ms a token by mckp; with the fewest bytes of those expected to pass 3 ms a token by "
        "uniform, expected "
        "within 20MiB on this");
}

TEST_CASE("widths of the fewest bytes that do not fit the budget are reported without a time") {
  const double kDoesNotFit = std::numeric_limits<double>::infinity();
  CHECK(widthsChosen(timedOutcome(kDoesNotFit), "within 20MiB on this").widths.reason.reason ==
        "2.5 ms a token by mckp; with the fewest bytes of those expected to pass, by uniform, it "
        "does not fit, expected "
        "within 20MiB on this");
}
