// The norms of experts are those of their weights, however these are stored.
#include "compiler/planning/ExpertNorms.h"

#include "compiler/quantize/PackWeights.h"
#include "runtime/format/Instruction.h"
#include "runtime/format/Writer.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <utility>

using namespace moec;
using namespace moert;

namespace {

constexpr uint32_t kHidden = 64, kWidth = 32;
constexpr WeightFormat kFloats = floatFormat(WeightKind::kF32), kInt8 = {WeightKind::kInt8, 32, 32},
                       kTransformed = {.kind = WeightKind::kInt8,
                                       .group = 32,
                                       .activationGroup = 32,
                                       .hasHadamard = true};

/// The size of the one weight in each row of an expert's matrices that is not 0. A power of two
/// times 127, whose transform has one magnitude: 8 bits store both exactly.
struct Sizes {
  float gateUp, down;
};

} // namespace

static std::vector<float> rowsOf(const MatrixShape &shape, float size) {
  std::vector<float> rows(size_t(shape.rows) * shape.cols);
  for (uint32_t row = 0; row < shape.rows; ++row)
    rows[row * shape.cols + row * 7 % shape.cols] = row % 3 == 0 ? -127 * size : 127 * size;
  return rows;
}

static Artifact layOut(size_t layers, size_t experts, const WeightFormat &format) {
  Artifact artifact;
  artifact.pageBytes = 4096;
  for (uint32_t number = 0; number < layers; ++number) {
    MoeLayer &layer = artifact.moeLayers.emplace_back();
    layer.layer = number;
    layer.matrices = {{ExpertPart::kGate, {kWidth, kHidden}},
                      {ExpertPart::kUp, {kWidth, kHidden}},
                      {ExpertPart::kDown, {kHidden, kWidth}}};
    layer.experts.resize(experts);
    for (Expert &expert : layer.experts)
      expert.slices = {{format}};
  }
  REQUIRE(layOutArtifact(artifact, {}).isOk());
  return artifact;
}

static void writeExpert(const MoeLayer &layer, const Expert &expert, const Sizes &sizes,
                        std::vector<std::byte> &file) {
  const Slice &slice = expert.slices.front();
  const auto places = sliceLayoutOf(layer, slice.format);
  REQUIRE(places.isOk());
  for (size_t m = 0; m < layer.matrices.size(); ++m) {
    const auto &[part, shape] = layer.matrices[m];
    const WeightFormat &format = formatOf(slice.format, part);
    const auto packed =
        packWeights(shape, {&format, 1}, 0, shape.rows,
                    rowsOf(shape, part == ExpertPart::kDown ? sizes.down : sizes.gateUp));
    REQUIRE_MESSAGE(packed.isOk(), packed.status().message());
    const auto to =
        file.begin() + ptrdiff_t(expert.fileOffset + slice.offset + places->matrixOffsets[m]);
    const PackedWeights &bytes = packed->front();
    std::copy(bytes.codes.begin(), bytes.codes.end(), to);
    std::copy(bytes.scales.begin(), bytes.scales.end(),
              to + ptrdiff_t(layoutOf(shape, format)->scalesOffset));
  }
}

/// The norms of the experts of each layer, all stored in one format.
static std::vector<std::vector<uint32_t>> normsOf(const std::vector<std::vector<Sizes>> &layers,
                                                  const WeightFormat &format) {
  const Artifact artifact = layOut(layers.size(), layers.front().size(), format);
  std::vector<std::byte> file(artifact.fileBytes);
  for (size_t l = 0; l < layers.size(); ++l)
    for (size_t e = 0; e < layers[l].size(); ++e)
      writeExpert(artifact.moeLayers[l], artifact.moeLayers[l].experts[e], layers[l][e], file);
  auto norms = expertNormsOf(MemorySource("experts", file), artifact, 2, {});
  REQUIRE_MESSAGE(norms.isOk(), norms.status().message());
  return std::move(norms).value();
}

// Gate, up and down have 32, 32 and 64 such weights. Down's rows are transformed in blocks of 32,
// whose stored squares are twice the weights', the others' in blocks of 64, whose squares are the
// weights' own.
TEST_CASE("the norm of an expert is that of its weights, also where it stores their transform") {
  for (const WeightFormat &format : {kFloats, kInt8, kTransformed}) {
    CAPTURE(nameOf(format.kind));
    CAPTURE(format.hasHadamard);
    CHECK(normsOf({{{1, 0.125}, {0.125, 1}}}, format) ==
          std::vector<std::vector<uint32_t>>{{kFixedPointOne, kFixedPointOne}});
  }
}

TEST_CASE("the norms of a layer are fractions of its largest") {
  for (const WeightFormat &format : {kFloats, kInt8, kTransformed}) {
    CAPTURE(nameOf(format.kind));
    CAPTURE(format.hasHadamard);
    CHECK(normsOf({{{0.5, 1}, {1, 2}}, {{4, 4}, {0.5, 0.5}}}, format) ==
          std::vector<std::vector<uint32_t>>{{kFixedPointOne / 2, kFixedPointOne},
                                             {kFixedPointOne, kFixedPointOne / 8}});
  }
}

TEST_CASE("experts whose weights are all 0 have one norm") {
  CHECK(normsOf({{{0, 0}, {0, 0}}}, kTransformed) ==
        std::vector<std::vector<uint32_t>>{{kFixedPointOne, kFixedPointOne}});
}
