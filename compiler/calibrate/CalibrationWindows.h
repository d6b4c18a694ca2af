// Which tokens calibration sees.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct WindowRequest {
  std::vector<std::string> textPaths;
  std::string documentSeparator;  // TextDocuments.h.
  std::vector<int32_t> endTokens; // The model's.
  uint32_t windowTokens = 0;
  uint64_t tokens = 0; // Rounded up to whole windows.
  uint64_t seed = 0;
  uint64_t memoryBytes = 0; // A text that cannot be tokenized in it is refused.
};

struct CalibrationWindows {
  std::vector<CalibrationText> texts;
  std::vector<int32_t> tokens; // [windows][windowTokens]
};

/// As many windows as were asked for, or all that there are, which `say` then hears. Every text
/// gives as many as every other, as far as it has them, so that a long one does not drown the rest.
///
/// In a text of one document the windows are spread over its whole length, each at a random place
/// in its part: neighbouring windows are alike, and beginnings are unlike everything else. A text
/// of several documents gives windows of half of its units (TextWindows.h), drawn at random, or of
/// more where these have too few: the others stay for an acceptance, which takes only documents of
/// which calibration has read nothing.
///
/// Refuses texts that cannot be read, are not UTF-8 or fill no window, and fewer windows than
/// texts.
moert::Result<CalibrationWindows>
readCalibrationWindows(const WindowRequest &request, const moert::Tokenizer &tokenizer,
                       const std::function<void(std::string_view)> &say);

/// How many of `windows` each text gives of those it has; all, if they are not enough.
std::vector<uint64_t> shareWindows(std::span<const uint64_t> available, uint64_t windows);

} // namespace moec
