// NVFP4 checkpoints: two E2M1 codes per byte, low half first, U8 [outputs, inputs / 2]; a scale in
// F8_E4M3 for 16 inputs, [outputs, inputs / 16]; and an F32 scale of the tensor. ModelOpt names
// them X.weight, X.weight_scale and X.weight_scale_2, and the last multiplies; compressed-tensors
// names them X.weight_packed, X.weight_scale and X.weight_global_scale, and the last divides.
// Sources: ModelOpt, quantization/qtensor/nvfp4_tensor.py; compressed-tensors 0.20,
// compressors/nvfp4.
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

class Nvfp4Codec final : public WeightCodec {
public:
  explicit Nvfp4Codec(Nvfp4Names naming) : isModelOpt(naming == Nvfp4Names::kModelOpt) {}

  std::string text() const override {
    return strCat(isModelOpt ? "modelopt" : "compressed-tensors", ", NVFP4, groups of ",
                  kNvfp4Group, " inputs");
  }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    if (!isModelOpt)
      return withEnding(stored.name, ".weight_packed", ".weight");
    const bool isCodes = stored.type == TensorType::kU8 && stored.shape.size() >= 2 &&
                         !stored.name.ends_with("_scale");
    return isCodes ? std::optional(stored.name) : std::nullopt;
  }

  std::vector<std::string> companions(std::string_view name) const override {
    return {strCat(name, "_scale"), globalName(name)};
  }

  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    MOERT_RETURN_IF_ERROR(checkType(stored, codes, {TensorType::kU8}));
    MOERT_ASSIGN_OR_RETURN(CodedWeight weight, byteCodes(stored, codes, e2m1Format()));
    weight.cols *= 2;
    weight.codes.width = weight.cols;
    MOERT_ASSIGN_OR_RETURN(const TensorLocation scales,
                           requireTensor(stored, codes, strCat(name, "_scale"), "scales"));
    MOERT_RETURN_IF_ERROR(checkType(stored, scales, {TensorType::kF8E4M3}));
    MOERT_RETURN_IF_ERROR(setScales(stored, scales, {1, kNvfp4Group}, weight));
    MOERT_ASSIGN_OR_RETURN(const TensorLocation global,
                           requireTensor(stored, codes, globalName(name), "global scale"));
    MOERT_RETURN_IF_ERROR(setGlobal(stored, global, weight));
    return weight;
  }

private:
  std::string globalName(std::string_view name) const {
    return strCat(name, isModelOpt ? "_scale_2" : "_global_scale");
  }

  Status setGlobal(const StoredTensors &stored, const TensorLocation &location,
                   CodedWeight &weight) const {
    MOERT_RETURN_IF_ERROR(checkType(stored, location, {TensorType::kF32}));
    std::vector<std::vector<uint64_t>> shapes = {{}, {1}};
    if (weight.matrices)
      shapes.insert(shapes.end(), {{*weight.matrices}, shapeOf(weight, 1, 1)});
    MOERT_RETURN_IF_ERROR(checkShape(stored, location, shapes, "for a scale of the whole tensor"));
    const std::vector<uint64_t> &shape = location.tensor->shape;
    weight.isGlobalShared = shape.empty() || shape[0] == 1;
    weight.dividesByGlobalScale = !isModelOpt;
    weight.globalScale = {.location = location,
                          .format = {NumberFormat::Kind::kF32},
                          .lines = 1,
                          .width = 1,
                          .rowsPerElement = weight.rows,
                          .colsPerElement = weight.cols};
    return Status();
  }

  bool isModelOpt;
};

} // namespace

std::unique_ptr<WeightCodec> makeNvfp4Codec(Nvfp4Names naming) {
  return std::make_unique<Nvfp4Codec>(naming);
}

} // namespace moec
