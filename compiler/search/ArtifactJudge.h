// Measures assignments of widths as what they are for: each becomes an artifact, which the
// runtime's own engine executes beside the reference. WidthSearch decides what is measured.
//
// Memory: engines use the available memory, as in any run (WindowLanes).
#pragma once

#include "compiler/plan/WidthSearch.h"
#include "compiler/search/AcceptanceTarget.h"
#include "compiler/search/MeasurementLog.h"
#include "compiler/search/WindowLanes.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace moec {

/// What losses and bounds are cut off at, and an undefined one counts as; worse than any target.
constexpr double kMostLoss = 1e9;

/// What is evaluated in a pass over windows or items.
enum class SearchPass : uint8_t { kReference, kCandidate, kProbe, kAcceptance };

struct JudgeOptions {
  std::string directory; // For recorded rows and candidates.
  std::string referencePath;
  /// The loss that acceptance tests measure. The search measures the same; for items, and where its
  /// windows are too few for a bound (SearchWindows::hasBound()), KL.
  moert::LossMetric metric = moert::LossMetric::kPerplexity;
  AcceptanceTarget target;
  AcceptanceLevels levels;
  /// For a metric of items: the acceptance tests' items, by index in the set. Borrowed.
  const moert::EvaluationSet *itemSet = nullptr;
  std::span<const uint32_t> items;
  /// The images of a vision model's windows, each of which is a number and a class.
  const moert::LabelledImages *images = nullptr;
  uint32_t windowTokens = 512;
  unsigned threads = 1;
  /// Hash of everything that decides a measurement, except the assignment.
  uint64_t fingerprint = 0;
  const std::atomic<bool> *stop = nullptr;
  /// Called when a pass begins, and with the windows or items done so far.
  std::function<void(SearchPass pass)> onBegin;
  std::function<void(uint64_t windows)> onWindows;
  /// Called in their place for a pass whose result is in the log.
  std::function<void(SearchPass pass, uint64_t windows)> onKnown;
};

/// The result of an acceptance test.
struct AcceptanceScores {
  std::vector<moert::SampleScore> samples;
  double confidence = 0; // Confidence of the bound.
  double loss = 0;
  double upperBound = 0; // At least the loss.
  /// What at least the target's fraction() of units lose at most; absent with too few units.
  std::optional<double> quantileBound = {};
};

/// Writes the artifact of an assignment.
using MakeArtifact =
    std::function<moert::Status(const WidthAssignment &assignment, const std::string &path)>;

/// Borrows windows. One thread.
class ArtifactJudge final : public WidthJudge {
public:
  /// Executes the reference on the search's windows.
  static moert::Result<std::unique_ptr<ArtifactJudge>>
  create(const JudgeOptions &options, const SearchWindows &windows, MakeArtifact makeArtifact);

  moert::Result<double> probe(const WidthAssignment &assignment) override;
  moert::Result<Measurement> measure(const WidthAssignment &assignment) override;
  moert::Result<TestResult> accept(const WidthAssignment &assignment,
                                   AcceptanceChain chain) override;

  /// accept()'s result for an assignment.
  const AcceptanceScores &acceptance(const WidthAssignment &assignment) const {
    return accepted.at(assignment);
  }
  /// Windows and items that the reference and candidates evaluated, in this run and in earlier runs
  /// that it resumes.
  uint64_t windowsEvaluated() const { return executed; }

private:
  ArtifactJudge(const JudgeOptions &chosen, const SearchWindows &given, MakeArtifact make)
      : options(chosen), windows(given), ordersByDivergence(options.itemSet || !windows.hasBound()),
        makeArtifact(std::move(make)), log(chosen.directory + "/measurements", chosen.fingerprint) {
  }

  moert::Status recordReference();
  /// Fills in what an acceptance test is expected to find. bound: of the search's loss at 95%.
  void takeForecast(std::span<const moert::SampleScore> scores, double bound,
                    Measurement &measurement) const;
  bool needsAllRows() const {
    return options.metric != moert::LossMetric::kPerplexity || ordersByDivergence;
  }
  /// What follows from the scores of the search's windows at this compile's levels.
  Measurement measurementOf(std::span<const moert::SampleScore> scores) const;
  using Scores = std::vector<moert::SampleScore>;
  /// Both sets of the search's windows, text after text.
  moert::Result<Scores> scoreSearch(const EngineCrew &candidate);
  /// Evaluates a set on an artifact alone. If rowsAt is not empty, that file gets what is kept of
  /// its rows, or has what is kept of the reference's.
  moert::Result<Scores> evaluateSet(const EngineCrew &crew, const WindowSet &set,
                                    const std::string &rowsAt, KeptRows::Use use);
  moert::Result<EngineCrew> load(const std::string &path) const;
  /// Scores of the acceptance items, or of the acceptance windows text after text.
  moert::Result<Scores> scoreItems(const std::string &path);
  moert::Result<Scores> scoreWindows(const std::string &path);
  moert::EvaluationProgress progress() const;
  std::string rowsPath(const char *set) const;
  void tellKnown(SearchPass pass, uint64_t windowsOfPass) const;

  JudgeOptions options;
  const SearchWindows &windows;
  bool ordersByDivergence;
  MakeArtifact makeArtifact;
  MeasurementLog log;
  Scores referenceRest; // The reference's own losses on the windows without rows.
  std::map<WidthAssignment, AcceptanceScores> accepted;
  uint64_t executed = 0;
};

} // namespace moec
