#include "compiler/pool/FeedbackGrids.h"

#include <doctest/doctest.h>

using namespace moec;

static constexpr Grid k8 = {8, 32, false, false, true, true},
                      k6 = {6, 32, false, false, true, true},
                      k5 = {5, 32, false, false, true, true}, k4 = {4, 32, false, true, true, true},
                      k3 = {3, 32, false, true, true, true}, k2 = {2, 32, false, true, true, true};

TEST_CASE("the grids of error feedback have levels up to 4 bits, byte scales and the transform") {
  const std::vector<ExpertWidth> widths = {8, 6, 5, 4, 3, 2};
  CHECK(feedbackGrids(widths) == std::vector<ExpertGrid>{k8, k6, k5, k4, k3, k2});
}

TEST_CASE("a down projection of another width has the grid of that width") {
  const std::vector<ExpertWidth> widths = {{4, 6}, {3, 5}, {2, 4}, {8, 2}};
  CHECK(feedbackGrids(widths) == std::vector<ExpertGrid>{{k4, k6}, {k3, k5}, {k2, k4}, {k8, k2}});
}

TEST_CASE("a width is named by its bits, and by those of down where they differ") {
  CHECK(ExpertWidth(4).text() == "4");
  CHECK(ExpertWidth(4, 6).text() == "4/6");
  CHECK(ExpertWidth(4).meanBits() == 4);
  CHECK(ExpertWidth(4, 6).meanBits() == doctest::Approx(14.0 / 3));
}
