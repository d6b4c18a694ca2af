// The network of a layer as data: dense, or routed experts and their router.
#pragma once

#include "compiler/import/WeightSource.h"
#include "runtime/format/Instruction.h"
#include "runtime/policy/Capacity.h"
#include "runtime/policy/Routing.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moec {

/// down(activation(gate x, up x)); an activation without a gate has only the other two.
struct GluDescription {
  moert::GluActivation activation;
  LinearDescription gate, up, down;

  bool hasGate() const { return moert::hasGate(activation.kind); }

  static void parts(auto &self, const auto &visit) {
    if (self.hasGate())
      visit(self.gate);
    visit(self.up, self.down);
  }
};

enum class RouterScoring {
  kSoftmaxThenTopK, // Softmax over all experts, then the k largest.
  kSigmoid,         // The sigmoid of each expert's score.
  kSparsemixer,     // Two experts, each weighed against those with nearly its score.
  kTopKThenSigmoid, // The k largest scores, then the sigmoid of each.
  kSqrtSoftplus,    // The square root of each score's softplus.
};

/// runtime/policy/Routing.h defines the choice, from linear(inputScale * inputNorm(x)), or with a
/// projection from linear(p / max(length of p, 1e-12)) for p = projection(inputScale *
/// inputNorm(x)).
struct RouterDescription {
  std::optional<NormDescription> inputNorm;
  float inputScale = 1;
  std::optional<LinearDescription> projection;
  LinearDescription linear;
  float scoreCap = 0; // Scores s become cap * tanh(s / cap); 0: none.
  RouterScoring scoring = RouterScoring::kSoftmaxThenTopK;
  uint32_t topK = 0;
  bool renormalize = false; // Divide the weights by their sum over the chosen experts.
  float weightScale = 1;
  std::optional<WeightSource> weightFactors; // [E]; each expert's factor of its weight.
  float tolerance = 0;                       // Sparsemixer's epsilon.
  std::optional<WeightSource> choiceBias; // [E]; added to the scores that choose, not to weights.
  /// [V, topK]: a token's experts are those of its row, whatever their scores.
  std::optional<WeightSource> expertsOfTokens;
  uint32_t groups = 1, keptGroups = 1;
  moert::GroupScore groupScore = moert::GroupScore::kLargest;

  static void parts(auto &self, const auto &visit) {
    visit(self.inputNorm, self.projection, self.linear, self.choiceBias, self.weightFactors,
          self.expertsOfTokens);
  }
};

/// Expert capacity (runtime/policy/Capacity.h). Its weights come from a router that does not change
/// them.
struct CapacityDescription {
  moert::CapacityRule rule;
  bool passes = false; // A dropped choice adds its weight times the experts' input.
};

/// A network that is always active, in addition to the routed experts: outputNorm(network(inputNorm
/// x)); with a gate, its output is multiplied by sigmoid(gate x).
struct SharedExpertDescription {
  std::optional<NormDescription> inputNorm, outputNorm;
  GluDescription network;
  std::optional<LinearDescription> gate;

  static void parts(auto &self, const auto &visit) {
    visit(self.inputNorm, self.outputNorm, self.network, self.gate);
  }
};

/// outputNorm(the chosen experts' sum for inputNorm x) + the shared network of x + tanh(bypass x).
/// The router, too, reads x.
struct MoeDescription {
  RouterDescription router;
  std::optional<CapacityDescription> capacity;
  std::optional<LinearDescription> bypass;
  std::optional<NormDescription> inputNorm, outputNorm;
  std::vector<GluDescription> experts; // All of the same shape and activation, without biases.
  /// Biases of all experts, one after the other: [E * outputs of the matrix].
  std::optional<WeightSource> gateBias, upBias, downBias;
  bool scalesInputs = false; // The router's weights multiply inputs, not outputs; topK is 1.
  std::optional<SharedExpertDescription> shared;

  static void parts(auto &self, const auto &visit) {
    visit(self.router, self.inputNorm, self.outputNorm, self.bypass, self.experts, self.gateBias,
          self.upBias, self.downBias, self.shared);
  }
};

} // namespace moec
