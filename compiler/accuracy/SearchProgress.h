// Progress of a search over the windows that it evaluates, as one step with a remaining time. The
// total is not known beforehand; the estimate is the usual number of a search, and the time of a
// window is measured for each kind of pass: an acceptance test may execute both models.
#pragma once

#include "compiler/search/ArtifactJudge.h"
#include "compiler/session/Progress.h"
#include "runtime/base/Clock.h"

#include <array>
#include <cstdint>
#include <optional>

namespace moec {

/// The label of the search's step.
constexpr const char *kMeasuringLosses = "measuring losses";

constexpr size_t kSearchPasses = 4;

/// What a usual search evaluates: passes of each kind, and windows or items of one.
struct SearchWork {
  struct Passes {
    uint64_t count = 0, windows = 0;
  };
  std::array<Passes, kSearchPasses> passes;
  bool testsReference = true; // Acceptance tests execute it beside the artifact.

  Passes &of(SearchPass pass) { return passes[static_cast<size_t>(pass)]; }
  const Passes &of(SearchPass pass) const { return passes[static_cast<size_t>(pass)]; }
  uint64_t windows() const;
  /// Artifacts that are made with fewer bits for resident matrices; probes have few of these.
  uint64_t artifacts() const;
};

/// The time of a candidate's window in that of a reference's, before one is measured: 0.46 at 4
/// bits for a dense model of 135M parameters (AMD EPYC with AVX-512).
constexpr double kCandidateCost = 0.5;

/// What the work takes where a window of the reference takes so long.
double secondsOf(const SearchWork &work, double referenceSeconds);

/// Borrows the progress, which may be absent; the step begins and ends with the object. One thread.
class SearchProgress {
public:
  SearchProgress(Progress *told, const char *unit, const SearchWork &expected,
                 moert::Clock clock = moert::monotonicNs);
  SearchProgress(const SearchProgress &) = delete;
  SearchProgress &operator=(const SearchProgress &) = delete;
  ~SearchProgress();

  void beginPass(SearchPass pass);
  void advanceTo(uint64_t windowsOfPass);
  /// A pass of an earlier run, whose result is known.
  void restorePass(SearchPass pass, uint64_t windows);

private:
  struct Done {
    uint64_t passes = 0, windows = 0; // Known ones included.
    uint64_t timed = 0, ns = 0;       // Windows that were evaluated here, and their time.
  };

  void takeTime();
  /// A window takes so long in such a pass.
  std::optional<double> seconds(SearchPass pass) const;
  std::optional<double> secondsLeft() const;
  Done &current() { return done[static_cast<size_t>(kind)]; }

  Progress *progress;
  SearchWork work;
  uint64_t expected;
  moert::Clock now;
  std::array<Done, kSearchPasses> done;
  SearchPass kind = SearchPass::kReference;
  uint64_t ended = 0, inPass = 0; // Windows of the passes that ended, and of this one.
  uint64_t lastNs;
};

} // namespace moec
