#include "compiler/pool/FeedbackGrids.h"

#include <doctest/doctest.h>

using namespace moec;

TEST_CASE("the grids of error feedback have levels up to 4 bits and byte scales for 32 inputs") {
  constexpr uint32_t kWidths[] = {8, 6, 5, 4, 3, 2};
  CHECK(feedbackGrids(kWidths) == std::vector<Grid>{{8, 32, false, false, true},
                                                    {6, 32, false, false, true},
                                                    {5, 32, false, false, true},
                                                    {4, 32, false, true, true},
                                                    {3, 32, false, true, true},
                                                    {2, 32, false, true, true}});
}
