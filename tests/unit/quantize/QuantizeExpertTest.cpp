// Whole experts of the bundled model: how much the quantizers differ, and that none is worse where
// an expert has few tokens.
#include "compiler/quantize/QuantizeExpert.h"
#include "compiler/quantize/Quantize.h"
#include "tests/unit/quantize/TestExpert.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

using namespace moec;
using namespace moec::test;
using namespace moert;

static QuantizedExpert quantized(const ExpertWeights &expert, const ExpertTokens &tokens,
                                 const LayerMoments *layer, QuantizeMethod method,
                                 const std::vector<Grid> &grids) {
  const std::vector<ExpertGrid> expertGrids(grids.begin(), grids.end());
  auto result = quantizeExpert(expert, tokens, layer, method, expertGrids);
  REQUIRE_MESSAGE(result.isOk(), result.status().message());
  REQUIRE(result->grids.size() == grids.size());
  return std::move(*result);
}

static LayerMoments layerOf(const RealExpert &expert) {
  auto layer = layerMomentsOf(expert.hidden, expert.layerRows);
  REQUIRE(layer.isOk());
  return std::move(*layer);
}

// activation(g, u) by its definition (Instruction.h).
static double activated(const GluActivation &activation, double g, double u) {
  const double twice = 2 * std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
  if (activation.kind == Activation::kGeluTanh)
    return g / (1 + std::exp(-twice)) * u;
  if (activation.kind == Activation::kSilu)
    return g / (1 + std::exp(-g)) * u;
  const double alpha = activation.alpha, limit = activation.limit;
  g = std::min(g, limit);
  return g / (1 + std::exp(-alpha * g)) * (std::clamp(u, -limit, limit) + 1);
}

static double biasOf(std::span<const float> bias, size_t i) {
  return bias.empty() ? 0 : bias[i];
}

// E(x) in float64, by its definition.
static std::vector<double> forward(const std::vector<double> &gate, const std::vector<double> &up,
                                   const std::vector<double> &down, const ExpertForm &form,
                                   std::span<const float> x, size_t width) {
  const size_t hidden = x.size();
  std::vector<double> out(hidden);
  for (size_t row = 0; row < hidden; ++row)
    out[row] = biasOf(form.downBias, row);
  for (size_t i = 0; i < width; ++i) {
    double g = biasOf(form.gateBias, i), u = biasOf(form.upBias, i);
    for (size_t col = 0; col < hidden; ++col) {
      g += gate[i * hidden + col] * x[col];
      u += up[i * hidden + col] * x[col];
    }
    for (size_t row = 0; row < hidden; ++row)
      out[row] += down[row * width + i] * activated(form.activation, g, u);
  }
  return out;
}

struct Sums {
  double error = 0, norm = 0;
};
static Sums definedSums(const RealExpert &expert, const ExpertTokens &tokens,
                        const ExpertOnGrid &grid, const ExpertForm &form = {}) {
  const std::vector<double> gate(expert.gate.begin(), expert.gate.end()),
      up(expert.up.begin(), expert.up.end()), down(expert.down.begin(), expert.down.end());
  const auto gateQ = valuesOf(grid.gate), upQ = valuesOf(grid.up), downQ = valuesOf(grid.down);
  Sums sums;
  for (size_t token = 0; token < tokens.weights.size(); ++token) {
    const auto x = tokens.rows.subspan(token * expert.hidden, expert.hidden);
    const auto exact = forward(gate, up, down, form, x, expert.width);
    const auto made = forward(gateQ, upQ, downQ, form, x, expert.width);
    const double weight = tokens.weights[token];
    for (size_t i = 0; i < exact.size(); ++i) {
      sums.error += weight * weight * (made[i] - exact[i]) * (made[i] - exact[i]);
      sums.norm += weight * weight * exact[i] * exact[i];
    }
  }
  return sums;
}

TEST_CASE("error and norm are the documented sums") {
  const RealExpert expert = realExpert(18);
  REQUIRE(expert.weights.size() > 300);
  const ExpertTokens tokens = expert.tokens(0, 300);
  const auto result = quantized(expert.expert(), tokens, nullptr, QuantizeMethod::kNearest,
                                {{2, 32, false}, {4, 32, true}});
  for (const ExpertOnGrid &grid : result.grids) {
    const Sums sums = definedSums(expert, tokens, grid);
    CHECK(grid.squaredError == doctest::Approx(sums.error).epsilon(1e-4));
    CHECK(result.squaredNorm == doctest::Approx(sums.norm).epsilon(1e-4));
  }
}

TEST_CASE("an expert without a gate is quantized and judged without one, by every method") {
  const RealExpert expert = realExpert(18);
  const ExpertTokens tokens = expert.tokens(0, 100);
  ExpertWeights weights = expert.expert();
  weights.form.activation.kind = Activation::kSquaredRelu;
  auto refused = quantizeExpert(weights, tokens, nullptr, QuantizeMethod::kNearest,
                                std::vector<ExpertGrid>{Grid{4, 32, true}});
  CHECK_FALSE(refused.isOk()); // It has a gate.
  weights.gate = {};
  for (const QuantizeMethod method : {QuantizeMethod::kNearest, QuantizeMethod::kGptq}) {
    const auto result = quantized(weights, tokens, nullptr, method, {{4, 32, true}});
    CHECK(result.grids[0].gate.codes.empty());
    CHECK(result.grids[0].squaredError > 0);
    CHECK(result.grids[0].squaredError < 0.1 * result.squaredNorm);
  }
}

TEST_CASE("error and norm are those of the expert's activation and biases") {
  const RealExpert expert = realExpert(18);
  const ExpertTokens tokens = expert.tokens(0, 100);
  const std::vector<float> gate = randomValues(expert.width, 2, 1),
                           up = randomValues(expert.width, 2, 2),
                           down = randomValues(expert.hidden, 1, 3);
  ExpertWeights weights = expert.expert();
  weights.form = {{Activation::kClampedSwiglu, 1.702f, 1.5f}, gate, up, down};
  for (const QuantizeMethod method : {QuantizeMethod::kNearest, QuantizeMethod::kWeighted}) {
    const auto result = quantized(weights, tokens, nullptr, method, {{3, 32, false}});
    const Sums sums = definedSums(expert, tokens, result.grids[0], weights.form);
    CHECK(result.grids[0].squaredError == doctest::Approx(sums.error).epsilon(1e-4));
    CHECK(result.squaredNorm == doctest::Approx(sums.norm).epsilon(1e-4));
  }
}

TEST_CASE("sums over a part of the tokens are scaled to all of them") {
  const RealExpert expert = realExpert(18);
  // Every token four times: the evenly spaced ones contain each of them once.
  std::vector<float> rows, weights;
  for (size_t token = 0; token < 500; ++token)
    for (int i = 0; i < 4; ++i) {
      const auto row = expert.tokens(token, 1).rows;
      rows.insert(rows.end(), row.begin(), row.end());
      weights.push_back(expert.weights[token]);
    }
  REQUIRE(weights.size() > kErrorTokens);
  const std::vector<Grid> grids = {{3, 32, false}};
  const auto once =
      quantized(expert.expert(), expert.tokens(0, 500), nullptr, QuantizeMethod::kNearest, grids);
  const auto four =
      quantized(expert.expert(), {rows, weights}, nullptr, QuantizeMethod::kNearest, grids);
  CHECK(four.squaredNorm == doctest::Approx(4 * once.squaredNorm).epsilon(0.1));
  CHECK(four.grids[0].squaredError == doctest::Approx(4 * once.grids[0].squaredError).epsilon(0.1));
}

// Relative errors of a method on several grids: the mean of error / norm over the experts.
static std::vector<double> errorsOf(const std::vector<RealExpert> &experts,
                                    const LayerMoments &layer, QuantizeMethod method,
                                    const std::vector<Grid> &grids) {
  std::vector<double> errors(grids.size());
  for (const RealExpert &expert : experts) {
    const auto result = quantized(expert.expert(), expert.tokens(), &layer, method, grids);
    for (size_t i = 0; i < grids.size(); ++i)
      errors[i] += result.grids[i].squaredError / result.squaredNorm / double(experts.size());
  }
  std::string line(nameOf(method));
  for (size_t i = 0; i < grids.size(); ++i)
    line +=
        strCat(grids[i].hasOffsets ? ", with offsets " : ", ", grids[i].bits, " bits: ", errors[i]);
  MESSAGE(line);
  return errors;
}

TEST_CASE("methods that use more of the inputs have smaller errors, on real experts") {
  const std::vector<Grid> plain = {
      {2, 32, false}, {3, 32, false}, {4, 32, false}, {6, 32, false}, {8, 32, false}};
  std::vector<Grid> rows = plain, offsets = plain;
  for (size_t i = 0; i < plain.size(); ++i) {
    rows[i].group = 192;
    offsets[i].hasOffsets = true;
  }
  // Experts with 1,700 to 2,700 tokens.
  const std::vector<RealExpert> experts = {realExpert(17), realExpert(20), realExpert(27)};
  const LayerMoments layer = layerOf(experts[0]);
  const auto perChannel = errorsOf(experts, layer, QuantizeMethod::kPerChannel, rows);
  const auto nearest = errorsOf(experts, layer, QuantizeMethod::kNearest, plain);
  const auto weighted = errorsOf(experts, layer, QuantizeMethod::kWeighted, plain);
  const auto gptq = errorsOf(experts, layer, QuantizeMethod::kGptq, plain);
  const auto gptqLevels =
      errorsOf(experts, layer, QuantizeMethod::kGptq,
               {{2, 32, false, true}, {3, 32, false, true}, {4, 32, false, true}});
  const auto nearestOffsets = errorsOf(experts, layer, QuantizeMethod::kNearest, offsets);
  const auto hqq = errorsOf(experts, layer, QuantizeMethod::kHqq, offsets);
  const auto clippedOffsets = errorsOf(experts, layer, QuantizeMethod::kClipped, offsets);
  const auto weightedOffsets = errorsOf(experts, layer, QuantizeMethod::kWeighted, offsets);
  const auto gptqOffsets = errorsOf(experts, layer, QuantizeMethod::kGptq, offsets);
  for (size_t i = 0; i < gptqLevels.size(); ++i)
    CHECK(gptqLevels[i] < gptq[i]);
  for (size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(plain[i].bits);
    CHECK(nearest[i] < perChannel[i]);
    CHECK(gptq[i] < 0.6 * nearest[i]);
    CHECK(gptqOffsets[i] < 0.6 * nearestOffsets[i]);
    CHECK(gptqOffsets[i] < gptq[i]);
    CHECK(weightedOffsets[i] < clippedOffsets[i]);
    CHECK(clippedOffsets[i] < nearestOffsets[i]);
    if (plain[i].bits > 2) // At 2 bits the least error makes weights smaller, which adds up.
      CHECK(weighted[i] < nearest[i]);
    if (plain[i].bits < 6) // At more bits it can gain at most half a step at either end.
      CHECK(hqq[i] < nearestOffsets[i]);
  }
}

TEST_CASE("few tokens never make error feedback worse than rounding to nearest") {
  const std::vector<Grid> grids = {{2, 32, false}, {3, 32, false}, {4, 32, false}, {3, 192, true}};
  uint32_t better = 0;
  for (uint32_t index : {6u, 18u, 29u}) {
    const RealExpert expert = realExpert(index);
    const LayerMoments layer = layerOf(expert);
    const size_t all = expert.weights.size();
    REQUIRE(all > 200);
    for (const LayerMoments *known : {&layer, static_cast<const LayerMoments *>(nullptr)})
      for (size_t count : {0, 1, 3, 20}) {
        CAPTURE(index);
        CAPTURE(count);
        CAPTURE((known != nullptr));
        const ExpertTokens few = expert.tokens(0, count);
        const ExpertTokens others = expert.tokens(all - 60, 60);
        const auto nearest =
            quantized(expert.expert(), few, known, QuantizeMethod::kNearest, grids);
        const auto gptq = quantized(expert.expert(), few, known, QuantizeMethod::kGptq, grids);
        for (size_t i = 0; i < grids.size(); ++i) {
          CAPTURE(grids[i].bits);
          better += count == 20 && known && gptq.grids[i].gate != nearest.grids[i].gate;
          // On the tokens to which it was fitted, and on others.
          CHECK(gptq.grids[i].squaredError <= nearest.grids[i].squaredError);
          CHECK(definedSums(expert, others, gptq.grids[i]).error <=
                definedSums(expert, others, nearest.grids[i]).error);
        }
      }
  }
  CHECK(better >= 9); // Of 12: a fit to 20 tokens and the layer mostly pays.
}

TEST_CASE("down has a grid of its own, and the error is that of the mixture") {
  const RealExpert expert = realExpert(18);
  const LayerMoments layer = layerOf(expert);
  const Grid four = {4, 32, false}, six = {6, 32, false};
  for (size_t count : {size_t(20), size_t(300)}) // Fewer than kFewTokens, and more.
    for (QuantizeMethod method : {QuantizeMethod::kNearest, QuantizeMethod::kWeighted,
                                  QuantizeMethod::kHqq, QuantizeMethod::kGptq}) {
      CAPTURE(count);
      CAPTURE(nameOf(method));
      Grid low = four, high = six;
      low.hasOffsets = high.hasOffsets = method == QuantizeMethod::kHqq;
      const ExpertTokens tokens = expert.tokens(0, count);
      const std::vector<ExpertGrid> grids = {high, {low, high}, low};
      auto result = quantizeExpert(expert.expert(), tokens, &layer, method, grids);
      REQUIRE(result.isOk());
      const ExpertOnGrid &wide = result->grids[0], &mixed = result->grids[1],
                         &narrow = result->grids[2];
      CHECK(mixed.gate == narrow.gate);
      CHECK(mixed.up == narrow.up);
      CHECK(mixed.down.grid == high);
      CHECK(wide.squaredError < mixed.squaredError);
      CHECK(mixed.squaredError < narrow.squaredError);
      CHECK(mixed.squaredError ==
            doctest::Approx(definedSums(expert, tokens, mixed).error).epsilon(1e-4));
      // The same alone: nothing of a neighbour is left.
      auto alone =
          quantizeExpert(expert.expert(), tokens, &layer, method, std::span(grids).subspan(1, 1));
      REQUIRE(alone.isOk());
      CHECK(alone->grids[0].down == mixed.down);
    }
}

TEST_CASE("tokens count in the moments as in the error: with the square of their weight") {
  const RealExpert expert = realExpert(18);
  constexpr size_t kTokens = 300;
  const ExpertTokens all = expert.tokens(0, kTokens);
  std::vector<float> weights(kTokens);
  for (size_t i = 0; i < kTokens; ++i)
    weights[i] = i % 2 == 0 ? 1.0f : 0.125f;
  const auto result = quantized(expert.expert(), {all.rows, weights}, nullptr,
                                QuantizeMethod::kWeighted, {{3, 32, false}});
  std::vector<float> importance(expert.hidden);
  for (size_t col = 0; col < expert.hidden; ++col) {
    double sum = 0;
    for (size_t i = 0; i < kTokens; ++i) {
      const double x = all.rows[i * expert.hidden + col];
      sum += double(weights[i]) * weights[i] * x * x;
    }
    importance[col] = float(sum);
  }
  auto expected =
      quantizeClipped({expert.width, expert.hidden}, {3, 32, false}, expert.gate, importance);
  REQUIRE(expected.isOk());
  size_t different = 0;
  for (size_t i = 0; i < expected->codes.size(); ++i)
    different += expected->codes[i] != result.grids[0].gate.codes[i];
  CHECK(different <= expected->codes.size() / 1000); // Sums are in f32 there.
}

static Grid hadamardGrid(uint32_t bits) {
  return {.bits = bits, .group = 32, .hasHadamard = true};
}

TEST_CASE("the error with the Hadamard transform is that of the weights themselves") {
  const RealExpert expert = realExpert(18);
  const LayerMoments layer = layerOf(expert);
  const ExpertTokens tokens = expert.tokens(0, 300);
  for (QuantizeMethod method :
       {QuantizeMethod::kNearest, QuantizeMethod::kPerChannel, QuantizeMethod::kClipped,
        QuantizeMethod::kWeighted, QuantizeMethod::kHqq, QuantizeMethod::kGptq}) {
    CAPTURE(nameOf(method));
    std::vector<Grid> grids = {hadamardGrid(8), hadamardGrid(3)};
    for (Grid &grid : grids)
      grid.hasOffsets = method == QuantizeMethod::kHqq;
    const auto result = quantized(expert.expert(), tokens, &layer, method, grids);
    for (const ExpertOnGrid &grid : result.grids) {
      // 8 bits lie within half a percent of the weights only if they are transformed back.
      CHECK(grid.squaredError < (grid.gate.grid.bits == 8 ? 5e-3 : 0.5) * result.squaredNorm);
      CHECK(grid.squaredError ==
            doctest::Approx(definedSums(expert, tokens, grid).error).epsilon(1e-3));
    }
  }
}

TEST_CASE("the Hadamard transform makes outliers cheap, also for rounding to nearest") {
  RealExpert expert = realExpert(18);
  for (size_t i = 0; i < expert.gate.size(); i += 37) { // About one in each group of 32.
    expert.gate[i] *= 8;
    expert.up[i] *= 8;
    expert.down[i] *= 8;
  }
  const LayerMoments layer = layerOf(expert);
  for (QuantizeMethod method : {QuantizeMethod::kNearest, QuantizeMethod::kClipped,
                                QuantizeMethod::kWeighted, QuantizeMethod::kGptq}) {
    CAPTURE(nameOf(method));
    const auto plain = quantized(expert.expert(), expert.tokens(), &layer, method, {{4, 32}}),
               transformed =
                   quantized(expert.expert(), expert.tokens(), &layer, method, {hadamardGrid(4)});
    CHECK(transformed.grids[0].squaredError < 0.7 * plain.grids[0].squaredError);
  }
}

TEST_CASE("error feedback with the Hadamard transform is fitted to transformed inputs") {
  const RealExpert expert = realExpert(18);
  const LayerMoments layer = layerOf(expert);
  for (uint32_t bits : {2u, 3u, 4u}) {
    CAPTURE(bits);
    const auto nearest = quantized(expert.expert(), expert.tokens(), &layer,
                                   QuantizeMethod::kNearest, {hadamardGrid(bits)}),
               gptq = quantized(expert.expert(), expert.tokens(), &layer, QuantizeMethod::kGptq,
                                {hadamardGrid(bits)});
    CHECK(gptq.grids[0].squaredError < 0.6 * nearest.grids[0].squaredError);
  }
}

TEST_CASE("an expert without tokens has no error and no norm") {
  const RealExpert expert = realExpert(1);
  for (QuantizeMethod method :
       {QuantizeMethod::kNearest, QuantizeMethod::kWeighted, QuantizeMethod::kGptq}) {
    const auto result =
        quantized(expert.expert(), expert.tokens(0, 0), nullptr, method, {{4, 32, false}});
    CHECK(result.squaredNorm == 0);
    CHECK(result.grids[0].squaredError == 0);
    CHECK(result.grids[0].gate.codes.size() == expert.gate.size());
  }
}

TEST_CASE("invalid sizes, grids and values are refused") {
  const RealExpert expert = realExpert(1);
  const std::vector<ExpertGrid> grids = {Grid{4, 32, false}};
  auto refuses = [&](const ExpertWeights &weights, const ExpertTokens &tokens,
                     const LayerMoments *layer, QuantizeMethod method,
                     const std::vector<ExpertGrid> &on) {
    auto result = quantizeExpert(weights, tokens, layer, method, on);
    return !result.isOk() && result.status().code() == StatusCode::kInvalidInput;
  };
  const ExpertTokens tokens = expert.tokens(0, 5);
  const auto gptq = QuantizeMethod::kGptq;
  REQUIRE(quantizeExpert(expert.expert(), tokens, nullptr, gptq, grids).isOk());

  ExpertWeights narrow = expert.expert();
  narrow.width = 63;
  CHECK(refuses(narrow, tokens, nullptr, gptq, grids));
  const std::vector<float> bias(63);
  for (std::span<const float> ExpertForm::*part :
       {&ExpertForm::gateBias, &ExpertForm::upBias, &ExpertForm::downBias}) {
    ExpertWeights other = expert.expert();
    other.form.*part = bias;
    CHECK(refuses(other, tokens, nullptr, gptq, grids));
  }
  CHECK(refuses(expert.expert(), {tokens.rows, tokens.weights.first(4)}, nullptr, gptq, grids));
  CHECK(refuses(expert.expert(), tokens, nullptr, gptq, {Grid{1, 32, false}}));
  CHECK(refuses(expert.expert(), tokens, nullptr, gptq, {Grid{9, 32, false}}));
  CHECK(refuses(expert.expert(), tokens, nullptr, gptq, {Grid{4, 0, false}}));
  CHECK(refuses(expert.expert(), tokens, nullptr, QuantizeMethod::kHqq, grids));
  CHECK(refuses(expert.expert(), tokens, nullptr, gptq, {Grid{4, 32}, hadamardGrid(4)}));
  CHECK(refuses(expert.expert(), tokens, nullptr, gptq, {{Grid{4, 32}, hadamardGrid(4)}}));

  auto layer = layerMomentsOf(96, expert.layerRows);
  REQUIRE(layer.isOk());
  CHECK(refuses(expert.expert(), tokens, &*layer, gptq, grids));
  CHECK_FALSE(layerMomentsOf(191, expert.layerRows).isOk());

  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    RealExpert broken = expert;
    broken.down[77] = bad;
    CHECK(refuses(broken.expert(), tokens, nullptr, gptq, grids));
    broken = expert;
    broken.rows[200] = bad;
    CHECK(refuses(broken.expert(), broken.tokens(0, 5), nullptr, gptq, grids));
    broken = expert;
    broken.weights[2] = bad;
    CHECK(refuses(broken.expert(), broken.tokens(0, 5), nullptr, gptq, grids));
  }
  RealExpert large = expert;
  large.rows[200] = 1e30f;
  CHECK(refuses(large.expert(), large.tokens(0, 5), nullptr, gptq, grids));
}

TEST_CASE("a weight that is not finite is named, also where rows are transformed") {
  for (QuantizeMethod method : {QuantizeMethod::kNearest, QuantizeMethod::kGptq})
    for (const Grid &grid : {Grid{4, 32}, hadamardGrid(4)})
      for (float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        CAPTURE(nameOf(method));
        CAPTURE(grid.hasHadamard);
        const auto messageOf = [&](const RealExpert &broken) {
          const std::vector<ExpertGrid> grids = {grid};
          return quantizeExpert(broken.expert(), broken.tokens(0, 5), nullptr, method, grids)
              .status()
              .message();
        };
        const std::string value = strCat(" is ", bad, ", expected a finite number");
        RealExpert broken = realExpert(1);
        broken.down[5 * broken.width + 13] = bad;
        CHECK(messageOf(broken) == "down: the value in row 5, column 13" + value);
        broken.up[2 * broken.hidden + 191] = bad;
        CHECK(messageOf(broken) == "up: the value in row 2, column 191" + value);
        broken.gate[3 * broken.hidden + 77] = bad;
        CHECK(messageOf(broken) == "gate: the value in row 3, column 77" + value);
      }
}

TEST_CASE(
    "a weight too large for a scale is refused by every method, and the message names its matrix") {
  for (QuantizeMethod method :
       {QuantizeMethod::kNearest, QuantizeMethod::kPerChannel, QuantizeMethod::kClipped,
        QuantizeMethod::kWeighted, QuantizeMethod::kHqq, QuantizeMethod::kGptq})
    for (float huge : {1e30f, std::numeric_limits<float>::max()}) {
      CAPTURE(int(method));
      CAPTURE(huge);
      RealExpert large = realExpert(1);
      large.up[77] = huge;
      large.up[78] = -huge;
      const uint32_t group = method == QuantizeMethod::kPerChannel ? large.hidden : 32;
      const std::vector<ExpertGrid> grids = {Grid{4, group, method == QuantizeMethod::kHqq}};
      auto result = quantizeExpert(large.expert(), large.tokens(0, 5), nullptr, method, grids);
      REQUIRE_FALSE(result.isOk());
      CHECK(result.status().code() == StatusCode::kInvalidInput);
      CHECK_MESSAGE(result.status().message().starts_with("up: "), result.status().message());
    }
}
