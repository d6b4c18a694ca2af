// Weights of Swin-MoE that no image changes, computed from stored ones in double and rounded once:
//  - X.attn.position_bias [heads * (2 window - 1)^2]: for the offset (y, x) of a query from a key,
//    W2 relu(W1 (f(y), f(x)) + b1), with W1, b1, W2 of X.attn.cpb_mlp and f(t) = sign(t) *
//    log2(8 |t| / (window - 1) + 1) / 3;
//  - X.directions [experts, size]: the columns of X.sim_matrix, each divided by its length, times
//    exp(min(X.temperature, ln 100)).
// Source: microsoft/Swin-Transformer, models/swin_transformer_moe.py; microsoft/tutel,
// gates/cosine_top.py.
#include "compiler/import/architectures/SwinMoe.h"
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"
#include "runtime/base/DeterministicMath.h"
#include "runtime/base/HalfFloat.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

constexpr std::string_view kFirst = ".cpb_mlp.0.weight", kBias = ".position_bias",
                           kColumns = ".sim_matrix", kDirections = ".directions";

/// A small tensor as f32.
Result<std::vector<double>> readAll(const StoredTensors &stored, const TensorLocation &location) {
  MOERT_RETURN_IF_ERROR(
      checkType(stored, location, {TensorType::kF32, TensorType::kF16, TensorType::kBf16}));
  const StoredTensor &tensor = *location.tensor;
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  MOERT_RETURN_IF_ERROR(stored.read(location, 0, bytes));
  std::vector<double> values;
  if (tensor.type == TensorType::kF32) {
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    values.assign(floats.begin(), floats.end());
    return values;
  }
  std::vector<uint16_t> halves(bytes.size() / sizeof(uint16_t));
  std::memcpy(halves.data(), bytes.data(), bytes.size());
  for (const uint16_t half : halves)
    values.push_back(tensor.type == TensorType::kF16 ? moert::f16ToF32(half)
                                                     : moert::bf16ToF32(half));
  return values;
}

struct BiasNetwork {
  TensorLocation first, firstBias, second;
  uint64_t hidden, heads;
  int64_t window;

  Status compute(const StoredTensors &stored, std::span<float> out) const {
    MOERT_ASSIGN_OR_RETURN(const std::vector<double> w1, readAll(stored, first));
    MOERT_ASSIGN_OR_RETURN(const std::vector<double> b1, readAll(stored, firstBias));
    MOERT_ASSIGN_OR_RETURN(const std::vector<double> w2, readAll(stored, second));
    std::vector<double> active(hidden);
    const int64_t last = window - 1, span = 2 * window - 1;
    for (int64_t y = -last; y <= last; ++y)
      for (int64_t x = -last; x <= last; ++x) {
        const double input[] = {scaled(y), scaled(x)};
        for (size_t i = 0; i < hidden; ++i)
          active[i] = std::max(0.0, w1[2 * i] * input[0] + w1[2 * i + 1] * input[1] + b1[i]);
        for (size_t head = 0; head < heads; ++head) {
          double sum = 0;
          for (size_t i = 0; i < hidden; ++i)
            sum += w2[head * hidden + i] * active[i];
          out[(head * size_t(span) + size_t(y + last)) * size_t(span) + size_t(x + last)] =
              static_cast<float>(sum);
        }
      }
    return {};
  }

private:
  double scaled(int64_t offset) const {
    const double magnitude = 8 * std::abs(double(offset)) / double(window - 1) + 1;
    const double value = moert::deterministicLog(magnitude) / moert::deterministicLog(8);
    return offset < 0 ? -value : value;
  }
};

struct Columns {
  TensorLocation columns, temperature;
  uint64_t size, experts;

  Status compute(const StoredTensors &stored, std::span<float> out) const {
    MOERT_ASSIGN_OR_RETURN(const std::vector<double> values, readAll(stored, columns));
    MOERT_ASSIGN_OR_RETURN(const std::vector<double> degrees, readAll(stored, temperature));
    const double factor =
        moert::deterministicExp(std::min(degrees.front(), moert::deterministicLog(100)));
    for (size_t expert = 0; expert < experts; ++expert) {
      double sum = 0;
      for (size_t i = 0; i < size; ++i)
        sum += values[i * experts + expert] * values[i * experts + expert];
      const double length = std::max(std::sqrt(sum), 1e-12);
      for (size_t i = 0; i < size; ++i)
        out[expert * size + i] = static_cast<float>(values[i * experts + expert] / length * factor);
    }
    return {};
  }
};

class SwinCodec final : public WeightCodec {
public:
  explicit SwinCodec(std::vector<SwinStage> ofModel) : stages(std::move(ofModel)) {}

  std::string text() const override { return ""; }
  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    const std::optional<std::string> bias = withEnding(stored.name, kFirst, kBias);
    return bias ? bias : withEnding(stored.name, kColumns, kDirections);
  }
  std::vector<std::string> companions(std::string_view name) const override {
    if (const auto module = withEnding(name, kDirections, ""))
      return {*module + ".temperature"};
    const std::string module = withEnding(name, kBias, ".cpb_mlp.").value_or("");
    return {module + "0.bias", module + "2.weight"};
  }
  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    return name.ends_with(kBias) ? describeBias(stored, codes, name)
                                 : describeDirections(stored, codes, name);
  }

private:
  Result<CodedWeight> describeBias(const StoredTensors &stored, const TensorLocation &codes,
                                   std::string_view name) const {
    const std::vector<std::string> others = companions(name);
    MOERT_ASSIGN_OR_RETURN(const TensorLocation firstBias,
                           requireTensor(stored, codes, others[0], "biases"));
    MOERT_ASSIGN_OR_RETURN(const TensorLocation second,
                           requireTensor(stored, codes, others[1], "second matrix"));
    MOERT_ASSIGN_OR_RETURN(const uint32_t window, windowOf(stored, codes));
    const std::vector<uint64_t> &shape = second.tensor->shape;
    if (shape.size() != 2)
      return invalidInput(stored.subject(second), ": found shape ", shapeText(shape),
                          ", expected a matrix");
    const uint64_t heads = shape[0], hidden = shape[1], span = 2 * uint64_t(window) - 1;
    MOERT_RETURN_IF_ERROR(
        checkShape(stored, codes, {{hidden, 2}}, "for the rows of the second matrix"));
    MOERT_RETURN_IF_ERROR(
        checkShape(stored, firstBias, {{hidden}}, "for the rows of the second matrix"));
    CodedWeight weight = computed(codes, 1, heads * span * span);
    weight.isVector = true;
    weight.compute = [made = BiasNetwork{codes, firstBias, second, hidden, heads, window}](
                         const StoredTensors &of, std::span<float> out) {
      return made.compute(of, out);
    };
    return weight;
  }
  Result<CodedWeight> describeDirections(const StoredTensors &stored, const TensorLocation &codes,
                                         std::string_view name) const {
    MOERT_ASSIGN_OR_RETURN(const TensorLocation temperature,
                           requireTensor(stored, codes, companions(name).front(), "temperature"));
    MOERT_RETURN_IF_ERROR(checkShape(stored, temperature, {{}, {1}}, "for a router"));
    const std::vector<uint64_t> &shape = codes.tensor->shape;
    if (shape.size() != 2)
      return invalidInput(stored.subject(codes), ": found shape ", shapeText(shape),
                          ", expected a matrix");
    CodedWeight weight = computed(codes, shape[1], shape[0]);
    weight.compute = [made = Columns{codes, temperature, shape[0], shape[1]}](
                         const StoredTensors &of, std::span<float> out) {
      return made.compute(of, out);
    };
    return weight;
  }
  static CodedWeight computed(const TensorLocation &codes, uint64_t rows, uint64_t cols) {
    CodedWeight weight;
    weight.rows = rows;
    weight.cols = cols;
    weight.codes.location = codes;
    return weight;
  }
  /// The window of the stage in "layers.STAGE.blocks.".
  Result<uint32_t> windowOf(const StoredTensors &stored, const TensorLocation &codes) const {
    constexpr std::string_view kLayers = "layers.";
    const std::string &name = codes.tensor->name;
    size_t stage = stages.size();
    if (name.starts_with(kLayers))
      std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), stage);
    if (stage >= stages.size())
      return invalidInput(stored.subject(codes), ": expected one of layers.0 to layers.",
                          stages.size() - 1, ", the stages in config.json");
    return stages[stage].window;
  }

  std::vector<SwinStage> stages;
};

} // namespace

Result<std::unique_ptr<WeightCodec>> makeSwinCodec(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(std::vector<SwinStage> stages, readSwinStages(config));
  return std::unique_ptr<WeightCodec>(std::make_unique<SwinCodec>(std::move(stages)));
}

} // namespace moec
