#include "compiler/plan/AccuracyModel.h"

#include "runtime/base/RandomStream.h"

#include <Eigen/Core>

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace moert;

namespace moec {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

namespace {

/// Adam (Kingma and Ba 2015) for one matrix.
struct Descent {
  Matrix mean, square;

  void step(Matrix &values, const Matrix &gradient) {
    constexpr double kRate = 0.01, kMeanKept = 0.9, kSquareKept = 0.999, kSmall = 1e-8;
    if (mean.size() == 0)
      mean = square = Matrix::Zero(values.rows(), values.cols());
    mean = kMeanKept * mean + (1 - kMeanKept) * gradient;
    square = kSquareKept * square + (1 - kSquareKept) * gradient.cwiseProduct(gradient);
    keptMeans *= kMeanKept;
    keptSquares *= kSquareKept;
    const Matrix direction = mean / (1 - keptMeans);
    const Matrix size = ((square / (1 - keptSquares)).cwiseSqrt().array() + kSmall).matrix();
    values -= kRate * direction.cwiseQuotient(size);
  }

  double keptMeans = 1, keptSquares = 1; // Powers of the factors.
};

} // namespace

/// Fits one model; a friend of it.
struct AccuracyTraining {
  AccuracyModel &model;
  const AccuracyFit &options;
  Matrix inputs; // [layers][samples], without their means.
  Vector losses; // Standardized.
  Matrix hiddenWeights, hiddenBiases, outputWeights, outputBias;

  void take(std::span<const AccuracySample> samples);
  void begin();
  void descend();
  void store() const;
};

void AccuracyTraining::take(std::span<const AccuracySample> samples) {
  const auto layers = static_cast<Eigen::Index>(samples.front().inMemory.size());
  const auto count = static_cast<Eigen::Index>(samples.size());
  inputs.resize(layers, count);
  losses.resize(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const AccuracySample &sample = samples[static_cast<size_t>(i)];
    assert(static_cast<Eigen::Index>(sample.inMemory.size()) == layers);
    for (Eigen::Index l = 0; l < layers; ++l)
      inputs(l, i) = sample.inMemory[static_cast<size_t>(l)];
    losses(i) = sample.loss;
  }
  const Vector means = inputs.rowwise().mean();
  inputs.colwise() -= means;
  model.inputMeans.assign(means.begin(), means.end());
  model.lossMean = losses.mean();
  losses.array() -= model.lossMean;
  const double variance = losses.squaredNorm() / static_cast<double>(count);
  model.lossScale = variance > 0 ? std::sqrt(variance) : 1;
  losses /= model.lossScale;
}

void AccuracyTraining::begin() {
  RandomStream random(options.seed);
  const Eigen::Index hidden = options.hidden, layers = inputs.rows();
  auto draw = [&random](Eigen::Index rows, Eigen::Index columns, Eigen::Index inputCount) {
    const double limit = std::sqrt(6.0 / static_cast<double>(inputCount));
    Matrix drawn(rows, columns);
    for (Eigen::Index r = 0; r < rows; ++r)
      for (Eigen::Index c = 0; c < columns; ++c)
        drawn(r, c) = (2 * random.nextUnit() - 1) * limit;
    return drawn;
  };
  hiddenWeights = -draw(hidden, layers, layers).cwiseAbs();
  outputWeights = draw(1, hidden, hidden).cwiseAbs();
  hiddenBiases = Matrix::Zero(hidden, 1);
  outputBias = Matrix::Zero(1, 1);
}

/// Weights of the first layer stay below 0 and those of the second above: more experts in memory
/// never lose more, and each further one saves no more than the one before. Else a search finds
/// configurations far from all samples where the network is wrong: without this it found one of the
/// bundled model with a loss below 0.
void AccuracyTraining::descend() {
  Descent ofHidden, ofHiddenBiases, ofOutput, ofOutputBias;
  const double count = static_cast<double>(losses.size());
  for (uint32_t step = 0; step < options.steps; ++step) {
    Matrix sums = hiddenWeights * inputs;
    sums.colwise() += hiddenBiases.col(0);
    const Matrix active = sums.cwiseMax(0.0);
    const Matrix residuals =
        ((outputWeights * active).array() + outputBias(0, 0)).matrix() - losses.transpose();
    const Matrix isActive = (sums.array() > 0).cast<double>().matrix();
    const Matrix back = (outputWeights.transpose() * residuals).cwiseProduct(isActive) / count;
    const Matrix ofHiddenStep = back * inputs.transpose() + options.decay * hiddenWeights;
    const Matrix ofOutputStep =
        residuals * active.transpose() / count + options.decay * outputWeights;
    const Matrix ofBiasesStep = back.rowwise().sum();
    const Matrix ofBiasStep = Matrix::Constant(1, 1, residuals.sum() / count);
    ofHidden.step(hiddenWeights, ofHiddenStep);
    ofHiddenBiases.step(hiddenBiases, ofBiasesStep);
    ofOutput.step(outputWeights, ofOutputStep);
    ofOutputBias.step(outputBias, ofBiasStep);
    hiddenWeights = hiddenWeights.cwiseMin(0.0);
    outputWeights = outputWeights.cwiseMax(0.0);
  }
}

void AccuracyTraining::store() const {
  for (Eigen::Index h = 0; h < hiddenWeights.rows(); ++h) {
    for (Eigen::Index l = 0; l < hiddenWeights.cols(); ++l)
      model.hiddenWeights.push_back(hiddenWeights(h, l));
    model.hiddenBiases.push_back(hiddenBiases(h, 0));
    model.outputWeights.push_back(outputWeights(0, h));
  }
  model.outputBias = outputBias(0, 0);
}

double AccuracyModel::lossOf(std::span<const double> inMemory) const {
  assert(inMemory.size() == inputMeans.size());
  const double *weight = hiddenWeights.data();
  double output = outputBias;
  for (size_t h = 0; h < hiddenBiases.size(); ++h) {
    double sum = hiddenBiases[h];
    for (size_t l = 0; l < inMemory.size(); ++l)
      sum += *weight++ * (inMemory[l] - inputMeans[l]);
    output += outputWeights[h] * std::max(0.0, sum);
  }
  return std::max(0.0, lossMean + lossScale * output);
}

AccuracyModel AccuracyModel::fit(std::span<const AccuracySample> samples,
                                 const AccuracyFit &options) {
  assert(samples.size() >= 2);
  std::vector<AccuracySample> fitted, heldOut;
  for (size_t i = 0; i < samples.size(); ++i)
    (i % options.heldOutEvery == 1 ? heldOut : fitted).push_back(samples[i]);
  AccuracyModel model;
  AccuracyTraining training{model, options, {}, {}, {}, {}, {}, {}};
  training.take(fitted);
  training.begin();
  training.descend();
  training.store();
  model.sampleCount = samples.size();
  double mean = 0, residual = 0, variance = 0;
  for (const AccuracySample &sample : heldOut)
    mean += sample.loss / static_cast<double>(heldOut.size());
  for (const AccuracySample &sample : heldOut) {
    const double error = sample.loss - model.lossOf(sample.inMemory);
    residual += error * error;
    variance += (sample.loss - mean) * (sample.loss - mean);
  }
  model.explained = variance > 0 ? 1 - residual / variance : 0;
  return model;
}

} // namespace moec
