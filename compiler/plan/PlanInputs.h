// Problems of planning (PlanProblem.h) for one model on one device: what its routers chose on the
// calibration text, the sizes of its records, and the costs of its steps.
#pragma once

#include "compiler/plan/ModelFacts.h"
#include "compiler/plan/PlanProblem.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moec {

/// The routing of the calibration text (compiler/profile/TracedRouting.h makes it from a trace).
struct KnownRouting {
  RoutingTrace whole;
  RoutingTrace deciding; // The part that plans are decided on: the beginning.
  std::vector<LayerPredictions> predictions;
  std::vector<LayerScores> scores; // Per MoE layer; empty: the trace has none.
  uint32_t contextTokens = 0;      // Mean context of a decoded token.

  /// Steps of the deciding part.
  size_t decidingSteps() const { return deciding.passes.size() / deciding.layerExperts.size(); }
};

/// Owns the data that its problems borrow; borrows facts and routing. All must outlive the
/// problems.
class PlanInputs {
public:
  /// Decoding as the routing was traced: with all cores of the device, at the mean context.
  PlanInputs(const ModelFacts &model, const KnownRouting &traced, const DeviceProfile &device);

  /// Ignores the faster rate into recently used memory (ReadTable::reused).
  void takeMemoryAsAlike() { reads.reused.clear(); }

  /// The part of the trace that plans are decided on.
  PlanProblem problem(uint64_t poolPages) const { return problemOf(routing.deciding, poolPages); }
  /// The whole trace; the steps after the deciding ones are held out for forecasts.
  PlanProblem forecastProblem(uint64_t poolPages) const {
    return problemOf(routing.whole, poolPages);
  }

private:
  PlanProblem problemOf(const RoutingTrace &trace, uint64_t poolPages) const;

  const ModelFacts &facts;
  const KnownRouting &routing;
  StepCosts costs;
  ReadTable reads;
};

} // namespace moec
