// The search for widths: which assignments to measure, and what follows from each measurement. Pure
// logic: measuring is somebody else's (WidthJudge), so that a synthetic model can stand in.
//
// Quantizers say how much an expert's output changes, not what that does to the model. The search
// learns the latter from few measurements of the whole model:
//   1. What does not meet the target with the most bits everywhere is out of reach.
//   2. Uniform widths from the middle one downwards, until one loses too much, or where it does,
//      upwards until one does not. Each takes a measurement of the whole model, which only has to
//      show at which width to probe and where the knapsack begins. Whole widths are enough for
//      that; those with a wider down projection are left to the knapsack. Without one (kUniform)
//      they are measured too, from the last whole width that met the threshold downwards, until one
//      loses too much. That is a walk of its own, since a wider down can lose less than a whole
//      width of more bits.
//   3. Probes: each group of items (a layer's experts, a class of resident weights) alone at that
//      width. The divergence that it adds, divided by the group's squared error, is what a squared
//      error costs there: errors become nats, which add up as long as they are small. Divergence
//      and not the loss itself, whose noise is larger than what one layer does to it.
//   4. The knapsack at a limit of nats; measured; the limit is bisected until the predicted bound
//      is close to the threshold, at first the target. So no estimate has to be right, only the
//      order that it puts the items in.
//   5. The other solvers at what the knapsack costs: if one meets the threshold there, it is
//      continued from there. `auto` is the cheapest that meets the threshold. Uniform widths may
//      have a wider down here, which adds no measurement: the first that fails ends them.
//   6. Where it is known what widths take in time (WidthTimes.h): a plan is made for the cheapest
//      so far, the knapsack of seconds is measured beginning at the limit that the one of bytes
//      came to, and from then on cheap means the least time.
//   7. Acceptance tests on text that neither calibration nor search has seen (AcceptanceTests.h):
//      for a chain of rising thresholds, the cheapest candidate that meets the threshold on the
//      search's text, until a test fails. The last candidate that passed is the outcome.
//
// Where the acceptance tests are of another loss than the search can measure (a few items cannot
// steer it), 1 to 7 use divergence and a first threshold that is an estimate; its chains are
// longer.
#pragma once

#include "compiler/plan/AcceptanceTests.h"
#include "compiler/plan/WidthProblem.h"
#include "compiler/plan/WidthTimes.h"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// What an assignment came to on the search's text.
struct Measurement {
  double loss = 0;
  /// What an acceptance test is expected to find as the loss's upper bound...
  double predictedBound = 0;
  /// ...and the standard error of that, relative to it. Absent: the tests are of another loss.
  std::optional<double> spread;
  double klNats = 0;          // On the windows for which the reference's rows are kept...
  double topDisagreement = 0; // ...and the fraction of their tokens with another likeliest one.
  /// False: the text has too few units for a bound, and predictedBound only orders assignments.
  bool hasBound = true;
  friend bool operator==(const Measurement &, const Measurement &) = default;
};

enum class TestResult : uint8_t {
  kPassed,
  kFailed,
  kOutOfReach, // Failed, as would any assignment: the text cannot show a loss within the target.
};

/// Measures assignments. Borrowed by the search; one thread. The same assignment gives the same
/// numbers.
class WidthJudge {
public:
  virtual ~WidthJudge() = default;
  /// The divergence from the reference in nats per token, on a few windows.
  virtual moert::Result<double> probe(const WidthAssignment &assignment) = 0;
  /// On the text of the search: the loss that is accepted, or where there is a first threshold
  /// another one.
  virtual moert::Result<Measurement> measure(const WidthAssignment &assignment) = 0;
  /// On the text of the acceptance, at the level of the chain. The search sees nothing else of that
  /// text: no score may decide what is tested next.
  virtual moert::Result<TestResult> accept(const WidthAssignment &assignment,
                                           AcceptanceChain chain) = 0;
};

/// Who proposed an assignment, as people and artifacts spell it.
constexpr const char *kUniformSolver = "uniform", *kKnapsackSolver = "mckp",
                     *kSecondsSolver = "mckp in seconds", *kEdgeMoeSolver = "edgemoe";

/// Whose proposals may be taken.
enum class SolverChoice : uint8_t {
  kAuto,     // The cheapest of all that meet the target.
  kKnapsack, // The knapsack's; one width for all where that is what it comes to.
  kEdgeMoe,  // EdgeMoE's selection between two whole widths.
  kUniform,  // One width for all experts; their down projections may all be wider.
};

struct WidthSearchInput {
  /// Losses are squared errors; only their proportions inside of a group matter. Every item's first
  /// option has the most bits.
  WidthProblem problem;
  /// Parallel to the items: what they are probed with. Groups count from 0 without gaps.
  std::vector<uint32_t> groups;
  /// Parallel to the items: has no squared errors to go by and is alone in its group, so that each
  /// of its options is probed; left at the most bits by uniform widths.
  std::vector<bool> isProbedDirectly;
  double target = 0; // For the loss that accept() measures.
  /// Where measure() measures another loss than accept(): the predicted bound that is most likely
  /// to pass.
  std::optional<double> firstThreshold;
  uint32_t maxMeasurements = 48;
  SolverChoice solver = SolverChoice::kAuto;
  /// Parallel to the items: the options of directly probed items beside which uniform widths and
  /// EdgeMoE's are measured where the knapsack does not choose them; nothing of it is used for
  /// others. Empty: the most bits.
  WidthAssignment others;
  /// What widths take in time, where a device and a budget are known. Absent: bytes decide.
  WidthTimes *times = nullptr;
};

/// An assignment that was measured on the text of the search, and where times are known, timed.
struct MeasuredWidths {
  std::string solver;
  WidthAssignment assignment;
  double cost = 0;                                         // Bytes.
  double limit = std::numeric_limits<double>::quiet_NaN(); // The knapsack's, in nats.
  Measurement measurement;
  double tokenNs = std::numeric_limits<double>::quiet_NaN(); // Expected; infinite: does not fit.
};

struct WidthSearchOutcome {
  bool isMet = false;
  /// The cheapest that passed; where nothing did, the safest that was tested.
  MeasuredWidths best;
  AcceptanceChain chain = AcceptanceChain::kMain; // In which the best was tested.
  uint32_t tests = 0;
  std::vector<MeasuredWidths> measured; // In the order in which it was done.
  uint32_t measurements = 0;            // Probes and measurements.
  /// The problem with losses in nats per token, as the probes gave them.
  WidthProblem estimates;
  /// Times have decided between the measured ones.
  bool isTimed = false;
  /// Where times have decided: what bytes would have chosen, of what met the last
  /// threshold that passed. Absent:
  /// nothing but what seconds proposed has met it.
  std::optional<MeasuredWidths> fewestBytes;
};

/// Refuses inputs that contradict themselves; fails where the judge does.
moert::Result<WidthSearchOutcome> searchWidths(const WidthSearchInput &input, WidthJudge &judge);

} // namespace moec
