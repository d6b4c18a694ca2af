// Extracts the inputs of planning from an artifact: the trace as layer passes and predictions, the
// sizes of its records, and the costs of its steps on a device.
#pragma once

#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanProblem.h"
#include "compiler/planning/StepCosts.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// Whether the artifact's programs have a predict instruction for this MoE layer, so many layers
/// ahead.
bool canPrefetch(const moert::Artifact &artifact, uint32_t moeLayer, uint32_t ahead);

/// How a trace is decoded on a device: with all its cores, at the mean context of a window.
StepUse tracedUse(const DeviceProfile &device, const PlanTrace &trace);

/// Owns the data that its PlanProblems borrow; must outlive them.
class PlanInputs {
public:
  /// `paths` is empty if the artifact has no activation-path table.
  static moert::Result<PlanInputs> create(const moert::Artifact &artifact, const PlanTrace &trace,
                                          std::span<const std::byte> paths,
                                          const DeviceProfile &device, const StepUse &use);

  /// Ignores the faster rate into recently used memory (ReadTable::reused).
  void takeMemoryAsAlike() { reads.reused.clear(); }
  /// Takes records and costs from another artifact of the same model with other widths.
  void resize(const moert::Artifact &artifact, const DeviceProfile &device, const StepUse &use);

  /// The part of the trace that plans are decided on: its beginning (PlanTrace::decidingTokens()).
  PlanProblem problem(uint64_t poolPages) const;
  /// The whole trace; the steps from decidingSteps() on are held out for forecasts.
  PlanProblem forecastProblem(uint64_t poolPages) const;
  size_t decidingSteps() const;
  moert::Result<PlanForecast> forecast(const PlanSettings &settings) const;

private:
  PlanProblem problemOf(const RoutingTrace &trace, uint64_t poolPages) const;

  RoutingTrace whole, deciding;
  std::vector<LayerPredictions> predictions;
  std::vector<std::vector<uint64_t>> recordBytes;
  std::vector<uint32_t> topK;
  uint64_t pageBytes = 0;
  StepCosts costs;
  ReadTable reads;
};

} // namespace moec
