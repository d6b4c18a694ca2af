#include "compiler/import/gguf/GgufCodec.h"

#include "compiler/import/codecs/CodecParts.h"
#include "compiler/import/codecs/GgmlBlocks.h"

#include <array>
#include <functional>
#include <numeric>
#include <set>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

using Line = RowView::Line;
using Lines = std::vector<Line>;

constexpr std::string_view kLayer = "blk.", kModel = "model.";

/// Far above any model's, low enough to list them.
constexpr uint64_t kMostLines = 1 << 24;

/// The numbers of heads that the orders of lines depend on.
struct HeadCounts {
  uint32_t heads = 0, kvHeads = 0;
  uint32_t keyHeads = 0, valueHeads = 0, keyDim = 0, valueDim = 0; // In delta nets.
};

/// "3." of "blk.3.attn_q.weight"; empty outside of layers.
std::string_view layerOf(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix))
    return "";
  const size_t end = name.find('.', prefix.size());
  return end == std::string_view::npos ? "" : name.substr(prefix.size(), end + 1 - prefix.size());
}

class GgufCodec final : public WeightCodec {
public:
  GgufCodec(const GgufFamily &kind, const HeadCounts &heads, std::string types)
      : family(kind), publishedLayer(strCat(kind.prefix, "layers.")), counts(heads),
        typesText(std::move(types)) {}

  std::string text() const override { return typesText.empty() ? "" : strCat("GGUF, ", typesText); }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    const std::string_view layer = layerOf(stored.name, kLayer);
    const GgufTensorName *const name = find(stored.name);
    if (!name)
      return std::nullopt;
    if (!layer.empty())
      return strCat(publishedLayer, layer, name->published);
    return name->published.starts_with(kModel)
               ? strCat(family.prefix, name->published.substr(kModel.size()))
               : std::string(name->published);
  }

  std::vector<std::string> companions(std::string_view plain) const override {
    const std::string_view layer = layerOf(plain, publishedLayer);
    std::vector<std::string> names;
    if (layer.empty())
      return names;
    const std::string_view published = plain.substr(publishedLayer.size() + layer.size());
    for (const auto &rows : {family.tensors, commonGgufTensors()})
      for (const GgufTensorName &name : rows)
        if (name.published == published && !name.second.empty())
          names.push_back(strCat(kLayer, layer, name.second));
    return names;
  }

  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view) const override {
    const GgufTensorName &name = *find(codes.tensor->name); // It has a plain name.
    CodedWeight weight;
    weight.view.emplace();
    MOERT_RETURN_IF_ERROR(addPiece(stored, codes, *weight.view));
    const std::vector<uint64_t> &shape = codes.tensor->shape;
    weight.isVector = shape.size() == 1;
    weight.cols = shape.back();
    weight.rows = weight.isVector ? 1 : shape[shape.size() - 2];
    if (shape.size() == 3)
      weight.matrices = shape[0];
    weight.isTransposed = name.isTransposed;
    weight.view->change = name.change;
    if (!name.second.empty()) {
      const std::string second = strCat(kLayer, layerOf(codes.tensor->name, kLayer), name.second);
      MOERT_ASSIGN_OR_RETURN(const TensorLocation other,
                             requireTensor(stored, codes, second, "other part"));
      MOERT_RETURN_IF_ERROR(addPiece(stored, other, *weight.view));
    }
    MOERT_RETURN_IF_ERROR(setOrder(stored, codes, name.order, weight));
    return weight;
  }

private:
  /// nullptr also for the second part of a tensor.
  const GgufTensorName *find(std::string_view tensor) const {
    const std::string_view layer = layerOf(tensor, kLayer);
    const std::string_view wanted =
        layer.empty() ? tensor : tensor.substr(kLayer.size() + layer.size());
    for (const auto &rows :
         {family.tensors, layer.empty() ? outerGgufTensors() : commonGgufTensors()})
      for (const GgufTensorName &name : rows) {
        if (name.second == wanted)
          return nullptr;
        if (name.tensor == wanted && isOuter(name) == layer.empty())
          return &name;
      }
    return nullptr;
  }

  static bool isOuter(const GgufTensorName &name) {
    return name.published.starts_with(kModel) || name.published.starts_with("lm_head.");
  }

  static Status addPiece(const StoredTensors &stored, const TensorLocation &location,
                         RowView &view) {
    const StoredTensor &tensor = *location.tensor;
    if (!canDecodeBlocks(tensor.type))
      return invalidInput(stored.subject(location), ": found type ", tensorTypeName(tensor.type),
                          ", which is not read; expected F32, F16, BF16, or a quantized type of ",
                          "ggml other than NVFP4");
    view.pieces.push_back({location,
                           tensor.shape.size() == 1 ? 1 : tensor.shape[tensor.shape.size() - 2],
                           tensor.shape.back()});
    return Status();
  }

  Status setOrder(const StoredTensors &stored, const TensorLocation &codes, LineOrder order,
                  CodedWeight &weight) const {
    const auto refuse = [&](std::string_view expected) {
      return invalidInput(
          stored.subject(codes), ": found shape ", shapeText(codes.tensor->shape),
          weight.view->pieces.size() == 1
              ? ""
              : strCat(" beside ", shapeText(weight.view->pieces[1].location.tensor->shape)),
          ", expected ", expected);
    };
    if (order == LineOrder::kVector || order == LineOrder::kTaps) {
      flatten(order == LineOrder::kTaps ? codes.tensor->shape.back() : 0, weight);
      return Status();
    }
    for (const RowView::Piece &piece : weight.view->pieces)
      if (piece.location.tensor->shape.size() > 3)
        return refuse("up to 3 dimensions");
    if (order != LineOrder::kSame && std::max(weight.rows, weight.cols) > kMostLines)
      return refuse(strCat("at most ", kMostLines, " rows and columns"));
    switch (order) {
    case LineOrder::kSame:
    case LineOrder::kVector:
    case LineOrder::kTaps:
      return Status();
    case LineOrder::kStacked:
    case LineOrder::kInterleaved:
      return join(order, weight) ? Status() : refuse("the same shape of both");
    case LineOrder::kRopePairs:
      return pairRows(codes.tensor->name, weight) ? Status() : refuse("whole heads of rows");
    case LineOrder::kLatent:
      return joinLatent(weight) ? Status()
                                : refuse("[heads, rank, key part] and [heads, values, rank]");
    case LineOrder::kKeyHeads:
      return joinKeyHeads(weight) ? Status() : refuse("queries, keys, values and gates of heads");
    case LineOrder::kTiledHeads:
      return tile(weight.rows, weight.view->rows) ? Status() : refuse("rows of value heads");
    case LineOrder::kTiledColumns:
      return tile(weight.cols, weight.view->cols) ? Status() : refuse("columns of value heads");
    }
    return Status();
  }

  /// Rows of `cols` elements, whatever the dimensions are; 0: one row, a vector.
  static void flatten(uint64_t cols, CodedWeight &weight) {
    RowView::Piece &piece = weight.view->pieces.front();
    const std::vector<uint64_t> &shape = piece.location.tensor->shape;
    const uint64_t count =
        std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
    weight.matrices.reset();
    weight.isVector = cols == 0;
    weight.cols = piece.cols = weight.isVector ? count : cols;
    weight.rows = piece.rows = weight.isVector ? 1 : count / cols;
  }

  /// gate and up in one tensor. Interleaved vectors of all experts are interleaved themselves.
  static bool join(LineOrder order, CodedWeight &weight) {
    RowView &view = *weight.view;
    if (view.pieces[0].location.tensor->shape != view.pieces[1].location.tensor->shape)
      return false;
    const bool isStacked = order == LineOrder::kStacked;
    const bool joinsColumns = !isStacked && !weight.isTransposed;
    uint64_t &count = joinsColumns ? weight.cols : weight.rows;
    Lines &lines = joinsColumns ? view.cols : view.rows;
    for (uint32_t i = 0; i < 2 * count; ++i)
      lines.push_back(isStacked ? Line{i >= count, static_cast<uint32_t>(i % count)}
                                : Line{i % 2, i / 2});
    count *= 2;
    return true;
  }

  /// Published: the first elements of all pairs of a head, then the second ones.
  bool pairRows(std::string_view tensor, CodedWeight &weight) const {
    const uint32_t heads = tensor.ends_with("attn_q.weight") ? counts.heads : counts.kvHeads;
    const auto rows = static_cast<uint32_t>(weight.rows);
    if (heads == 0 || rows % (2 * heads) != 0)
      return false;
    const uint32_t dim = rows / heads, half = dim / 2;
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t inHead = row % dim;
      weight.view->rows.push_back({0, row - inHead + inHead % half * 2 + inHead / half});
    }
    return true;
  }

  /// Published: per head the rows of its key, then those of its value, each of the latent.
  static bool joinLatent(CodedWeight &weight) {
    RowView &view = *weight.view;
    RowView::Piece &keys = view.pieces[0], &values = view.pieces[1];
    const std::vector<uint64_t> &valueShape = values.location.tensor->shape;
    if (!weight.matrices || valueShape.size() != 3 || valueShape[0] != *weight.matrices ||
        values.cols != keys.rows || *weight.matrices * (keys.cols + values.rows) > kMostLines)
      return false;
    keys.isTransposed = true;
    const auto keyDim = static_cast<uint32_t>(keys.cols),
               valueDim = static_cast<uint32_t>(values.rows);
    for (uint32_t head = 0; head < *weight.matrices; ++head) {
      for (uint32_t i = 0; i < keyDim; ++i)
        view.rows.push_back({0, head * keyDim + i});
      for (uint32_t i = 0; i < valueDim; ++i)
        view.rows.push_back({1, head * valueDim + i});
    }
    weight.matrices.reset();
    weight.cols = keys.rows;
    weight.rows = view.rows.size();
    return true;
  }

  bool joinKeyHeads(CodedWeight &weight) const {
    RowView &view = *weight.view;
    const uint32_t keys = counts.keyHeads * counts.keyDim,
                   values = counts.valueHeads * counts.valueDim;
    if (counts.keyHeads == 0 || values % counts.keyHeads != 0 || weight.matrices ||
        weight.rows != uint64_t{2} * keys + values || view.pieces[1].rows != values ||
        view.pieces[1].cols != weight.cols)
      return false;
    const uint32_t perHead = values / counts.keyHeads;
    const auto add = [&](uint32_t piece, uint32_t first, uint32_t count) {
      for (uint32_t i = 0; i < count; ++i)
        view.rows.push_back({piece, first + i});
    };
    for (uint32_t head = 0; head < counts.keyHeads; ++head) {
      add(0, head * counts.keyDim, counts.keyDim);
      add(0, keys + head * counts.keyDim, counts.keyDim);
      add(0, 2 * keys + head * perHead, perHead);
      add(1, head * perHead, perHead);
    }
    weight.rows = view.rows.size();
    return true;
  }

  /// The last lines of `count` are one or valueDim of each value head.
  bool tile(uint64_t count, Lines &lines) const {
    const uint32_t heads = counts.valueHeads, keyHeads = counts.keyHeads;
    const uint64_t width = count == heads ? 1 : counts.valueDim;
    if (heads == 0 || keyHeads == 0 || heads % keyHeads != 0 || count < heads * width)
      return false;
    const auto first = static_cast<uint32_t>(count - heads * width);
    for (uint32_t i = 0; i < first; ++i)
      lines.push_back({0, i});
    for (uint32_t head = 0; head < heads; ++head) {
      const uint32_t perKey = heads / keyHeads;
      const uint32_t from = head % perKey * keyHeads + head / perKey;
      for (uint32_t i = 0; i < width; ++i)
        lines.push_back({0, first + static_cast<uint32_t>(from * width) + i});
    }
    return true;
  }

  const GgufFamily &family;
  std::string publishedLayer; // Before the number of a layer.
  HeadCounts counts;
  std::string typesText;
};

} // namespace

Result<std::unique_ptr<WeightCodec>>
makeGgufCodec(const GgufFamily &family, const ConfigObject &config, const ShardSet &shards) {
  constexpr uint32_t kMost = 1 << 14; // Products of two fit 32 bits.
  HeadCounts counts;
  const std::array<std::pair<const char *, uint32_t *>, 6> keys = {{
      {"num_attention_heads", &counts.heads},
      {"num_key_value_heads", &counts.kvHeads},
      {"linear_num_key_heads", &counts.keyHeads},
      {"linear_num_value_heads", &counts.valueHeads},
      {"linear_key_head_dim", &counts.keyDim},
      {"linear_value_head_dim", &counts.valueDim},
  }};
  for (const auto &[key, count] : keys) {
    MOERT_ASSIGN_OR_RETURN(*count, config.integer(key, 1, kMost, 0));
  }
  std::set<std::string_view> types;
  for (const std::string_view name : shards.tensorNames())
    if (const TensorType type = shards.find(name)->tensor->type; tensorBlock(type).elements > 1)
      types.insert(tensorTypeName(type));
  std::string text;
  for (const std::string_view type : types)
    text += strCat(text.empty() ? "" : ", ", type);
  return std::unique_ptr<WeightCodec>(std::make_unique<GgufCodec>(family, counts, std::move(text)));
}

} // namespace moec
