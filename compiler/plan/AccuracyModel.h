// How much virtual experts lose with so many of each layer's experts in memory: SwapMoE's accuracy
// model, a two-layer network that is fitted to measured configurations (Kong et al. 2023, section
// 3.4.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// A configuration that was measured.
struct AccuracySample {
  std::vector<double> inMemory; // Per layer: the fraction of its experts, 0 to 1.
  double loss = 0;              // Nats per token.
};

struct AccuracyFit {
  /// Units between the two layers. The paper does not say how many.
  uint32_t hidden = 16;
  uint32_t steps = 2000; // Gradient steps over all samples.
  /// Relative to the squared error, on the sum of squared weights.
  double decay = 0.01;
  /// One of so many samples is not fitted, but measures the fit.
  uint32_t heldOutEvery = 5;
  uint64_t seed = 0; // For the first weights.
};

/// A value. The same samples give the same bits with every thread count; only additions,
/// multiplications, divisions and square roots are computed.
class AccuracyModel {
public:
  /// Minimizes the sum of squared residuals. Samples have the same number of layers and are at
  /// least two.
  static AccuracyModel fit(std::span<const AccuracySample> samples,
                           const AccuracyFit &options = {});

  double lossOf(std::span<const double> inMemory) const;
  uint64_t samples() const { return sampleCount; }
  /// The part of the variance of held-out samples that the model explains; 1: all, below 0: it is
  /// worse than their mean.
  double heldOutR2() const { return explained; }

private:
  friend struct AccuracyTraining;

  // Layer by layer: weights of the hidden units [hidden][layers], their biases, the output's.
  std::vector<double> hiddenWeights, hiddenBiases, outputWeights;
  double outputBias = 0;
  std::vector<double> inputMeans;
  double lossMean = 0, lossScale = 1;
  uint64_t sampleCount = 0;
  double explained = 0;
};

} // namespace moec
