// A model of one run: the run's own routes and prefetch candidates, its plan and the compute times
// that it measured, replayed against a disk that is fitted so that the replay waits as long as the
// run did. What would change the run is then predicted by changing the model.
//
// Only decode steps are fitted and predicted. Prompt chunks are replayed, as they fill the cache.
//
// A miss rule decides by the routers' scores, which a run profile does not have and the calibration
// trace has. A run that a rule changed is therefore replayed on the calibration trace, with the
// rule; if the trace has no scores, on its own routes, waiting on misses.
#pragma once

#include "compiler/plan/PlanInputs.h"
#include "compiler/plan/TimedReplay.h"
#include "compiler/report/ReportInputs.h"
#include "compiler/report/Simulated.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace moec {

/// Work of one replay: demanded experts. A replay of so many takes about a fifth of a second.
constexpr uint64_t kMostReplayedDemands = 120'000;

/// How the disk of a run was found.
struct FittedDisk {
  bool isFitted = false; // The run waited for reads long enough to determine their rate.
  Origin origin = Origin::kAssumed;
  double factor = 1;         // On the rates of the device profile, or of the assumed disk.
  double bytesPerSecond = 0; // For the model's mean record at the depth that its layers read at.
  double profiledBytesPerSecond = 0; // The same by the device profile; 0: there is none.
  /// Rates of one disk vary by 30% from day to day (docs/measurements/presets.md).
  bool isSlowerThanProfile() const {
    constexpr double kSlow = 0.7;
    return isFitted && bytesPerSecond < kSlow * profiledBytesPerSecond;
  }
  std::string text; // "fitted to the waits; latency 80 us assumed"
};

/// Steps of a run's first tokens: prompt chunks, then one token each.
std::vector<TraceStep> stepsOfRun(const moert::RunFacts &facts, uint64_t tokens);

/// Settings without the prefetch rules that nothing was predicted for.
PlanSettings predictedOnly(PlanSettings settings, const PlanProblem &problem);

/// Owns the data that its problems borrow; borrows the inputs. Not movable: problems point into it.
class RunSimulation {
public:
  /// The run is one of the inputs', with routes of at least one decoded token.
  static moert::Result<std::unique_ptr<RunSimulation>> create(const ReportInputs &inputs,
                                                              const RunRecord &run);
  RunSimulation(const RunSimulation &) = delete;
  RunSimulation &operator=(const RunSimulation &) = delete;

  /// Parts of the model that a prediction may change.
  struct Change {
    std::optional<uint64_t> poolPages = {}; // Absent: the run's.
    double readRate = 1;                    // Factors on the disk's rates,
    double readLatency = 1;                 // on the time that a single small read takes,
    double computing = 1;                   // and on the times of computing.
    double expertBytes = 1;                 // Records of another size, computed in proportion.
    bool isOnCalibration = false;           // Routes of the calibration trace instead of the run's.
  };
  /// With the run's settings, and with its miss rule if appliesMissRule(). Refuses a pool that is
  /// smaller than a record.
  moert::Result<Simulated> simulate(const Change &change) const;
  /// With other settings, which fit the run's pool.
  moert::Result<Simulated> simulate(const Change &change, const PlanSettings &settings) const;

  /// Whether a pool of so many pages, with the run's settings for it, has room for experts of so
  /// many times their bytes. If not, simulate() refuses the change.
  bool holds(double expertBytes, uint64_t pages) const;

  /// The run's settings for a pool of so many pages, as the runtime adjusts the plan, but waiting
  /// on misses: for the run's own routes.
  PlanSettings settingsFor(uint64_t poolPages) const;
  /// Whether the plan's miss rule changed the run, and whether it is one that changes decoding.
  bool isLossy() const;
  bool losesDecoding() const;
  /// Whether simulate() replays the calibration trace with that rule.
  bool appliesMissRule() const { return isRuleApplied; }

  const ReportInputs &inputs() const { return given; }
  const RunRecord &run() const { return record; }
  const FittedDisk &disk() const { return fitted; }
  const Simulated &base() const { return unchanged; }
  const RoutingTrace &routes() const { return routing; }
  size_t firstDecodeStep() const { return promptSteps; }
  uint64_t poolPages() const { return record.facts.poolPages; }
  bool hasCalibration() const { return calibration.has_value(); }

  /// The problem of replaying the run itself, and of its calibration trace; borrowed from this.
  PlanProblem problem() const;
  PlanProblem calibrationProblem() const;
  /// The part of the calibration trace that plans are decided on.
  const RoutingTrace &deciding() const { return calibration->deciding; }
  size_t calibrationFromStep() const { return calibrationFrom; }

  /// Decode steps of the profile whose routes are replayed.
  const std::vector<const RecordedStep *> &replayedSteps() const { return replayed; }

private:
  RunSimulation(const ReportInputs &reportInputs, const RunRecord &runRecord)
      : given(reportInputs), record(runRecord) {}
  void addPredictions(moert::Predictor predictor, uint32_t moeLayer, uint32_t ahead);
  moert::Status readRoutes();
  moert::Status readCalibration();
  PlanSettings adjustedSettings(uint64_t pages) const;
  void measureCosts();
  void assumeDisk();
  moert::Status fit();

  const ReportInputs &given;
  const RunRecord &record;
  RoutingTrace routing;
  std::vector<LayerPredictions> predictions;
  size_t promptSteps = 0;
  bool isRuleApplied = false; // appliesMissRule()
  std::optional<KnownRouting> calibration;
  size_t calibrationFrom = 0;
  std::vector<const RecordedStep *> replayed;
  StepCosts costs;
  ReadTable reads;
  PlanSettings ownSettings; // For the run's pool, which most replays have.
  FittedDisk fitted;
  Simulated unchanged;
};

} // namespace moec
