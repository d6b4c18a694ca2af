// FP8 checkpoints: weights in F8_E4M3 with a scale per block (128 x 128 as published by
// DeepSeek-V3, MiniMax-M2 and the Qwen3 series), per row or per tensor. The value is code * scale,
// also where the scale's name ends in "_inv". Scales are F32, 16-bit, or powers of two in F8_E8M0
// (scale_fmt "ue8m0"). DeepSeek-V4's experts are E2M1 codes in I8 [outputs, inputs / 2], low half
// first, with a power of two for 32 inputs. Activations are not quantized: scales for them are not
// used. Source: transformers, integrations/finegrained_fp8.py.
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

constexpr uint64_t kFp4Group = 32;

class Fp8Codec final : public WeightCodec {
public:
  explicit Fp8Codec(const ScaleBlock &scaleBlock) : block(scaleBlock) {}

  std::string text() const override {
    return strCat("fp8, ", block.rows == 0 ? "a scale per tensor or row"
                                           : strCat("blocks of ", block.rows, " x ", block.cols));
  }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    const bool isCodes = stored.type == TensorType::kF8E4M3 || stored.type == TensorType::kI8;
    if (!isCodes || stored.shape.size() < 2)
      return std::nullopt;
    for (const std::string_view ending : {"_scale", "_scale_inv", ".scale", "_zero_point"})
      if (stored.name.ends_with(ending))
        return std::nullopt;
    return stored.name;
  }

  std::vector<std::string> companions(std::string_view name) const override {
    return scaleNames(name);
  }

  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    MOERT_ASSIGN_OR_RETURN(CodedWeight weight, byteCodes(stored, codes, e4m3Format()));
    std::optional<TensorLocation> scales;
    for (const std::string &candidate : scaleNames(name)) {
      const auto found = stored.find(candidate);
      if (found && scales)
        return invalidInput(stored.subject(*found), ": found it beside ", stored.subject(*scales),
                            ", expected one tensor of scales");
      scales = found ? found : scales;
    }
    if (!scales) {
      MOERT_ASSIGN_OR_RETURN(scales,
                             requireTensor(stored, codes, scaleNames(name).front(), "scales"));
    }
    if (codes.tensor->type == TensorType::kI8)
      return describeFp4(stored, codes, *scales);
    ScaleBlock actual = block;
    const std::vector<uint64_t> &shape = scales->tensor->shape;
    std::vector<uint64_t> column = shapeOf(weight, weight.rows, 1);
    if (block.rows == 0 && shape == column)
      actual.rows = 1;
    column.pop_back(); // ModelOpt's scales per row.
    if (block.rows == 0 && weight.rows > 1 && shape == column)
      actual.rows = 1;
    MOERT_RETURN_IF_ERROR(setScales(stored, *scales, actual, weight));
    return weight;
  }

private:
  static Result<CodedWeight> describeFp4(const StoredTensors &stored, const TensorLocation &codes,
                                         const TensorLocation &scales) {
    MOERT_RETURN_IF_ERROR(checkType(stored, scales, {TensorType::kF8E8M0}));
    MOERT_ASSIGN_OR_RETURN(CodedWeight weight, byteCodes(stored, codes, e2m1Format()));
    weight.cols *= 2;
    weight.codes.width = weight.cols;
    MOERT_RETURN_IF_ERROR(setScales(stored, scales, {1, kFp4Group}, weight));
    return weight;
  }

  static std::vector<std::string> scaleNames(std::string_view name) {
    std::vector<std::string> names = {strCat(name, "_scale_inv"), strCat(name, "_scale")};
    if (auto other = withEnding(name, ".weight", ".scale"))
      names.push_back(std::move(*other));
    return names;
  }

  ScaleBlock block;
};

} // namespace

Result<std::unique_ptr<WeightCodec>> makeFp8Codec(const ConfigObject &quantization) {
  MOERT_RETURN_IF_ERROR(checkChoice(quantization, "fmt", {"e4m3", "float8_e4m3fn"}));
  MOERT_RETURN_IF_ERROR(checkChoice(quantization, "scale_fmt", {"ue8m0", "float", "float32"}));
  ScaleBlock block;
  if (quantization.has("weight_block_size")) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> sizes,
                           quantization.integers("weight_block_size", 1, 1 << 20));
    if (sizes.size() != 2)
      return quantization.mismatch("weight_block_size", "two numbers: rows and columns of a block");
    block = {sizes[0], sizes[1]};
  }
  return makeFp8Codec(block);
}

std::unique_ptr<WeightCodec> makeFp8Codec(const ScaleBlock &block) {
  return std::make_unique<Fp8Codec>(block);
}

} // namespace moec
