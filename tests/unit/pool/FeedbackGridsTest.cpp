#include "compiler/pool/FeedbackGrids.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

static std::vector<MoeLayer> layersOf(uint32_t hidden, uint32_t width) {
  MoeLayer layer;
  layer.matrices = {{ExpertPart::kGate, {width, hidden}},
                    {ExpertPart::kUp, {width, hidden}},
                    {ExpertPart::kDown, {hidden, width}}};
  return {layer, layer};
}

static std::vector<Grid> gridsFor(uint32_t hidden, uint32_t width) {
  constexpr uint32_t kWidths[] = {8, 6, 5, 4, 3, 2};
  auto grids = feedbackGrids(layersOf(hidden, width), kWidths, 32, true);
  REQUIRE_MESSAGE(grids.isOk(), grids.status().message());
  return std::move(grids).value();
}

TEST_CASE("the grids of error feedback have levels up to 4 bits and scales for 64 inputs") {
  CHECK(gridsFor(2048, 768) == std::vector<Grid>{{8, 64, false, false},
                                                 {6, 64, false, false},
                                                 {5, 64, false, false},
                                                 {4, 64, false, true},
                                                 {3, 64, false, true},
                                                 {2, 64, false, true}});
}

TEST_CASE("padding that leaves most of the saving is no reason for more scales") {
  // 192 x 576: 8,192 of 10,368 bytes are saved.
  for (const Grid &grid : gridsFor(576, 192))
    CHECK(grid.group == 64);
}

TEST_CASE("where padding would keep what fewer scales save, 32 inputs share a scale") {
  // 64 x 192: a matrix of 2 bits has 3,072 bytes of codes and 768 or 384 of scales, and the next
  // one starts at 4,096 either way.
  for (const Grid &grid : gridsFor(192, 64))
    CHECK(grid.group == 32);
}

TEST_CASE("widths and activation groups without a format are refused") {
  const std::vector<MoeLayer> layers = layersOf(2048, 768);
  for (uint32_t bits : {7u, 9u}) {
    auto grids = feedbackGrids(layers, std::vector<uint32_t>{bits}, 32, true);
    REQUIRE_FALSE(grids.isOk());
    CHECK(grids.status().code() == StatusCode::kInvalidInput);
  }
  CHECK_FALSE(feedbackGrids(layers, std::vector<uint32_t>{4}, 16, true).isOk());
}
