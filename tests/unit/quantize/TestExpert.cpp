#include "tests/unit/quantize/TestExpert.h"

#include "compiler/import/Checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

using namespace moert;

namespace moec::test {

std::vector<float> randomValues(size_t count, float deviation, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float &value : values) {
    // The sum of four uniform numbers is nearly normal; the standard's distributions differ between
    // libraries.
    double sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += double(random()) / 4294967296.0 - 0.5;
    value = float(sum * 1.7320508 * deviation);
  }
  return values;
}

std::vector<float> correlatedRows(uint32_t rows, uint32_t cols, uint32_t seed) {
  const uint32_t factors = std::max(1u, cols / 4);
  const auto mix = randomValues(size_t(cols) * factors, 1, seed);
  const auto hidden = randomValues(size_t(rows) * factors, 1, seed + 1);
  auto values = randomValues(size_t(rows) * cols, 0.5f, seed + 2);
  for (size_t row = 0; row < rows; ++row)
    for (size_t col = 0; col < cols; ++col) {
      float &value = values[row * cols + col];
      for (size_t i = 0; i < factors; ++i)
        value += mix[col * factors + i] * hidden[row * factors + i] / std::sqrt(float(factors));
      value *= 0.25f + float(col % 7);
    }
  return values;
}

// Decodes one half-precision number, by its definition.
static double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

// The upper half of a single-precision number.
static double upperHalf(uint16_t bits) {
  const int exponent = bits >> 7 & 255, fraction = bits & 127;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  return bits >> 15 ? -magnitude : magnitude;
}

// From docs/format.md.
static double levelOf(uint32_t bits, uint8_t code) {
  static const std::vector<std::vector<double>> kLevels = {
      {-31, -10, 5, 22},
      {-31, -18, -10, -4, 2, 9, 16, 25},
      {-31, -23, -18, -14, -10, -7, -4, -1, 1, 4, 7, 10, 13, 17, 22, 27}};
  return kLevels.at(bits - 2).at(code);
}

// The weights of a row that is stored as their Hadamard transform: H is its own inverse, but for a
// factor.
static void undoTransform(std::span<double> row) {
  size_t block = 64;
  while (row.size() % block != 0)
    block /= 2;
  const double factor = block == 64 || block == 32 ? 0.125
                        : block >= 8               ? 0.25
                        : block > 1                ? 0.5
                                                   : 1;
  for (size_t first = 0; first < row.size(); first += block) {
    const std::vector<double> stored(row.begin() + ptrdiff_t(first),
                                     row.begin() + ptrdiff_t(first + block));
    for (size_t i = 0; i < block; ++i) {
      double sum = 0;
      for (size_t j = 0; j < block; ++j)
        sum += std::popcount(i & j) % 2 == 0 ? stored[j] : -stored[j];
      row[first + i] = factor * sum;
    }
  }
}

std::vector<double> valuesOf(const GridMatrix &matrix) {
  std::vector<double> values;
  for (size_t i = 0; i < matrix.codes.size(); ++i) {
    const size_t row = i / matrix.shape.cols, col = i % matrix.shape.cols;
    const size_t place = row * matrix.groupsPerRow() + col / matrix.grid.group;
    const double q = matrix.grid.hasLevels
                         ? levelOf(matrix.grid.bits, matrix.codes[i])
                         : double(matrix.codes[i]) - std::ldexp(1.0, int(matrix.grid.bits) - 1);
    const double scale = matrix.grid.hasByteScales ? upperHalf(matrix.rowScales.at(row)) *
                                                         int16_t(matrix.scales.at(place))
                                                   : half(matrix.scales.at(place));
    values.push_back(scale * q + (matrix.grid.hasOffsets ? half(matrix.offsets.at(place)) : 0));
  }
  for (size_t row = 0; row < matrix.shape.rows && matrix.grid.hasHadamard; ++row)
    undoTransform(std::span(values).subspan(row * matrix.shape.cols, matrix.shape.cols));
  return values;
}

double squaredErrorOf(const GridMatrix &matrix, std::span<const float> rows,
                      std::span<const float> importance) {
  const auto values = valuesOf(matrix);
  double error = 0;
  for (size_t i = 0; i < values.size(); ++i)
    error += (values[i] - rows[i]) * (values[i] - rows[i]) *
             (importance.empty() ? 1 : importance[i % matrix.shape.cols]);
  return error;
}

double outputErrorOf(const GridMatrix &matrix, std::span<const float> rows,
                     std::span<const float> inputs) {
  const auto values = valuesOf(matrix);
  const size_t cols = matrix.shape.cols;
  double error = 0;
  for (size_t token = 0; token < inputs.size() / cols; ++token)
    for (size_t row = 0; row < matrix.shape.rows; ++row) {
      double difference = 0;
      for (size_t col = 0; col < cols; ++col)
        difference += (values[row * cols + col] - double(rows[row * cols + col])) *
                      inputs[token * cols + col];
      error += difference * difference;
    }
  return error;
}

static std::vector<float> read(const Checkpoint &checkpoint, const std::string &tensor,
                               uint32_t rows, uint32_t cols) {
  std::vector<float> values(size_t(rows) * cols);
  WeightSource source;
  source.tensor = tensor;
  source.rows = rows;
  source.cols = cols;
  const Status status = checkpoint.readRows(source, 0, rows, values);
  REQUIRE_MESSAGE(status.isOk(), status.message());
  return values;
}

// The top 4 of a softmax over the router's scores, like this model's router.
static void route(RealExpert &expert, uint32_t index, const std::vector<float> &router,
                  std::span<const float> row) {
  constexpr size_t kExperts = 32, kTop = 4;
  std::vector<double> scores(kExperts);
  double sum = 0;
  for (size_t i = 0; i < kExperts; ++i) {
    for (size_t col = 0; col < expert.hidden; ++col)
      scores[i] += double(router[i * expert.hidden + col]) * row[col];
    scores[i] = std::exp(scores[i]);
    sum += scores[i];
  }
  const auto better = std::count_if(scores.begin(), scores.end(),
                                    [&](double score) { return score > scores[index]; });
  if (size_t(better) >= kTop)
    return;
  expert.rows.insert(expert.rows.end(), row.begin(), row.end());
  expert.weights.push_back(float(scores[index] / sum));
}

RealExpert realExpert(uint32_t index) {
  constexpr uint32_t kVocabulary = 4096;
  auto checkpoint = Checkpoint::open(MOE_TEST_DATA_DIR "/pocket-moe");
  REQUIRE_MESSAGE(checkpoint.isOk(), checkpoint.status().message());
  RealExpert expert;
  const uint32_t hidden = expert.hidden, width = expert.width;
  const std::string layer = "model.layers.0.", mlp = layer + "mlp.";
  const std::string name = strCat(mlp, "experts.", index, ".");
  expert.gate = read(*checkpoint, name + "gate_proj.weight", width, hidden);
  expert.up = read(*checkpoint, name + "up_proj.weight", width, hidden);
  expert.down = read(*checkpoint, name + "down_proj.weight", hidden, width);
  const auto router = read(*checkpoint, mlp + "gate.weight", 32, hidden);
  const auto norm = read(*checkpoint, layer + "post_attention_layernorm.weight", 1, hidden);
  expert.layerRows = read(*checkpoint, "model.embed_tokens.weight", kVocabulary, hidden);
  for (size_t token = 0; token < kVocabulary; ++token) {
    const auto row = std::span(expert.layerRows).subspan(token * hidden, hidden);
    const double square = std::inner_product(row.begin(), row.end(), row.begin(), 0.0) / hidden;
    for (size_t col = 0; col < hidden; ++col)
      row[col] = float(row[col] / std::sqrt(square + 1e-6) * norm[col]);
    route(expert, index, router, row);
  }
  return expert;
}

} // namespace moec::test
