// What plans of an artifact are made from, taken out of it: the trace as plays and predictions, the
// sizes of its records, what its steps cost on a device.
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

/// Whether the artifact's programs have a place where a MoE layer is guessed from so far ahead.
bool canGuess(const moert::Artifact &artifact, uint32_t moeLayer, uint32_t ahead);

/// How a trace is decoded on a device: by all its cores, in the middle of a window.
StepUse tracedUse(const DeviceProfile &device, const PlanTrace &trace);

/// Owns what a PlanProblem borrows; outlives every problem that it gave.
class PlanInputs {
public:
  /// The paths section is empty where the artifact has none.
  static moert::Result<PlanInputs> create(const moert::Artifact &artifact, const PlanTrace &trace,
                                          std::span<const std::byte> paths,
                                          const DeviceProfile &device, const StepUse &use);

  /// Forgets what the device is faster with (ReadTable::reused).
  void takeMemoryAsAlike() { reads.reused.clear(); }
  /// Takes records and costs of another artifact, of the same model in other widths.
  void resize(const moert::Artifact &artifact, const DeviceProfile &device, const StepUse &use);

  /// What is decided on: the beginning of the trace (PlanTrace::decidingTokens()).
  PlanProblem problem(uint64_t poolPages) const;
  /// The whole trace, whose steps from decidingSteps() on decide nothing.
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
