// What calibration and the search for widths have read of texts, so that a test of a miss rule
// leaves it out as the compile's own tests do.
#pragma once

#include "compiler/profile/SeenText.h"
#include "compiler/profile/TraceSection.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/engine/Engine.h"
#include "runtime/evaluation/EvaluationSet.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// A file that calibration or the search has read.
struct ReadFile {
  std::string name;
  uint64_t hash = 0; // XXH3-64 of its bytes.
  uint64_t bytes = 0;
};

struct ReadTexts {
  SeenText seen;
  std::vector<ReadFile> files;
};

/// What calibration and the search for widths have read of all text, as SeenText::runs() gives it;
/// absent: the artifact is of a version that did not keep it. trace: the artifact's own.
std::optional<std::vector<uint64_t>> keptRuns(const moert::Artifact &artifact,
                                              const std::optional<PlanTrace> &trace);

/// Texts beside what the artifact keeps.
struct GivenTexts {
  std::span<const std::string> calibrationTexts;
  const std::string &documentSeparator;
  const std::string &profilePath; // Empty: none.
};

/// What the artifact keeps (keptRuns()), all text of the given files, and the windows of the
/// profile. Where the artifact keeps nothing, refuses one whose own calibration texts are not
/// given, also where the profile names them: it has only the windows of calibration, and those of
/// the search could not be left out. Says so of one that names no texts.
moert::Result<ReadTexts> readTextsOf(const moert::Model &model,
                                     const std::optional<std::vector<uint64_t>> &kept,
                                     const GivenTexts &given, const Session &session);

/// Refuses a text with the content of one that calibration or the search has read. paths: of texts.
moert::Status checkUnread(const ReadTexts &read, std::span<const moert::EvaluatedText> texts,
                          std::span<const std::string> paths);

} // namespace moec
