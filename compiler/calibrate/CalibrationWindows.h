// Chooses the tokens that calibration uses.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct WindowRequest {
  std::vector<std::string> textPaths;
  std::string documentSeparator;        // TextDocuments.h.
  std::vector<int32_t> endTokens;       // End-of-text tokens of the model.
  uint32_t vocabularySize = UINT32_MAX; // Token ids of the model are below it.
  uint32_t windowTokens = 0;
  uint64_t tokens = 0; // Rounded up to whole windows.
  uint64_t seed = 0;
  uint64_t memoryBytes = 0; // A text that needs more to be tokenized is refused.
};

struct CalibrationWindows {
  std::vector<CalibrationText> texts;
  std::vector<int32_t> tokens; // [windows][windowTokens]
};

/// As many windows as requested, or all that there are, which `say` then reports. Every text gives
/// the same number, as far as it has that many, so that a long text does not dominate.
///
/// In a text of one document the windows are spread over its whole length, each at a random
/// position in its part: neighbouring windows are similar, and the beginning of a text is not
/// typical. A text of several documents gives windows of half of its units (TextWindows.h), drawn
/// at random, or of more where these have too few. The others remain for an acceptance test, which
/// uses only documents of which calibration has read nothing.
///
/// Refuses texts that cannot be read, are not UTF-8 or fill no window, and fewer windows than
/// texts.
moert::Result<CalibrationWindows>
readCalibrationWindows(const WindowRequest &request, const moert::Tokenizer &tokenizer,
                       const std::function<void(std::string_view)> &say);

/// The number of windows that each text gives; all available ones if they are not enough.
std::vector<uint64_t> divideWindows(std::span<const uint64_t> available, uint64_t windows);

} // namespace moec
