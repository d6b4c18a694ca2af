// A default compile takes wider experts while the quick loss is above its aim.
#include "compiler/accuracy/QuickLoss.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moec;

static moert::QuickLoss lossOf(double perplexity) {
  return {perplexity, 0.05, 0.1, 20, 256};
}

TEST_CASE("a width within the aim is kept") {
  CHECK_FALSE(widthAfter(4, lossOf(kQuickLossAim)));
  CHECK_FALSE(widthAfter(4, lossOf(-0.5)));
}

TEST_CASE("a width above the aim is followed by the next one, up to 6 bits") {
  const moert::QuickLoss missed = lossOf(kQuickLossAim * 1.01);
  CHECK(widthAfter(4, missed) == 5);
  CHECK(widthAfter(5, missed) == 6);
  CHECK_FALSE(widthAfter(6, missed));
}

TEST_CASE("a loss that is no number raises no width") {
  CHECK_FALSE(widthAfter(4, lossOf(std::nan(""))));
}

TEST_CASE("the user reads what missed the aim, and how to keep it") {
  CHECK(missedAimText(4, 5, lossOf(0.0526)) ==
        "experts of 4 bits change perplexity by +5.26%, above the aim of 3%: compiling them with 5 "
        "bits; --bits 4 keeps 4");
}

TEST_CASE("a few windows make a wider width likely or unlikely, never certain") {
  CHECK(chanceOfWider(4, lossOf(kQuickLossAim)) == kChanceOfWider);
  CHECK(chanceOfWider(4, lossOf(2 * kQuickLossAim)) > 0.9);
  CHECK(chanceOfWider(4, lossOf(2 * kQuickLossAim)) < 1);
  CHECK(chanceOfWider(4, lossOf(kQuickLossAim / 2)) < 0.1);
  CHECK(chanceOfWider(4, lossOf(kQuickLossAim / 2)) > 0);
  CHECK(chanceOfWider(6, lossOf(2 * kQuickLossAim)) < 0.1); // The widest.
}
