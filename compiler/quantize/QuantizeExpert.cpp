#include "compiler/quantize/QuantizeExpert.h"

#include "compiler/quantize/FittedMatrix.h"
#include "compiler/quantize/HadamardWeights.h"
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/QuantizeNearest.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

using namespace moert;

namespace moec {

// Tokens used for moments: enough for two per dimension of a block of inputs.
static constexpr uint32_t kMomentTokens = 2 * kMomentInputs;

// Below this many tokens, a fit to half of them is validated on the other half.
static constexpr uint32_t kFewTokens = 256;
// Below this many there is no other half: the layer's tokens validate.
static constexpr uint32_t kTooFewTokens = 4;

std::string_view nameOf(QuantizeMethod method) {
  switch (method) {
  case QuantizeMethod::kNearest:
    return "nearest";
  case QuantizeMethod::kPerChannel:
    return "per-channel";
  case QuantizeMethod::kClipped:
    return "clipped";
  case QuantizeMethod::kWeighted:
    return "weighted";
  case QuantizeMethod::kHqq:
    return "hqq";
  case QuantizeMethod::kGptq:
    return "gptq";
  }
  return "";
}

/// Without rows where there is no gate.
static MatrixShape gateShape(const ExpertWeights &expert) {
  return {hasGate(expert.form.activation.kind) ? expert.width : 0, expert.hidden};
}
static MatrixShape upShape(const ExpertWeights &expert) {
  return {expert.width, expert.hidden};
}
static MatrixShape downShape(const ExpertWeights &expert) {
  return {expert.hidden, expert.width};
}

static Status check(const ExpertWeights &expert, const ExpertTokens &tokens,
                    const LayerMoments *layer, std::span<const ExpertGrid> grids) {
  const uint64_t values = uint64_t(expert.hidden) * expert.width;
  const uint64_t gateValues = uint64_t(gateShape(expert).rows) * expert.hidden;
  if (values == 0 || expert.gate.size() != gateValues || expert.up.size() != values ||
      expert.down.size() != values)
    return invalidInput("matrices of ", expert.gate.size(), ", ", expert.up.size(), " and ",
                        expert.down.size(), " values, expected ", expert.hidden, " x ",
                        expert.width, " in each");
  if (tokens.rows.size() != tokens.weights.size() * expert.hidden)
    return invalidInput(tokens.rows.size(), " values of tokens with ", tokens.weights.size(),
                        " weights, expected ", expert.hidden, " for each");
  if (layer && layer->inputs.cols != expert.hidden)
    return invalidInput("moments of ", layer->inputs.cols, " inputs for an expert of ",
                        expert.hidden);
  for (const ExpertGrid &expertGrid : grids)
    for (const Grid &grid : {expertGrid.gateUp, expertGrid.down})
      if (grid.bits < 2 || grid.bits > 8 || grid.group == 0)
        return invalidInput("a grid of ", grid.bits, " bits in groups of ", grid.group,
                            ", expected 2 to 8 bits and groups of at least 1");
  for (const ExpertGrid &expertGrid : grids)
    for (const Grid &grid : {expertGrid.gateUp, expertGrid.down})
      if (grid.hasHadamard != grids.front().gateUp.hasHadamard)
        return invalidInput(
            "grids with and without the Hadamard transform, expected all with it or none");
  const auto fits = [](std::span<const float> bias, uint32_t size) {
    return bias.empty() || bias.size() == size;
  };
  if (!fits(expert.form.gateBias, expert.width) || !fits(expert.form.upBias, expert.width) ||
      !fits(expert.form.downBias, expert.hidden))
    return invalidInput("biases of ", expert.form.gateBias.size(), ", ", expert.form.upBias.size(),
                        " and ", expert.form.downBias.size(),
                        " values, expected none or one for each output of gate, up and down");
  const MatrixShape tokensShape = {uint32_t(tokens.weights.size()), expert.hidden};
  MOERT_RETURN_IF_ERROR(checkFinite(tokensShape, 0, tokens.rows).withContext("tokens"));
  return checkFinite({tokensShape.rows, 1}, 0, tokens.weights).withContext("router weights");
}

Result<LayerMoments> layerMomentsOf(uint32_t hidden, std::span<const float> rows) {
  if (hidden == 0 || rows.size() % hidden != 0)
    return invalidInput(rows.size(), " values, expected whole rows of ", hidden);
  MOERT_RETURN_IF_ERROR(checkFinite({uint32_t(rows.size() / hidden), hidden}, 0, rows));
  const TokenRows tokens = pickTokens(hidden, rows, {}, kMomentTokens);
  MomentSums sums(hidden, bestKernels());
  sums.add(tokens.rows.data(), strideFor(hidden), tokens.count, {});
  LayerMoments layer = {std::move(sums).mean(), {}};
  const TokenRows sample = pickTokens(hidden, rows, {}, kLayerSampleTokens);
  layer.sample.reserve(size_t(sample.count) * hidden);
  for (uint32_t token = 0; token < sample.count; ++token)
    layer.sample.insert(layer.sample.end(), sample.row(token), sample.row(token) + hidden);
  return layer;
}

namespace {

/// Validation tokens with the outputs of the unquantized expert.
struct Judgement {
  TokenRows tokens;
  std::vector<float> expected; // [tokens][hidden]
  double scale = 1;            // Number of all tokens per validation token.
  double squaredNorm = 0;
};

/// gate and up on a grid, and the inputs that down gets from them.
struct GateUp {
  Grid grid;
  GridMatrix gate, up;
  Moments downInputs;
  Feedback downFeedback; // For error feedback only.
};

/// The tokens to which an expert's matrices are fitted: its own, and if they are few, the layer's.
struct FitTokens {
  TokenRows own;
  const TokenRows *layer; // May be null.
  Moments inputs;
  Feedback feedback;            // For error feedback only.
  std::optional<GateUp> gateUp; // On the last grid that was asked for.
};

/// The work on one expert that its grids share.
class ExpertQuantizer {
public:
  ExpertQuantizer(const ExpertWeights &weights, const ExpertTokens &tokensIn,
                  const LayerMoments *layerMoments, QuantizeMethod howTo, bool isTransformed)
      : expert(weights), tokens(tokensIn), layer(layerMoments), method(howTo),
        hasHadamard(isTransformed), isa(bestIsa()), kernels(bestKernels()) {}

  Result<QuantizedExpert> quantize(std::span<const ExpertGrid> grids);

private:
  Result<FitTokens> fitTo(TokenRows own) const;
  Moments trusted(const Moments &own, const Moments *ofLayer) const;
  Result<Feedback> prepare(Moments &inputs) const;
  Judgement judgeBy(TokenRows picked, uint64_t all) const;
  double errorOf(const Judgement &judgement, const ExpertOnGrid &quantized) const;
  Moments downInputs(const FitTokens &fit, const PanelMatrix &gate, const PanelMatrix &up) const;

  Result<GridMatrix> quantizeMatrix(const MatrixShape &shape, const Grid &grid,
                                    std::span<const float> rows, const Moments &inputs,
                                    const Feedback &feedback) const;
  Result<ExpertOnGrid> quantizeNearestOn(const ExpertGrid &grid) const;
  Result<GateUp> fitGateUp(const Grid &grid, const FitTokens &fit) const;
  Result<ExpertOnGrid> quantizeFitted(const ExpertGrid &grid, FitTokens &fit) const;
  Result<ExpertOnGrid> quantizeOn(const ExpertGrid &grid);
  Result<bool> provesItself(const ExpertGrid &grid, const ExpertOnGrid &fitted,
                            const ExpertOnGrid &nearest);

  const ExpertWeights &expert;
  const ExpertTokens &tokens;
  const LayerMoments *layer;
  const QuantizeMethod method;
  const bool hasHadamard; // In all grids.
  const Isa isa;
  const KernelTable &kernels;
  TokenRows layerTokens;
  FitTokens fit;
  Judgement judgement;
  // For few tokens only: a second fit and other tokens to validate it.
  FitTokens halfFit;
  Judgement otherJudgement;
};

} // namespace

static bool needsInputs(QuantizeMethod method) {
  return method == QuantizeMethod::kWeighted || method == QuantizeMethod::kGptq;
}

static PanelMatrix panelsOf(const GridMatrix &matrix) {
  if (matrix.codes.empty()) // A gate that is absent.
    return {};
  std::vector<float> values(matrix.codes.size());
  dequantize(matrix, values);
  if (matrix.grid.hasHadamard)
    undoHadamardWeights(matrix.shape.cols, values);
  return panelsOf(matrix.shape, values);
}

// Blends an expert's moments with the layer's, which count as cols / 2 tokens: more inputs need
// more tokens. Without a layer, correlations between inputs are reduced instead. (The bundled
// model, KL at 2 bits, 192 inputs: layer as 0 tokens .0473, 128 .0475, 1024 .0491, with 300 or more
// tokens for every expert.)
Moments ExpertQuantizer::trusted(const Moments &own, const Moments *ofLayer) const {
  const double part = trustIn(own.cols, double(tokens.weights.size()));
  return ofLayer ? blend(own, *ofLayer, part) : shrinkToDiagonal(own, part);
}

// Makes a matrix' moments those of the values that are quantized; for error feedback its factors,
// instead of the moments, whose memory the next ones need.
Result<Feedback> ExpertQuantizer::prepare(Moments &inputs) const {
  if (method == QuantizeMethod::kGptq)
    return fittedFeedback(std::exchange(inputs, {}), hasHadamard, isa);
  if (hasHadamard)
    hadamardMoments(inputs);
  return Feedback();
}

// The error of an output counts with the square of its weight, and so do the inputs that cause it.
static std::vector<float> squaresOf(std::span<const float> weights) {
  std::vector<float> squares;
  for (float weight : weights)
    squares.push_back(weight * weight);
  return squares;
}

Result<FitTokens> ExpertQuantizer::fitTo(TokenRows own) const {
  FitTokens result;
  MomentSums sums(expert.hidden, kernels);
  sums.add(own.rows.data(), strideFor(expert.hidden), own.count, squaresOf(own.weights));
  result.own = std::move(own);
  result.layer = layer ? &layerTokens : nullptr;
  result.inputs = trusted(std::move(sums).mean(), layer ? &layer->inputs : nullptr);
  MOERT_ASSIGN_OR_RETURN(result.feedback, prepare(result.inputs));
  return result;
}

Judgement ExpertQuantizer::judgeBy(TokenRows picked, uint64_t all) const {
  Judgement result;
  result.tokens = std::move(picked);
  result.scale = result.tokens.count == 0 ? 1 : double(all) / result.tokens.count;
  result.expected.resize(size_t(result.tokens.count) * expert.hidden);
  const PanelExpert panels = {panelsOf(gateShape(expert), expert.gate),
                              panelsOf(upShape(expert), expert.up),
                              panelsOf(downShape(expert), expert.down)};
  const auto judge = [&](uint32_t first, const float *rows, uint32_t count) {
    for (size_t i = 0; i < count; ++i) {
      const float *row = rows + i * strideFor(expert.hidden);
      std::copy_n(row, expert.hidden, &result.expected[(first + i) * expert.hidden]);
      double sum = 0;
      for (uint32_t col = 0; col < expert.hidden; ++col)
        sum += double(row[col]) * row[col];
      const double weight = result.tokens.weights[first + i];
      result.squaredNorm += weight * weight * sum;
    }
  };
  outputs(kernels, panels, expert.form, result.tokens, judge);
  result.squaredNorm *= result.scale;
  return result;
}

double ExpertQuantizer::errorOf(const Judgement &by, const ExpertOnGrid &quantized) const {
  const PanelExpert panels = {panelsOf(quantized.gate), panelsOf(quantized.up),
                              panelsOf(quantized.down)};
  double error = 0;
  const auto compare = [&](uint32_t first, const float *rows, uint32_t count) {
    for (size_t i = 0; i < count; ++i) {
      const float *row = rows + i * strideFor(expert.hidden);
      const float *expected = &by.expected[(first + i) * expert.hidden];
      double sum = 0;
      for (uint32_t col = 0; col < expert.hidden; ++col) {
        const double difference = double(row[col]) - double(expected[col]);
        sum += difference * difference;
      }
      const double weight = by.tokens.weights[first + i];
      error += weight * weight * sum;
    }
  };
  outputs(kernels, panels, expert.form, by.tokens, compare);
  return error * by.scale;
}

Moments ExpertQuantizer::downInputs(const FitTokens &by, const PanelMatrix &gate,
                                    const PanelMatrix &up) const {
  auto momentsOf = [&](const TokenRows &rows) {
    MomentSums sums(expert.width, kernels);
    const auto add = [&](uint32_t first, const float *values, uint32_t count) {
      sums.add(values, strideFor(expert.width), count,
               squaresOf(std::span(rows.weights).subspan(first, count)));
    };
    activations(kernels, gate, up, expert.form, rows, add);
    return std::move(sums).mean();
  };
  const Moments own = momentsOf(by.own);
  const Moments ofLayer = by.layer ? momentsOf(*by.layer) : Moments{};
  return trusted(own, by.layer ? &ofLayer : nullptr);
}

Result<GridMatrix> ExpertQuantizer::quantizeMatrix(const MatrixShape &shape, const Grid &grid,
                                                   std::span<const float> rows,
                                                   const Moments &inputs,
                                                   const Feedback &feedback) const {
  if (method == QuantizeMethod::kGptq)
    return moec::quantizeFitted(shape, grid, rows, feedback, isa);
  std::vector<float> transformed, importance;
  if (hasHadamard) {
    MOERT_RETURN_IF_ERROR(checkFinite(shape, 0, rows)); // Afterwards a block is not finite.
    rows = transformed = hadamardWeights(shape.cols, rows);
  }
  switch (method) {
  case QuantizeMethod::kNearest:
  case QuantizeMethod::kGptq:
    break;
  case QuantizeMethod::kPerChannel: {
    Result<GridMatrix> matrix = quantizePerChannel(shape, grid.bits, rows);
    if (matrix.isOk())
      matrix->grid.hasHadamard = hasHadamard;
    return matrix;
  }
  case QuantizeMethod::kWeighted:
    for (uint32_t col = 0; col < shape.cols && inputs.weight > 0; ++col)
      importance.push_back(float(inputs.square(col)));
    [[fallthrough]];
  case QuantizeMethod::kClipped:
    return quantizeClipped(shape, grid, rows, importance, isa);
  case QuantizeMethod::kHqq:
    return quantizeHqq(shape, grid, rows);
  }
  return quantizeNearest(shape, grid, rows);
}

// Adds the name of the matrix to an error.
static Result<GridMatrix> named(Result<GridMatrix> matrix, const char *name) {
  return matrix.isOk() ? std::move(matrix) : matrix.status().withContext(name);
}

Result<ExpertOnGrid> ExpertQuantizer::quantizeNearestOn(const ExpertGrid &grid) const {
  const auto quantize = [&](const MatrixShape &shape, const Grid &onto, std::span<const float> rows,
                            const char *name) {
    return named(hasHadamard ? quantizeNearest(shape, onto, hadamardWeights(shape.cols, rows))
                             : quantizeNearest(shape, onto, rows),
                 name);
  };
  ExpertOnGrid result;
  if (!expert.gate.empty()) {
    MOERT_ASSIGN_OR_RETURN(result.gate,
                           quantize(gateShape(expert), grid.gateUp, expert.gate, "gate"));
  }
  MOERT_ASSIGN_OR_RETURN(result.up, quantize(upShape(expert), grid.gateUp, expert.up, "up"));
  MOERT_ASSIGN_OR_RETURN(result.down, quantize(downShape(expert), grid.down, expert.down, "down"));
  return result;
}

Result<GateUp> ExpertQuantizer::fitGateUp(const Grid &grid, const FitTokens &by) const {
  GateUp result;
  result.grid = grid;
  if (!expert.gate.empty()) {
    MOERT_ASSIGN_OR_RETURN(result.gate, named(quantizeMatrix(gateShape(expert), grid, expert.gate,
                                                             by.inputs, by.feedback),
                                              "gate"));
  }
  MOERT_ASSIGN_OR_RETURN(
      result.up,
      named(quantizeMatrix(upShape(expert), grid, expert.up, by.inputs, by.feedback), "up"));
  if (!needsInputs(method))
    return result;
  result.downInputs = downInputs(by, panelsOf(result.gate), panelsOf(result.up));
  MOERT_ASSIGN_OR_RETURN(result.downFeedback, prepare(result.downInputs));
  return result;
}

Result<ExpertOnGrid> ExpertQuantizer::quantizeFitted(const ExpertGrid &grid, FitTokens &by) const {
  if (!by.gateUp || !(by.gateUp->grid == grid.gateUp)) {
    by.gateUp.reset();
    MOERT_ASSIGN_OR_RETURN(by.gateUp, fitGateUp(grid.gateUp, by));
  }
  ExpertOnGrid result;
  result.gate = by.gateUp->gate;
  result.up = by.gateUp->up;
  MOERT_ASSIGN_OR_RETURN(result.down,
                         named(quantizeMatrix(downShape(expert), grid.down, expert.down,
                                              by.gateUp->downInputs, by.gateUp->downFeedback),
                               "down"));
  return result;
}

// Whether error feedback is better than rounding to nearest on tokens to which it was not fitted.
Result<bool> ExpertQuantizer::provesItself(const ExpertGrid &grid, const ExpertOnGrid &fitted,
                                           const ExpertOnGrid &nearest) {
  if (tokens.weights.size() >= kFewTokens)
    return true;
  if (tokens.weights.size() < kTooFewTokens)
    return layer && errorOf(otherJudgement, fitted) <= errorOf(otherJudgement, nearest);
  MOERT_ASSIGN_OR_RETURN(const ExpertOnGrid half, quantizeFitted(grid, halfFit));
  return errorOf(otherJudgement, half) <= errorOf(otherJudgement, nearest);
}

Result<ExpertOnGrid> ExpertQuantizer::quantizeOn(const ExpertGrid &grid) {
  MOERT_ASSIGN_OR_RETURN(ExpertOnGrid fitted, quantizeFitted(grid, fit));
  fitted.squaredError = errorOf(judgement, fitted);
  if (!std::isfinite(fitted.squaredError))
    return invalidInput("the outputs of the expert are beyond the range of f32");
  if (method != QuantizeMethod::kGptq)
    return fitted;
  MOERT_ASSIGN_OR_RETURN(ExpertOnGrid nearest, quantizeNearestOn(grid));
  nearest.squaredError = errorOf(judgement, nearest);
  if (fitted.squaredError > nearest.squaredError)
    return nearest;
  MOERT_ASSIGN_OR_RETURN(const bool isProven, provesItself(grid, fitted, nearest));
  return isProven ? std::move(fitted) : std::move(nearest);
}

Result<QuantizedExpert> ExpertQuantizer::quantize(std::span<const ExpertGrid> grids) {
  const uint32_t hidden = expert.hidden;
  const uint64_t count = tokens.weights.size();
  auto pick = [&](uint32_t limit, uint32_t begin, uint32_t step) {
    return pickTokens(hidden, tokens.rows, tokens.weights, limit, begin, step);
  };
  if (layer)
    layerTokens = pickTokens(hidden, layer->sample, {}, kLayerSampleTokens);
  judgement = judgeBy(pick(kErrorTokens, 0, 1), count);
  if (needsInputs(method)) {
    MOERT_ASSIGN_OR_RETURN(fit, fitTo(pick(kMomentTokens, 0, 1)));
  }
  if (method == QuantizeMethod::kGptq && count < kFewTokens) {
    if (count >= kTooFewTokens) {
      MOERT_ASSIGN_OR_RETURN(halfFit, fitTo(pick(kFewTokens, 0, 2)));
      otherJudgement = judgeBy(pick(kFewTokens, 1, 2), count);
    } else if (layer) {
      otherJudgement = judgeBy(pickTokens(hidden, layer->sample, {}, kLayerSampleTokens), 1);
    }
  }
  QuantizedExpert result;
  result.squaredNorm = judgement.squaredNorm;
  for (const ExpertGrid &grid : grids) {
    MOERT_ASSIGN_OR_RETURN(ExpertOnGrid quantized, quantizeOn(grid));
    result.grids.push_back(std::move(quantized));
  }
  return result;
}

Result<QuantizedExpert> quantizeExpert(const ExpertWeights &expert, const ExpertTokens &tokens,
                                       const LayerMoments *layer, QuantizeMethod method,
                                       std::span<const ExpertGrid> grids) {
  MOERT_RETURN_IF_ERROR(check(expert, tokens, layer, grids));
  const bool hasHadamard = !grids.empty() && grids.front().gateUp.hasHadamard;
  return ExpertQuantizer(expert, tokens, layer, method, hasHadamard).quantize(grids);
}

} // namespace moec
