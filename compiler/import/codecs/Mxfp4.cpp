// MXFP4 checkpoints as gpt-oss publishes them: the fused experts' X is stored as X_blocks, U8
// [E, outputs, groups, 16], two E2M1 codes per byte, low half first, and X_scales, U8 [E, outputs,
// groups] in E8M0, one for each 32 inputs. The plain tensor is X [E, inputs, outputs], as in the
// 16-bit checkpoints of the same models. Source: transformers, integrations/mxfp4.py.
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

#include <algorithm>

namespace moec {

using moert::invalidInput;
using moert::Result;

namespace {

constexpr uint64_t kBytesPerGroup = 16, kGroup = 32;

class Mxfp4Codec final : public WeightCodec {
public:
  std::string text() const override { return "mxfp4, groups of 32 inputs"; }

  std::optional<StoredType> exactType() const override { return StoredType::kMxfp4; }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    return withEnding(stored.name, "_blocks", "");
  }

  std::vector<std::string> companions(std::string_view name) const override {
    return {moert::strCat(name, "_scales")};
  }

  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    MOERT_RETURN_IF_ERROR(checkType(stored, codes, {TensorType::kU8}));
    const std::vector<uint64_t> &shape = codes.tensor->shape;
    if ((shape.size() != 3 && shape.size() != 4) || shape.back() != kBytesPerGroup ||
        std::find(shape.begin(), shape.end(), 0u) != shape.end())
      return invalidInput(stored.subject(codes), ": found shape ", shapeText(shape),
                          ", expected [experts, outputs, groups, ", kBytesPerGroup, "]");
    CodedWeight weight;
    if (shape.size() == 4)
      weight.matrices = shape[0];
    const uint64_t groups = shape[shape.size() - 2];
    weight.rows = shape[shape.size() - 3];
    weight.cols = groups * kGroup;
    weight.isTransposed = true;
    weight.codes = {
        .location = codes, .format = e2m1Format(), .lines = weight.rows, .width = weight.cols};
    MOERT_ASSIGN_OR_RETURN(const TensorLocation scales,
                           requireTensor(stored, codes, moert::strCat(name, "_scales"), "scales"));
    MOERT_RETURN_IF_ERROR(checkType(stored, scales, {TensorType::kU8, TensorType::kF8E8M0}));
    MOERT_RETURN_IF_ERROR(checkShape(stored, scales, {shapeOf(weight, weight.rows, groups)},
                                     "for groups of 32 inputs"));
    weight.scales = {.location = scales,
                     .format = e8m0Format(),
                     .lines = weight.rows,
                     .width = groups,
                     .colsPerElement = kGroup};
    return weight;
  }
};

} // namespace

Result<std::unique_ptr<WeightCodec>> makeMxfp4Codec(const ConfigObject &) {
  return std::unique_ptr<WeightCodec>(std::make_unique<Mxfp4Codec>());
}

} // namespace moec
