#include "compiler/accuracy/ResidentClasses.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace moec;
using namespace moert;

static std::vector<ResidentClass> classesOf(const std::string &checkpoint) {
  auto model = importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/" + checkpoint);
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  auto classes = residentClassesOf(*model, Session());
  REQUIRE_MESSAGE(classes.isOk(), classes.status().message());
  return std::move(classes).value();
}

static std::vector<std::string> namesOf(const std::vector<ResidentClass> &classes) {
  std::vector<std::string> names;
  for (const ResidentClass &one : classes)
    names.push_back(one.name);
  return names;
}

static const ResidentClass &named(const std::vector<ResidentClass> &classes,
                                  const std::string &name) {
  auto found = std::find_if(classes.begin(), classes.end(),
                            [&](const ResidentClass &one) { return one.name == name; });
  REQUIRE(found != classes.end());
  return *found;
}

TEST_CASE("tied heads are in the embedding's class, shared experts and attention have their own") {
  auto classes = classesOf("pocket-moe");
  CHECK(namesOf(classes) == std::vector<std::string>{"embedding", "attention", "shared experts"});
  CHECK(named(classes, "embedding").matrices.size() == 1);
  CHECK(named(classes, "embedding").matrices[0].shape == MatrixShape{4096, 192});
  CHECK(named(classes, "attention").matrices.size() == 10 * 4);
  CHECK(named(classes, "shared experts").matrices.size() == 10 * 3);
}

TEST_CASE("untied heads and dense layers have a class each") {
  CHECK(named(classesOf("golden/mixtral"), "head").matrices.size() == 1);
  auto classes = classesOf("golden/qwen2_moe_sparse_step");
  CHECK(named(classes, "dense networks").matrices.size() % 3 == 0);
}

TEST_CASE("routers and vectors are in no class") {
  for (const char *checkpoint : {"pocket-moe", "golden/mixtral", "golden/qwen2_moe"})
    for (const ResidentClass &one : classesOf(checkpoint))
      for (const ResidentMatrix &matrix : one.matrices) {
        CHECK(matrix.symbol.find("router") == std::string::npos);
        CHECK(matrix.shape.rows > 1);
      }
}

TEST_CASE("stored bytes are those of the layout at each width") {
  ResidentClass one = {"attention", {{"a", {64, 96}, WeightKind::kBF16}}};
  mlir::moe::CompileOptions passes;
  // 64 x 96 at 2 bytes; at a byte and half a byte with an f16 scale for each 32 inputs of a row.
  CHECK(storedBytes(one, 16, QuantizeMethod::kNearest, passes).value() == 64 * 96 * 2);
  CHECK(storedBytes(one, 8, QuantizeMethod::kNearest, passes).value() == 64 * 96 + 64 * 3 * 2);
  CHECK(storedBytes(one, 4, QuantizeMethod::kNearest, passes).value() == 64 * 96 / 2 + 64 * 3 * 2);
  one.matrices.push_back({"b", {64, 96}, WeightKind::kF16});
  CHECK(storedBytes(one, 16, QuantizeMethod::kNearest, passes).value() == 2 * 64 * 96 * 2);
}

TEST_CASE("with error feedback scales have a byte, and a row one of 16 bits") {
  const ResidentClass one = {"attention", {{"a", {64, 96}, WeightKind::kBF16}}};
  // The scales of a row begin at multiples of 1024.
  CHECK(storedBytes(one, 4, QuantizeMethod::kGptq, {}).value() <
        storedBytes(one, 4, QuantizeMethod::kNearest, {}).value());
}

TEST_CASE("f32 at 16 bits is stored as bf16") {
  ResidentClass one = {"head", {{"head", {32, 32}, WeightKind::kF32}}};
  CHECK(storedBytes(one, 16, QuantizeMethod::kNearest, {}).value() == 32 * 32 * 2);
}

TEST_CASE("groups that no layout has are refused") {
  ResidentClass one = {"head", {{"head", {32, 32}, WeightKind::kF32}}};
  mlir::moe::CompileOptions passes;
  passes.group = 48;
  CHECK(storedBytes(one, 8, QuantizeMethod::kNearest, passes).status().code() ==
        StatusCode::kInvalidInput);
}
