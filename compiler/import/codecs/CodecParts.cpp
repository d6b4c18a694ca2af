#include "compiler/import/codecs/CodecParts.h"

#include "compiler/import/JsonScan.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moec {

using moert::divideUp;
using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

static constexpr uint64_t kCodesPerWord = 8;

std::optional<std::string> withEnding(std::string_view name, std::string_view from,
                                      std::string_view to) {
  if (name.size() <= from.size() || !name.ends_with(from))
    return std::nullopt;
  return strCat(name.substr(0, name.size() - from.size()), to);
}

Status checkChoice(const ConfigObject &config, std::string_view key,
                   std::initializer_list<std::string_view> choices) {
  if (!config.has(key))
    return Status();
  MOERT_ASSIGN_OR_RETURN(const std::string found, config.string(key));
  if (std::find(choices.begin(), choices.end(), std::string_view(found)) != choices.end())
    return Status();
  std::string text;
  for (const std::string_view choice : choices)
    text += strCat(text.empty() ? "" : " or ", quoted(choice));
  return config.mismatch(key, text);
}

Result<TensorLocation> requireTensor(const StoredTensors &stored, const TensorLocation &codes,
                                     const std::string &name, std::string_view noun) {
  if (const auto location = stored.find(name))
    return *location;
  return invalidInput(stored.subject(codes), ": found no tensor ", quoted(name), ", expected its ",
                      noun, " there", stored.shards().absenceText(name));
}

Status checkType(const StoredTensors &stored, const TensorLocation &location,
                 std::initializer_list<TensorType> types) {
  if (std::find(types.begin(), types.end(), location.tensor->type) != types.end())
    return Status();
  std::string text;
  for (const TensorType type : types)
    text += strCat(text.empty() ? "" : " or ", tensorTypeName(type));
  return invalidInput(stored.subject(location), ": found dtype ",
                      tensorTypeName(location.tensor->type), ", expected ", text);
}

Status checkShape(const StoredTensors &stored, const TensorLocation &location,
                  const std::vector<std::vector<uint64_t>> &shapes, std::string_view reason) {
  if (std::find(shapes.begin(), shapes.end(), location.tensor->shape) != shapes.end())
    return Status();
  std::string text;
  for (const std::vector<uint64_t> &shape : shapes)
    text += strCat(text.empty() ? "" : " or ", shapeText(shape));
  return invalidInput(stored.subject(location), ": found shape ", shapeText(location.tensor->shape),
                      ", expected ", text, " ", reason);
}

std::vector<uint64_t> shapeOf(const CodedWeight &weight, uint64_t lines, uint64_t width) {
  if (weight.matrices)
    return {*weight.matrices, lines, width};
  return {lines, width};
}

Result<CodedWeight> byteCodes(const StoredTensors &stored, const TensorLocation &codes,
                              const NumberFormat &format) {
  const std::vector<uint64_t> &shape = codes.tensor->shape;
  const bool isMatrix = shape.size() == 2 || shape.size() == 3;
  if (!isMatrix || std::find(shape.begin(), shape.end(), 0u) != shape.end())
    return invalidInput(stored.subject(codes), ": found shape ", shapeText(shape),
                        ", expected a matrix, or several in one tensor");
  CodedWeight weight;
  if (shape.size() == 3)
    weight.matrices = shape[0];
  weight.rows = shape[shape.size() - 2];
  weight.cols = shape.back();
  weight.codes = {.location = codes, .format = format, .lines = weight.rows, .width = weight.cols};
  return weight;
}

Status setScales(const StoredTensors &stored, const TensorLocation &scales, const ScaleBlock &block,
                 CodedWeight &weight) {
  const auto format = scaleFormatOf(scales.tensor->type);
  if (!format)
    return invalidInput(stored.subject(scales), ": found dtype ",
                        tensorTypeName(scales.tensor->type),
                        ", expected F32, F16, BF16, F8_E4M3 or F8_E8M0");
  Plane &plane = weight.scales;
  plane = {.location = scales, .format = *format};
  plane.rowsPerElement = block.rows == 0 ? weight.rows : block.rows;
  plane.colsPerElement = block.cols == 0 ? weight.cols : block.cols;
  plane.lines = divideUp(weight.rows, plane.rowsPerElement);
  plane.width = divideUp(weight.cols, plane.colsPerElement);
  std::vector<std::vector<uint64_t>> shapes = {shapeOf(weight, plane.lines, plane.width)};
  // ModelOpt keeps the dimensions inside of a block.
  if (block.rows > 1 && !weight.matrices)
    shapes.push_back({plane.lines, 1, plane.width, 1});
  if (block.cols == 0) {
    // A column of scales may lack its last dimension, a single scale both.
    shapes.push_back(shapes[0]);
    shapes.back().pop_back();
    if (block.rows == 0) {
      shapes.push_back(shapes.back());
      shapes.back().pop_back();
    }
  }
  return checkShape(stored, scales, shapes,
                    strCat("for weights ", shapeText(weight.shape()), " with a scale per ",
                           block.rows == 0 ? "all" : strCat(block.rows), " x ",
                           block.cols == 0 ? "all" : strCat(block.cols)));
}

Result<uint64_t> readGroupSize(const ConfigObject &config, std::string_view key,
                               std::optional<uint32_t> fallback) {
  constexpr uint32_t kMaxGroup = 1 << 20;
  if (config.contains(key)) {
    MOERT_ASSIGN_OR_RETURN(const double size, config.real(key, -1, kMaxGroup));
    if (size == -1)
      return uint64_t{0};
  }
  MOERT_ASSIGN_OR_RETURN(const uint32_t whole, config.integer(key, 1, kMaxGroup, fallback));
  return uint64_t{whole};
}

Result<std::vector<uint64_t>> readOtherGroups(const ConfigObject &config, std::string_view key) {
  constexpr uint32_t kPlainBits = 16; // A layer with so many is stored plainly.
  std::vector<uint64_t> groups;
  if (!config.has(key))
    return groups;
  MOERT_ASSIGN_OR_RETURN(const ConfigObject layers, config.object(key));
  for (const std::string &name : layers.keys()) {
    if (name.starts_with("-:")) // GPTQModel's sign for layers that are not quantized.
      continue;
    MOERT_ASSIGN_OR_RETURN(const ConfigObject layer, layers.object(name));
    MOERT_ASSIGN_OR_RETURN(const uint32_t bits, layer.integer("bits", 1, 64, 4));
    if (bits >= kPlainBits)
      continue;
    if (bits != 4)
      return layer.mismatch("bits", "4, or 16 for a layer that is not quantized");
    MOERT_RETURN_IF_ERROR(checkChoice(layer, "data_type", {"int"}));
    if (!layer.has("group_size"))
      continue;
    MOERT_ASSIGN_OR_RETURN(groups.emplace_back(), readGroupSize(layer, "group_size"));
  }
  return groups;
}

Status refuseKey(const ConfigObject &config, std::string_view key, std::string_view reason) {
  if (!config.has(key))
    return Status();
  const Result<ConfigObject> object = config.object(key);
  return object.isOk() && object->keys().empty()
             ? Status()
             : config.mismatch(key, strCat("null or none: ", reason));
}

bool isActivationScale(std::string_view name) {
  constexpr std::array<std::string_view, 12> kEndings = {
      "input_scale",  "activation_scale",  "input_global_scale", "input_zero_point",
      "output_scale", "output_zero_point", ".q_scale",           ".k_scale",
      ".v_scale",     ".kv_scale",         ".k_zero_point",      ".v_zero_point"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

Result<CodedWeight> wordColumns(const StoredTensors &stored, const TensorLocation &codes,
                                const NibblePacking &packing, const NumberFormat &format) {
  MOERT_RETURN_IF_ERROR(checkType(stored, codes, {TensorType::kI32}));
  MOERT_ASSIGN_OR_RETURN(CodedWeight weight, byteCodes(stored, codes, format));
  // The tensor's rows are the weight's inputs.
  std::swap(weight.rows, weight.cols);
  (packing.isAcrossLines ? weight.cols : weight.rows) *= kCodesPerWord;
  weight.codes.packing = packing;
  weight.codes.linesAreColumns = true;
  weight.codes.lines = weight.cols;
  weight.codes.width = weight.rows;
  return weight;
}

Status setColumnScales(const StoredTensors &stored, const TensorLocation &codes,
                       const ColumnScales &names, const NibblePacking &packing,
                       const NumberFormat &zeroFormat, CodedWeight &weight) {
  const uint64_t group = names.group == 0 ? weight.cols : names.group;
  const uint64_t groups = divideUp(weight.cols, group);
  const std::string reason =
      strCat("for ", weight.rows, " outputs and ", weight.cols, " inputs in groups of ", group);
  MOERT_ASSIGN_OR_RETURN(const TensorLocation scales,
                         requireTensor(stored, codes, names.scales, "scales"));
  MOERT_RETURN_IF_ERROR(
      checkType(stored, scales, {TensorType::kF16, TensorType::kBf16, TensorType::kF32}));
  MOERT_RETURN_IF_ERROR(checkShape(stored, scales, {shapeOf(weight, groups, weight.rows)}, reason));
  weight.scales = {.location = scales,
                   .format = *scaleFormatOf(scales.tensor->type),
                   .lines = groups,
                   .width = weight.rows,
                   .linesAreColumns = true,
                   .colsPerElement = group};
  MOERT_ASSIGN_OR_RETURN(const TensorLocation zeroPoints,
                         requireTensor(stored, codes, names.zeroPoints, "zero points"));
  MOERT_RETURN_IF_ERROR(checkType(stored, zeroPoints, {TensorType::kI32}));
  MOERT_RETURN_IF_ERROR(checkShape(
      stored, zeroPoints, {shapeOf(weight, groups, divideUp(weight.rows, kCodesPerWord))}, reason));
  Plane &plane = weight.zeroPoints.emplace(weight.scales);
  plane.location = zeroPoints;
  plane.format = zeroFormat;
  plane.packing = packing;
  return Status();
}

} // namespace moec
