// Swin-MoE: the grids, windows and routers that a config gives, and what is refused.
#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/FamilyConfig.h"

using moec::ImportedModel;
using moec::LayerDescription;
using moec::ModelDescription;
using namespace moec::test;

namespace {

nlohmann::json swinConfig() {
  return {{"model_type", "swin_moe"},
          {"architectures", {"SwinTransformerMoE"}},
          {"DATA", {{"IMG_SIZE", 64}}},
          {"MODEL",
           {{"NUM_CLASSES", 10},
            {"SWIN_MOE",
             {{"EMBED_DIM", 8},
              {"DEPTHS", {2, 2, 2}},
              {"NUM_HEADS", {1, 2, 4}},
              {"WINDOW_SIZE", 4},
              {"MLP_RATIO", 1.5},
              {"MOE_BLOCKS", {{-1}, {1}, {0, 1}}},
              {"NUM_LOCAL_EXPERTS", 4}}}}}};
}

/// `group`: DATA, MODEL or SWIN_MOE.
nlohmann::json changed(const std::string &group, const char *key, nlohmann::json value) {
  nlohmann::json config = swinConfig();
  (group == "SWIN_MOE" ? config["MODEL"][group] : config[group])[key] = std::move(value);
  return config;
}

ImportedModel importCase(const std::string &name) {
  auto result = moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/" + name);
  INFO(result.status().message());
  REQUIRE(result.isOk());
  return std::move(result).value();
}

} // namespace

TEST_CASE("blocks stay in windows, which every other one shifts where the grid is larger") {
  const ModelDescription model = describe(swinConfig());
  REQUIRE(model.layers.size() == 6);
  CHECK(model.hiddenSize == 32);
  CHECK(model.vocabularySize == 10);
  const uint32_t sides[] = {16, 16, 8, 8, 4, 4}, shifts[] = {0, 2, 0, 2, 0, 0};
  for (size_t i = 0; i < 6; ++i) {
    const LayerDescription &layer = model.layers[i];
    CHECK(layer.windowAttention->side == sides[i]);
    CHECK(layer.windowAttention->window == 4);
    CHECK(layer.windowAttention->shift == shifts[i]);
    CHECK(layer.merge.has_value() == (i == 1 || i == 3));
    CHECK(layer.moe.has_value() == (i >= 3));
  }
  CHECK(model.layers[3].moe->experts[2].down.weight.transposed);
  CHECK(model.layers[3].moe->experts.size() == 4);
}

TEST_CASE("the experts are as many as the router has rows, or its matrix of directions columns") {
  CHECK(importCase("swin_moe").description.layers[3].moe->experts.size() == 4);
  const ImportedModel cosine = importCase("swin_moe_cosine");
  const auto &router = cosine.description.layers[3].moe->router;
  CHECK(router.linear.weight.rows == 5);
  REQUIRE(router.projection);
  std::vector<float> rows(router.linear.weight.rows * router.linear.weight.cols);
  REQUIRE(cosine.checkpoint.readRows(router.linear.weight, 0, 5, rows).isOk());
  double first = 0, second = 0; // All directions have the length exp(temperature).
  for (size_t i = 0; i < 16; ++i) {
    first += double(rows[i]) * rows[i];
    second += double(rows[16 + i]) * rows[16 + i];
  }
  CHECK(first == doctest::Approx(second).epsilon(1e-6));
}

TEST_CASE(
    "a key's offsets have biases that its checkpoint's network gives, none for its own place") {
  const ImportedModel model = importCase("swin_moe");
  const auto &bias = model.description.layers[0].windowAttention->bias;
  CHECK(bias.cols == 7 * 7);
  std::vector<float> values(bias.cols);
  REQUIRE(model.checkpoint.readRows(bias, 0, 1, values).isOk());
  CHECK(values[0] != values[48]);
}

TEST_CASE("configs that Swin-MoE does not compute are refused by their keys") {
  const struct {
    nlohmann::json config;
    const char *message;
  } cases[] = {
      {changed("DATA", "IMG_SIZE", 72), "key 'DATA.IMG_SIZE': found 72, expected a multiple of 16"},
      {changed("SWIN_MOE", "WINDOW_SIZE", 3),
       "key 'MODEL.SWIN_MOE.WINDOW_SIZE': found 3, expected"},
      {changed("SWIN_MOE", "WINDOW_SIZE", 1), "WINDOW_SIZE': found 1, expected"},
      {changed("SWIN_MOE", "NUM_HEADS", {1, 2}), "NUM_HEADS': found [1,2], expected one entry"},
      {changed("SWIN_MOE", "NUM_HEADS", {3, 2, 4}), "a divisor of the width 8 of stage 0"},
      {changed("SWIN_MOE", "MOE_BLOCKS", {{-1}, {-1}, {-1}}), "MOE_BLOCKS': found no block"},
      {changed("SWIN_MOE", "MOE_BLOCKS", {-1, 0, 1}),
       "MOE_BLOCKS': found [-1,0,1], expected a list"},
      {changed("SWIN_MOE", "APE", true), "key 'MODEL.SWIN_MOE.APE': found true"},
      {changed("SWIN_MOE", "PRETRAINED_WINDOW_SIZES", {6, 6, 6}),
       "PRETRAINED_WINDOW_SIZES': found"},
      {changed("SWIN_MOE", "TOP_VALUE", 9), "TOP_VALUE': found 9, expected at most the 4"},
      {changed("SWIN_MOE", "DEPTHS", nlohmann::json::array()), "DEPTHS': found [], expected"},
      {changed("MODEL", "SWIN_MOE", 1), "SWIN_MOE': found 1, expected an object"},
      {changed("MODEL", "NUM_CLASSES", 0), "key 'MODEL.NUM_CLASSES': found 0, expected"}};
  REQUIRE(tryDescribe(swinConfig()).isOk());
  for (const auto &[config, expected] : cases) {
    const moert::Status status = tryDescribe(config).status();
    const std::string message(status.message());
    CAPTURE(message);
    CAPTURE(expected);
    CHECK(status.code() == moert::StatusCode::kInvalidInput);
    CHECK(message.find(expected) != std::string::npos);
  }
}
