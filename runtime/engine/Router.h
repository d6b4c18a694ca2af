// The router of a MoE layer, as its route instruction describes it.
#pragma once

#include "runtime/exec/Kernels.h"
#include "runtime/format/Instruction.h"

#include <cstdint>
#include <span>

namespace moert {

class Router {
public:
  /// The route's vectors, [experts] each, or nullptr for kNone.
  struct Vectors {
    const float *choiceBias = nullptr, *weightFactors = nullptr;
  };

  /// Borrows the kernels and the vectors.
  Router(const RouteInstruction &instruction, uint32_t topK, const Vectors &vectors,
         uint32_t experts, const KernelTable &kernelTable);

  /// What choose() takes, probabilities[experts], from scores[experts]: the scores themselves with
  /// Sparsemixer and kTopKThenSigmoid. Both have room for whole vectors of the kernels.
  void computeProbabilities(const float *scores, float *probabilities) const;

  /// experts[topK] and weights[topK] from the probabilities.
  void choose(const float *probabilities, std::span<int32_t> experts,
              std::span<float> weights) const;

  /// The weights of these experts, at least one and at most topK, as if exactly they were chosen.
  void weigh(const float *probabilities, std::span<const int32_t> experts,
             std::span<float> weights) const;

  /// likelihoods[experts] in [0, 1] by which a prediction ranks experts: the probabilities, or the
  /// softmax of the scores where those are what choose() takes. With a choice bias the choice
  /// scores instead, shifted and scaled so that they span [0, 1], as only their differences matter.
  /// Groups are not considered: a prediction may name an expert of a group that will not compete.
  void computeLikelihoods(const float *scores, float *likelihoods) const;

private:
  void weighByScores(std::span<const float> scores, std::span<const int32_t> experts,
                     std::span<float> weights) const;
  bool choosesByScores() const {
    return scoring == RouterScoring::kSparsemixer || scoring == RouterScoring::kTopKThenSigmoid;
  }

  RoutingRule rule;
  RouterScoring scoring;
  float tolerance;
  uint32_t experts;
  const KernelTable &kernels;
};

} // namespace moert
