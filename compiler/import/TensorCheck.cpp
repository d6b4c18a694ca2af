#include "compiler/import/TensorCheck.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/TensorValues.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// The union of all parts taken from one tensor, which determines the tensor's shape.
struct Extent {
  bool isIndexed = false;
  bool isTransposed = false;
  bool isConsistent = true; // All parts have one layout and, but for vectors, one width.
  uint64_t indices = 0;
  uint64_t rows = 0; // Read as a matrix: number of rows up to the last one taken.
  uint64_t cols = 0; // Width of every part.
  // Read as a vector: number of elements up to the last one taken; 0: parts have rows.
  uint64_t vectorLength = 0;
  uint64_t stackedVectors = 0; // The vector is that of a tensor [stackedVectors, n].
  bool hasIntegers = false;

  bool operator==(const Extent &) const = default;
};

/// The rows and columns that a part needs in its tensor, which has more rows if other parts do.
struct PartSize {
  uint64_t rows, cols;
  bool isTransposed; // Stored [cols, rows].
};

PartSize sizeOf(const WeightSource &source) {
  const uint64_t blockRows = source.rows / source.blocks;
  const uint64_t rowEnd = source.firstRow + (blockRows - 1) * source.rowStep + 1;
  const uint64_t lastBlock = (source.blocks - uint64_t{1}) * source.blockStep;
  // Transposed blocks are apart in the direction of their inputs.
  if (source.transposed && source.blockStep != 0)
    return {lastBlock + source.cols, rowEnd, false};
  return {lastBlock + rowEnd, source.cols, source.transposed};
}

void addPart(Extent &extent, const WeightSource &source) {
  const bool isFirst = extent.rows == 0;
  const PartSize size = sizeOf(source);
  const uint64_t vectorEnd = source.firstRow + (uint64_t{source.cols} - 1) * source.rowStep + 1;
  const bool isVector = source.rows == 1 && (isFirst || extent.vectorLength != 0);
  if (!isFirst &&
      (extent.isIndexed != source.index.has_value() || extent.isTransposed != size.isTransposed ||
       (extent.cols != size.cols && !isVector) || extent.stackedVectors != source.stackedVectors))
    extent.isConsistent = false;
  extent.stackedVectors = source.stackedVectors;
  extent.hasIntegers = source.integers;
  extent.isIndexed = source.index.has_value();
  extent.isTransposed = size.isTransposed;
  extent.indices = std::max<uint64_t>(extent.indices, source.index.value_or(0) + uint64_t{1});
  extent.rows = std::max(extent.rows, size.rows);
  extent.cols = size.cols;
  extent.vectorLength = isVector ? std::max(extent.vectorLength, vectorEnd) : 0;
}

/// The accepted shapes; a single row may be stored as a vector or as a matrix of one row.
std::vector<std::vector<uint64_t>> expectedShapes(const Extent &extent) {
  std::vector<std::vector<uint64_t>> shapes;
  if (extent.stackedVectors != 0)
    return {{extent.stackedVectors, moert::divideUp(extent.vectorLength, extent.stackedVectors)}};
  if (extent.vectorLength != 0)
    shapes.push_back({extent.vectorLength});
  shapes.push_back(extent.isTransposed ? std::vector{extent.cols, extent.rows}
                                       : std::vector{extent.rows, extent.cols});
  if (extent.isIndexed)
    for (std::vector<uint64_t> &shape : shapes)
      shape.insert(shape.begin(), extent.indices);
  return shapes;
}

std::string shapesText(const std::vector<std::vector<uint64_t>> &shapes) {
  std::string text;
  for (const std::vector<uint64_t> &shape : shapes)
    text += strCat(text.empty() ? "" : " or ", shapeText(shape));
  return text;
}

Status checkTensor(const Checkpoint &checkpoint, const std::string &name, const Extent &extent) {
  const std::vector<std::vector<uint64_t>> shapes = expectedShapes(extent);
  MOERT_ASSIGN_OR_RETURN(const WeightTensor weight, checkpoint.weight(name));
  const std::string &file = checkpoint.shardPath(weight.location.shard);
  if (!extent.isConsistent)
    return invalidInput(file, ": tensor ", quoted(name),
                        ": found parts of different layouts taken from it, expected one layout");
  if (std::find(shapes.begin(), shapes.end(), weight.shape) == shapes.end())
    return invalidInput(file, ": tensor ", quoted(name), ": found shape ", shapeText(weight.shape),
                        ", expected ", shapesText(shapes));
  if (!weight.type || isInteger(*weight.type) != extent.hasIntegers)
    return invalidInput(file, ": tensor ", quoted(name), ": found dtype ",
                        tensorTypeName(weight.location.tensor->type), ", expected ",
                        extent.hasIntegers ? "I32 or I64" : "BF16, F16 or F32");
  return Status();
}

/// The module of a tensor: "a.q_proj." for "a.q_proj.weight".
std::string_view moduleOf(std::string_view tensor) {
  return tensor.substr(0, tensor.rfind('.') + 1);
}

/// A buffer of a rotation. Rotations are computed from the config.
bool isRotationBuffer(std::string_view tensor) {
  constexpr std::array<std::string_view, 3> kBuffers = {"inv_freq", "cos_cached", "sin_cached"};
  const std::string_view module = moduleOf(tensor);
  return module.ends_with("rotary_emb.") &&
         std::find(kBuffers.begin(), kBuffers.end(), tensor.substr(module.size())) !=
             kBuffers.end();
}

/// A part of a layer past the last one that predicts tokens further ahead. Every one of them has
/// eh_proj; without it, the config lacks a layer.
bool isInPredictionLayer(const Checkpoint &checkpoint, const ModelDescription &description,
                         std::string_view tensor) {
  constexpr std::string_view kLayers = "layers.";
  const size_t begin = tensor.find(kLayers);
  if (begin == std::string_view::npos)
    return false;
  const size_t number = begin + kLayers.size(), end = tensor.find('.', number);
  uint32_t layer = 0;
  if (end == std::string_view::npos ||
      std::from_chars(tensor.data() + number, tensor.data() + end, layer).ptr !=
          tensor.data() + end)
    return false;
  return layer >= description.layers.size() &&
         checkpoint.has(strCat(tensor.substr(0, end), ".eh_proj.weight"));
}

/// A bias or zero points that are all zero and belong to a used weight: some quantizers store them
/// for every matrix.
Result<bool> isZeroBeside(const Checkpoint &checkpoint,
                          const std::map<std::string, Extent> &described, std::string_view tensor) {
  const std::string_view module = moduleOf(tensor);
  const auto weight = described.lower_bound(std::string(module));
  if ((!tensor.ends_with(".bias") && !tensor.ends_with("_zero_point")) || module.empty() ||
      weight == described.end() || !weight->first.starts_with(module))
    return false;
  return isAllZero(checkpoint, std::string(tensor));
}

/// The first of the tensors, and how many there are.
std::string listText(const Checkpoint &checkpoint, const std::vector<std::string_view> &tensors) {
  std::string text = strCat("tensor ", quoted(tensors.front()));
  if (tensors.size() > 1)
    text += strCat(" and ", tensors.size() - 1, " more of ", checkpoint.weightNames().size());
  return text;
}

/// The reason why a described tensor is missing, as far as the undescribed ones tell it.
std::string unusedText(const Checkpoint &checkpoint, const std::vector<std::string_view> &unused) {
  if (unused.empty())
    return "";
  const bool isMlx = std::any_of(unused.begin(), unused.end(), [](std::string_view name) {
    return name.find(".switch_mlp.") != std::string_view::npos;
  });
  return strCat("; the model that config.json describes does not use ",
                listText(checkpoint, unused),
                isMlx ? ", as MLX names them: use the checkpoint that it was converted from" : "");
}

} // namespace

void forEachWeight(const ModelDescription &description,
                   const std::function<void(const WeightSource &)> &visit) {
  visitWeights(description, [&](const WeightSource &source) {
    for (const WeightSource &single : tensorsOf(source))
      visit(single);
  });
}

void changeEachWeight(ModelDescription &description,
                      const std::function<void(WeightSource &)> &change) {
  visitWeights(description, change);
}

static std::map<std::string, Extent> extentsOf(const ModelDescription &description) {
  std::map<std::string, Extent> extents;
  forEachWeight(description,
                [&](const WeightSource &source) { addPart(extents[source.tensor], source); });
  return extents;
}

std::map<std::string, std::vector<uint64_t>> tensorShapes(const ModelDescription &description) {
  std::map<std::string, std::vector<uint64_t>> shapes;
  for (const auto &[name, extent] : extentsOf(description))
    shapes[name] = expectedShapes(extent).front();
  return shapes;
}

std::vector<std::string_view> unusedTensors(const Checkpoint &checkpoint,
                                            const ModelDescription &description) {
  std::set<std::string, std::less<>> used;
  forEachWeight(description, [&](const WeightSource &source) { used.insert(source.tensor); });
  const auto isOfOtherPart = [&](std::string_view name) {
    return std::any_of(description.otherParts.begin(), description.otherParts.end(),
                       [&](const std::string &prefix) { return name.starts_with(prefix); });
  };
  std::vector<std::string_view> unused;
  for (const std::string_view name : checkpoint.weightNames())
    if (used.count(name) == 0 && !isOfOtherPart(name) && !isRotationBuffer(name) &&
        !isInPredictionLayer(checkpoint, description, name))
      unused.push_back(name);
  return unused;
}

Status checkTensors(const Checkpoint &checkpoint, const ModelDescription &description) {
  const std::map<std::string, Extent> extents = extentsOf(description);
  const std::vector<std::string_view> candidates = unusedTensors(checkpoint, description);
  for (const auto &[name, extent] : extents)
    if (!checkpoint.has(name))
      return invalidInput(checkpoint.directory(), ": found no tensor ", quoted(name),
                          ", expected it with shape ", shapesText(expectedShapes(extent)),
                          checkpoint.absenceText(name), unusedText(checkpoint, candidates));
  for (const auto &[name, extent] : extents)
    MOERT_RETURN_IF_ERROR(checkTensor(checkpoint, name, extent));
  std::vector<std::string_view> unused;
  for (const std::string_view name : candidates) {
    MOERT_ASSIGN_OR_RETURN(const bool isNeutral, isZeroBeside(checkpoint, extents, name));
    if (!isNeutral)
      unused.push_back(name);
  }
  if (unused.empty())
    return Status();
  return invalidInput(
      checkpoint.directory(), ": found ", listText(checkpoint, unused),
      ", which the model that config.json describes does not use, expected no tensors but its "
      "own: ",
      "without them the results may be wrong. Compare config.json with the one that the model was ",
      "published with (numbers of layers and experts, shared experts, biases, norms). If another ",
      "network was saved with the model (a head, an adapter, a draft model), save it without that");
}

} // namespace moec
