#include "runtime/engine/Router.h"

#include <algorithm>
#include <cmath>

namespace moert {

/// Sparsemixer's weight of an expert, as at inference (transformers, models/phimoe): its softmax
/// among the experts whose scores lie within the tolerance of its own, without `left` (kNone: with
/// all). The exponentials are summed in ascending order.
static float sparsemixerWeight(std::span<const float> scores, int32_t chosen, int32_t left,
                               float tolerance) {
  const float best = scores[static_cast<size_t>(chosen)];
  float sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const float distance = (best - scores[i]) / std::max(std::fabs(scores[i]), best);
    if (static_cast<int32_t>(i) != left && !(distance > 2 * tolerance))
      sum += exponential(scores[i] - best);
  }
  return 1 / sum;
}

Router::Router(const RouteInstruction &instruction, uint32_t topK, const Vectors &vectors,
               uint32_t expertCount, const KernelTable &kernelTable)
    : rule{topK,
           instruction.renormalize,
           instruction.weightScale,
           {vectors.choiceBias, vectors.choiceBias ? expertCount : 0},
           instruction.groups,
           instruction.keptGroups,
           instruction.groupScore,
           {vectors.weightFactors, vectors.weightFactors ? expertCount : 0}},
      scoring(instruction.scoring), tolerance(instruction.tolerance), experts(expertCount),
      kernels(kernelTable) {}

void Router::computeProbabilities(const float *scores, float *probabilities) const {
  switch (scoring) {
  case RouterScoring::kSoftmaxThenTopK:
    return kernels.softmax(scores, experts, probabilities);
  case RouterScoring::kSigmoid:
    return kernels.sigmoid(scores, experts, probabilities);
  case RouterScoring::kSqrtSoftplus:
    kernels.apply(RowFunction::kSoftplus, scores, nullptr, nullptr, experts, probabilities);
    std::transform(probabilities, probabilities + experts, probabilities,
                   [](float value) { return std::sqrt(value); });
    return;
  case RouterScoring::kSparsemixer:
  case RouterScoring::kTopKThenSigmoid:
    std::copy_n(scores, experts, probabilities);
  }
}

void Router::choose(const float *probabilities, std::span<int32_t> chosen,
                    std::span<float> weights) const {
  const std::span<const float> all(probabilities, experts);
  chooseExperts(all, rule, chosen, weights);
  weighByScores(all, chosen.first(rule.topK), weights);
}

void Router::weigh(const float *probabilities, std::span<const int32_t> taken,
                   std::span<float> weights) const {
  const std::span<const float> all(probabilities, experts);
  weighExperts(all, rule, taken, weights);
  weighByScores(all, taken, weights);
}

void Router::weighByScores(std::span<const float> scores, std::span<const int32_t> taken,
                           std::span<float> weights) const {
  if (scoring == RouterScoring::kTopKThenSigmoid)
    kernels.sigmoid(weights.data(), static_cast<uint32_t>(taken.size()), weights.data());
  if (scoring != RouterScoring::kSparsemixer)
    return;
  weights[0] = sparsemixerWeight(scores, taken[0], kNone, tolerance);
  if (taken.size() > 1)
    weights[1] = sparsemixerWeight(scores, taken[1], taken[0], tolerance);
}

void Router::computeLikelihoods(const float *scores, float *likelihoods) const {
  if (choosesByScores())
    return kernels.softmax(scores, experts, likelihoods);
  computeProbabilities(scores, likelihoods);
  if (rule.bias.empty())
    return;
  const std::span<float> all(likelihoods, experts);
  for (uint32_t i = 0; i < experts; ++i)
    all[i] += rule.bias[i];
  const auto [least, largest] = std::minmax_element(all.begin(), all.end());
  const float low = *least, range = *largest - low;
  for (float &likelihood : all)
    likelihood = range > 0 ? (likelihood - low) / range : 1;
}

} // namespace moert
