#include "runtime/engine/Router.h"

#include <algorithm>

namespace moert {

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
      scoring(instruction.scoring), experts(expertCount), kernels(kernelTable) {}

void Router::computeProbabilities(const float *scores, float *probabilities) const {
  switch (scoring) {
  case RouterScoring::kSoftmaxThenTopK:
    return kernels.softmax(scores, experts, probabilities);
  case RouterScoring::kSigmoid:
    return kernels.sigmoid(scores, experts, probabilities);
  }
}

void Router::choose(const float *probabilities, std::span<int32_t> chosen,
                    std::span<float> weights) const {
  chooseExperts({probabilities, experts}, rule, chosen, weights);
}

void Router::computeLikelihoods(const float *scores, float *likelihoods) const {
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
