// What calibration and the search for widths have read of texts, so that a test of a miss rule
// leaves it out as the compile's own tests do.
#pragma once

#include "compiler/search/SeenText.h"
#include "moert/Engine.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/EvaluationSet.h"

#include <cstdint>
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

/// All text of the given files, and the windows of the profile; an empty path: none. Refuses an
/// artifact whose own calibration texts are not given, also where the profile names them: it has
/// only the windows of calibration, and those of the search could not be left out.
moert::Result<ReadTexts> readTextsOf(const moert::Model &model,
                                     std::span<const std::string> calibrationTexts,
                                     const std::string &documentSeparator,
                                     const std::string &profilePath);

/// Refuses a text with the content of one that calibration or the search has read. paths: of texts.
moert::Status checkUnread(const ReadTexts &read, std::span<const moert::EvaluatedText> texts,
                          std::span<const std::string> paths);

} // namespace moec
