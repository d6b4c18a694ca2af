// Checkpoints of the compressed-tensors library. Of its formats, this file reads pack-quantized:
// X.weight_packed, I32 [outputs, inputs / 8], eight 4-bit codes per word, low first, code - 8;
// X.weight_scale [outputs, groups]; X.weight_shape; if asymmetric, X.weight_zero_point, I32
// [outputs / 8, groups], packed along outputs; if reordered by group, X.weight_g_idx. The formats
// float-quantized and nvfp4-pack-quantized are those of Fp8.cpp and Nvfp4.cpp under other names;
// mixed-precision has groups of several of these.
// Source: compressed-tensors 0.20, compressors/pack_quantized.
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <charconv>

namespace moec {

using moert::divideUp;
using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

constexpr uint64_t kCodesPerWord = 8;
constexpr uint32_t kMaxGroup = 1 << 20;

/// The weights of a config group.
struct Scheme {
  std::string format, type;
  uint32_t bits = 0;
  bool isSymmetric = true;
  ScaleBlock block = {1, 0}; // For a scale per tensor {0, 0}.
};

class PackedInt4Codec final : public WeightCodec {
public:
  explicit PackedInt4Codec(Scheme weights) : scheme(std::move(weights)) {}

  std::string text() const override {
    return strCat("compressed-tensors, 4-bit integers, ",
                  scheme.block.cols == 0 ? "a scale per row"
                                         : strCat("groups of ", scheme.block.cols, " inputs"),
                  scheme.isSymmetric ? "" : ", with zero points");
  }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    return withEnding(stored.name, ".weight_packed", ".weight");
  }

  std::vector<std::string> companions(std::string_view name) const override {
    return {strCat(name, "_scale"), strCat(name, "_zero_point"), strCat(name, "_shape"),
            strCat(name, "_g_idx")};
  }

  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    MOERT_RETURN_IF_ERROR(checkType(stored, codes, {TensorType::kI32}));
    MOERT_ASSIGN_OR_RETURN(CodedWeight weight, byteCodes(stored, codes, offset4Format()));
    weight.codes.packing.lineAlignment = kCodesPerWord;
    MOERT_ASSIGN_OR_RETURN(weight.cols, readInputs(stored, codes, name, weight));
    weight.codes.width = weight.cols;
    MOERT_ASSIGN_OR_RETURN(const TensorLocation scales,
                           requireTensor(stored, codes, strCat(name, "_scale"), "scales"));
    MOERT_RETURN_IF_ERROR(setScales(stored, scales, scheme.block, weight));
    MOERT_RETURN_IF_ERROR(setZeroPoints(stored, codes, name, weight));
    if (const auto groups = stored.find(strCat(name, "_g_idx"))) {
      MOERT_RETURN_IF_ERROR(checkType(stored, *groups, {TensorType::kI32}));
      MOERT_RETURN_IF_ERROR(checkShape(stored, *groups, {{weight.cols}}, "for as many inputs"));
      weight.groupOfColumn = *groups;
    }
    return weight;
  }

private:
  /// The number of inputs, which the packed words only bound: the end of X.weight_shape.
  static Result<uint64_t> readInputs(const StoredTensors &stored, const TensorLocation &codes,
                                     std::string_view name, const CodedWeight &weight) {
    MOERT_ASSIGN_OR_RETURN(const TensorLocation location,
                           requireTensor(stored, codes, strCat(name, "_shape"), "shape"));
    MOERT_RETURN_IF_ERROR(checkType(stored, location, {TensorType::kI64, TensorType::kI32}));
    const uint64_t rank = codes.tensor->shape.size();
    MOERT_RETURN_IF_ERROR(checkShape(stored, location, {{rank}}, "for as many dimensions"));
    std::vector<uint64_t> shape;
    const uint64_t bytes = location.tensor->type == TensorType::kI64 ? 8 : 4;
    for (uint64_t i = 0; i < rank; ++i) {
      uint64_t size = 0;
      MOERT_RETURN_IF_ERROR(stored.read(location, i * bytes,
                                        std::as_writable_bytes(std::span(&size, 1)).first(bytes)));
      shape.push_back(size);
    }
    std::vector<uint64_t> packed = shape;
    packed.back() = shape.back() / kCodesPerWord + (shape.back() % kCodesPerWord != 0);
    if (packed != codes.tensor->shape)
      return invalidInput(stored.subject(location), ": found ", shapeText(shape),
                          ", expected a shape of ", weight.rows, " rows that fills ",
                          shapeText(codes.tensor->shape), " words of 8 codes");
    return shape.back();
  }

  Status setZeroPoints(const StoredTensors &stored, const TensorLocation &codes,
                       std::string_view name, CodedWeight &weight) const {
    const std::string zeroName = strCat(name, "_zero_point");
    if (scheme.isSymmetric) {
      if (const auto found = stored.find(zeroName))
        return invalidInput(stored.subject(*found), ": found zero points, expected none: ",
                            "the weights of quantization_config are symmetric");
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(const TensorLocation location,
                           requireTensor(stored, codes, zeroName, "zero points"));
    MOERT_RETURN_IF_ERROR(checkType(stored, location, {TensorType::kI32}));
    Plane &plane = weight.zeroPoints.emplace(weight.scales);
    plane.location = location;
    plane.format = offset4Format();
    plane.packing = {.isAcrossLines = true};
    return checkShape(stored, location,
                      {shapeOf(weight, divideUp(plane.lines, kCodesPerWord), plane.width)},
                      strCat("for ", plane.lines, " x ", plane.width, " zero points"));
  }

  Scheme scheme;
};

/// [rows, columns] of a block, or "128x128", as versions before 0.11 wrote it.
Result<ScaleBlock> readBlock(const ConfigObject &weights) {
  const char *const key = "block_structure";
  std::vector<uint32_t> sizes;
  if (const Result<std::string> text = weights.string(key); text.isOk()) {
    const char *const end = text->data() + text->size();
    const char *begin = text->data();
    while (begin != end) {
      const auto [next, error] = std::from_chars(begin, end, sizes.emplace_back());
      const bool isLast = next == end;
      if (error != std::errc() || (!isLast && (*next != 'x' || next + 1 == end)))
        return weights.mismatch(key, "two numbers, as in [128, 128] or \"128x128\"");
      begin = isLast ? next : next + 1;
    }
  } else {
    MOERT_ASSIGN_OR_RETURN(sizes, weights.integers(key, 1, kMaxGroup));
  }
  if (sizes.size() != 2 || std::any_of(sizes.begin(), sizes.end(),
                                       [](uint32_t size) { return size < 1 || size > kMaxGroup; }))
    return weights.mismatch(
        key, strCat("two numbers from 1 to ", kMaxGroup, ", rows and columns of a block"));
  return ScaleBlock{sizes[0], sizes[1]};
}

/// The format of a group in a checkpoint that has several and does not name each.
std::string formatOf(const Scheme &scheme) {
  if (scheme.type == "int")
    return "pack-quantized";
  return scheme.bits == 4 ? "nvfp4-pack-quantized" : "float-quantized";
}

Result<Scheme> readScheme(const ConfigObject &quantization, const ConfigObject &group) {
  Scheme scheme;
  MOERT_ASSIGN_OR_RETURN(scheme.format, quantization.string("format"));
  if (group.has("format")) {
    MOERT_ASSIGN_OR_RETURN(scheme.format, group.string("format"));
  }
  MOERT_ASSIGN_OR_RETURN(const ConfigObject weights, group.object("weights"));
  MOERT_ASSIGN_OR_RETURN(scheme.type, weights.string("type", "int"));
  MOERT_ASSIGN_OR_RETURN(scheme.bits, weights.integer("num_bits", 1, 64));
  MOERT_ASSIGN_OR_RETURN(scheme.isSymmetric, weights.boolean("symmetric", true));
  if (scheme.format == "mixed-precision")
    scheme.format = formatOf(scheme);
  MOERT_ASSIGN_OR_RETURN(const std::string strategy, weights.string("strategy"));
  if (strategy == "group" || strategy == "tensor_group") {
    MOERT_ASSIGN_OR_RETURN(scheme.block.cols, weights.integer("group_size", 1, kMaxGroup));
  } else if (strategy == "block") {
    MOERT_ASSIGN_OR_RETURN(scheme.block, readBlock(weights));
  } else if (strategy == "tensor") {
    scheme.block = {0, 0};
  } else if (strategy != "channel") {
    return weights.mismatch("strategy",
                            "\"group\", \"tensor_group\", \"channel\", \"block\" or \"tensor\"");
  }
  return scheme;
}

Result<std::unique_ptr<WeightCodec>> makePart(const ConfigObject &quantization,
                                              const ConfigObject &group) {
  MOERT_ASSIGN_OR_RETURN(Scheme scheme, readScheme(quantization, group));
  const bool isInt4 = scheme.type == "int" && scheme.bits == 4;
  const bool isFp8 = scheme.type == "float" && scheme.bits == 8;
  const bool isFp4 = scheme.type == "float" && scheme.bits == 4;
  if (scheme.format == "pack-quantized" && isInt4 && scheme.block.rows == 1)
    return std::unique_ptr<WeightCodec>(std::make_unique<PackedInt4Codec>(std::move(scheme)));
  const bool isGrouped = scheme.block.rows == 1 && scheme.block.cols != 0;
  if (scheme.format == "float-quantized" && isFp8 && scheme.isSymmetric && !isGrouped)
    return makeFp8Codec(scheme.block.cols == 0 ? ScaleBlock{} : scheme.block);
  if (scheme.format == "nvfp4-pack-quantized" && isFp4 && scheme.isSymmetric &&
      scheme.block == ScaleBlock{1, kNvfp4Group})
    return makeNvfp4Codec(Nvfp4Names::kCompressedTensors);
  return (group.has("format") ? group : quantization)
      .mismatch("format",
                strCat("\"pack-quantized\" with integers of 4 bits, \"float-quantized\" with ",
                       "floats of 8 bits, or \"nvfp4-pack-quantized\" with groups of ", kNvfp4Group,
                       "; its weights have ", scheme.bits, " bits of type ", scheme.type));
}

} // namespace

Result<std::unique_ptr<WeightCodec>> makeCompressedTensorsCodec(const ConfigObject &quantization) {
  MOERT_RETURN_IF_ERROR(
      refuseKey(quantization, "transform_config", "weights that are stored rotated are not read"));
  if (quantization.has("sparsity_config")) {
    MOERT_ASSIGN_OR_RETURN(const ConfigObject sparsity, quantization.object("sparsity_config"));
    MOERT_RETURN_IF_ERROR(checkChoice(sparsity, "format", {"dense"}));
  }
  MOERT_ASSIGN_OR_RETURN(const ConfigObject groups, quantization.object("config_groups"));
  // A group's targets do not matter: the stored names, types and shapes decide.
  std::vector<std::unique_ptr<WeightCodec>> parts;
  for (const std::string &key : groups.keys()) {
    MOERT_ASSIGN_OR_RETURN(const ConfigObject group, groups.object(key));
    MOERT_ASSIGN_OR_RETURN(parts.emplace_back(), makePart(quantization, group));
  }
  if (parts.empty())
    return quantization.mismatch("config_groups", "at least one group");
  return makeMixedCodec(std::move(parts));
}

} // namespace moec
