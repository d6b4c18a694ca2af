// Declarations of the instructions around routed experts: the router's choice, predictions, the
// experts.
#pragma once

#include "runtime/format/InstructionFields.h"
#include "runtime/policy/Capacity.h"
#include "runtime/policy/Routing.h"

namespace moert {

/// How a router's scores become experts and their weights: by the probabilities of all experts
/// (softmax, sigmoid, or in their place sqrt(softplus)), by Sparsemixer (runtime/engine/Router.h),
/// or by the scores themselves, of which the chosen ones' sigmoids are the weights.
enum class RouterScoring : uint8_t {
  kSoftmaxThenTopK = 0,
  kSigmoid = 1,
  kSparsemixer = 2,
  kTopKThenSigmoid = 3,
  kSqrtSoftplus = 4
};
template <> inline constexpr RouterScoring kLast<RouterScoring> = RouterScoring::kSqrtSoftplus;
template <> inline constexpr GroupScore kLast<GroupScore> = GroupScore::kTwoLargest;
template <> inline constexpr CapacityKind kLast<CapacityKind> = CapacityKind::kEvenSplit;

/// experts[topK] and weights[topK], best first, from scores[experts of the layer], as
/// chooseExperts() (Routing.h) does with choiceBias[experts], groups and weightFactors[experts];
/// the layer has topK. A program routes the MoE layers from the first on, in their order.
/// `beginsReads`: the reads of the chosen experts, and with them the layer pass, begin after this
/// instruction. `tolerance`: Sparsemixer's epsilon; 0 with every other scoring.
struct RouteInstruction {
  int32_t scores, experts, weights;
  uint32_t moeLayer;
  RouterScoring scoring;
  bool renormalize;
  float weightScale;
  bool beginsReads = false;
  int32_t choiceBias = kNone;
  uint32_t groups = 1, keptGroups = 1;
  GroupScore groupScore = GroupScore::kLargest;
  int32_t weightFactors = kNone;
  float tolerance = 0;

  static constexpr const char *kName = "route";
  static constexpr StepPart kPart = StepPart::kRouter;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "scores", i.scores);
    visit(FieldRole::kWrite, "experts", i.experts);
    visit(FieldRole::kWrite, "weights", i.weights);
    visit(FieldRole::kMoeLayer, "moeLayer", i.moeLayer);
    visit(FieldRole::kNumber, "scoring", i.scoring);
    visit(FieldRole::kNumber, "renormalize", i.renormalize);
    visit(FieldRole::kNumber, "weightScale", i.weightScale);
    visit(FieldRole::kNumber, "beginsReads", i.beginsReads);
    visit(FieldRole::kOptionalVector, "choiceBias", i.choiceBias);
    visit(FieldRole::kNumber, "groups", i.groups);
    visit(FieldRole::kNumber, "keptGroups", i.keptGroups);
    visit(FieldRole::kNumber, "groupScore", i.groupScore);
    visit(FieldRole::kOptionalVector, "weightFactors", i.weightFactors);
    visit(FieldRole::kNumber, "tolerance", i.tolerance);
  }
  bool operator==(const RouteInstruction &) const = default;
};

/// dst[h] = sum over ranks of weights[rank] * expert(src), ranks ascending; a rank whose expert is
/// -1 adds nothing. Reads each expert that
/// the batch routes to once. src and `gathered` have rows [h] of the kind that the experts' first
/// matrices take.
/// The reads of the experts have begun (beginsReads) with the same `experts`.
/// gate and up are [expert width]; hidden is the quantized input of the last matrix, kNone where
/// that matrix is float; ranks is [topK * h], h rounded up to kRankRowElements. dst serves as
/// scratch meanwhile and is none of the others. Biases, of all experts one after the other, are
/// added to the products of gate, up and down.
constexpr uint32_t kRankRowElements = 16;
struct ExpertsInstruction {
  int32_t src, experts, weights, dst;
  uint32_t moeLayer;
  int32_t gathered, gate, up, hidden, ranks;
  int32_t gateBias = kNone, upBias = kNone, downBias = kNone;

  static constexpr const char *kName = "experts";
  static constexpr StepPart kPart = StepPart::kExperts;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kRead, "experts", i.experts);
    visit(FieldRole::kRead, "weights", i.weights);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kMoeLayer, "moeLayer", i.moeLayer);
    visit(FieldRole::kScratch, "gathered", i.gathered);
    visit(FieldRole::kScratch, "gate", i.gate);
    visit(FieldRole::kScratch, "up", i.up);
    visit(FieldRole::kOptionalScratch, "hidden", i.hidden);
    visit(FieldRole::kScratch, "ranks", i.ranks);
    visit(FieldRole::kOptionalVector, "gateBias", i.gateBias);
    visit(FieldRole::kOptionalVector, "upBias", i.upBias);
    visit(FieldRole::kOptionalVector, "downBias", i.downBias);
  }
  bool operator==(const ExpertsInstruction &) const = default;
};

/// Predicts the experts of a later MoE layer, if the plan has a rule for that layer with this
/// `ahead` (Plan::prefetches), and gives the prefetch candidates to the cache; without such a rule
/// it does nothing. No token depends on it. Cross-layer gate: scores[experts of moeLayer] = weight
/// * src + bias, the later layer's router applied to the router input of the current layer.
/// Activation-path table: the experts chosen by the two layers before decide, and neither src nor
/// weight is used. The weight is a float matrix; scores is scratch. Follows the route of the
/// current layer and precedes the layer pass. `joined` as for products, of which a gate is one.
/// `beginsReads`: as for the route, of the layer that was routed last.
struct PredictInstruction {
  int32_t src, scores, weight, bias;
  uint32_t moeLayer; // The predicted layer.
  uint32_t ahead;    // MoE layers from here to there: 1 to kMostAhead.
  bool joined = false;
  bool beginsReads = false;

  static constexpr const char *kName = "predict";
  static constexpr StepPart kPart = StepPart::kPrefetches;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kScratch, "scores", i.scores);
    visit(FieldRole::kMatrix, "weight", i.weight);
    visit(FieldRole::kOptionalVector, "bias", i.bias);
    visit(FieldRole::kMoeLayer, "moeLayer", i.moeLayer);
    visit(FieldRole::kNumber, "ahead", i.ahead);
    visit(FieldRole::kNumber, "joined", i.joined);
    visit(FieldRole::kNumber, "beginsReads", i.beginsReads);
  }
  bool operator==(const PredictInstruction &) const = default;
};

/// dst = weights[1] * src; then weights = 1: an expert's weight moves from its output to its input.
struct ScaleInputInstruction {
  int32_t src, weights, dst;

  static constexpr const char *kName = "scale_input";
  static constexpr StepPart kPart = StepPart::kRouter;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kUpdate, "weights", i.weights);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  bool operator==(const ScaleInputInstruction &) const = default;
};

/// scores[experts] of every expert but those in row `token` of table become the least f32, so that
/// the route chooses exactly those, in the order of the row. table is [vocabulary, topK], of
/// numbers of experts.
struct MaskExpertsInstruction {
  int32_t scores, table;

  static constexpr const char *kName = "mask_experts";
  static constexpr StepPart kPart = StepPart::kRouter;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "scores", i.scores);
    visit(FieldRole::kTable, "table", i.table);
  }
  bool operator==(const MaskExpertsInstruction &) const = default;
};

/// Drops the choices of the last route beyond the capacity of their experts, as applyCapacity()
/// (Capacity.h) does with these numbers: experts[topK] become -1 and weights[topK] 0 there;
/// passed[1]. A call is all tokens of a sequence in the step, so its tokens are computed in one.
/// `beginsReads`: as for the route.
struct CapacityInstruction : CapacityRule {
  int32_t experts, weights, passed;
  uint32_t moeLayer;
  bool beginsReads = false;

  static constexpr const char *kName = "capacity";
  static constexpr StepPart kPart = StepPart::kRouter;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "experts", i.experts);
    visit(FieldRole::kUpdate, "weights", i.weights);
    visit(FieldRole::kWrite, "passed", i.passed);
    visit(FieldRole::kMoeLayer, "moeLayer", i.moeLayer);
    visit(FieldRole::kNumber, "kind", i.kind);
    visit(FieldRole::kNumber, "capacity", i.capacity);
    visit(FieldRole::kNumber, "byPriority", i.byPriority);
    visit(FieldRole::kNumber, "normalizesBefore", i.normalizesBefore);
    visit(FieldRole::kNumber, "normalizesAfter", i.normalizesAfter);
    visit(FieldRole::kNumber, "weightScale", i.weightScale);
    visit(FieldRole::kNumber, "beginsReads", i.beginsReads);
  }
  bool operator==(const CapacityInstruction &) const = default;
};

} // namespace moert
