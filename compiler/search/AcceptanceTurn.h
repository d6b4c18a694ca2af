// The turn of a compile on its acceptance documents: how many compiles have tested any of them
// before, and which probability of error that leaves for its tests. moec compile and moec replan
// take their turns here, so that all tests of a document are counted alike.
#pragma once

#include "compiler/plan/AcceptanceTests.h"
#include "compiler/search/AcceptanceLog.h"
#include "compiler/search/AcceptanceTarget.h"
#include "runtime/evaluation/SampleScore.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

/// The artifacts that a compile tests, the documents and the target. Everything that decides an
/// answer is here, so compiles that differ in any field are different tests.
struct AcceptanceSubject {
  uint64_t checkpoint = 0; // Hash of the checkpoint.
  /// Hash of all that decides which artifacts are tested, and in which order: checksums of the
  /// sealed artifacts, or of what a search makes them from.
  uint64_t candidates = 0;
  uint64_t samples = 0; // Hash of the windows that are scored, or of the items and their options.
  moert::LossMetric metric = moert::LossMetric::kPerplexity;
  AcceptanceTarget target;
  std::vector<uint64_t> files;              // XXH3-64 of each acceptance file.
  std::vector<moert::DocumentId> documents; // In the samples.
};

struct AcceptanceTurn {
  uint32_t compile = 1; // Counts the compiles of the checkpoint on these documents.
  AcceptanceLevels levels;
  std::string logPath;

  /// "compile 3 that tests this checkpoint on these documents (FILE)"
  std::string text() const;
};

/// The turn that a compile would have, without taking it. logPath: empty for the default. Refuses
/// if earlier compiles have used up the documents' probability of error, or the record is damaged.
moert::Result<AcceptanceTurn> findAcceptanceTurn(const std::string &logPath,
                                                 const AcceptanceSubject &subject);

/// The same, recorded: call before the first test.
moert::Result<AcceptanceTurn> takeAcceptanceTurn(const std::string &logPath,
                                                 const AcceptanceSubject &subject);

/// "96.4%", or "99.985%"
std::string formatConfidence(double confidence);

/// Refuses fewer units than a statement about the target's quantile takes with this confidence.
moert::Status checkQuantileUnits(const AcceptanceTarget &target, uint64_t units, double confidence,
                                 const AcceptanceTurn &turn);

/// The confidence of each of several chains that divide the main level of a turn. Refuses one that
/// no bound is computed at.
moert::Result<double> confidenceOfChains(const AcceptanceTurn &turn, size_t chains);

} // namespace moec
