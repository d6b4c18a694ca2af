#include "runtime/engine/EvaluationTexts.h"

#include "runtime/base/InputText.h"
#include "runtime/engine/Evaluation.h"

#include <algorithm>

namespace moert {

Result<EvaluationTexts> readEvaluationTexts(std::span<const std::string> files,
                                            const Tokenizer &tokenizer, uint32_t windowTokens,
                                            const std::function<void(const std::string &)> &note) {
  EvaluationTexts texts;
  uint64_t largestFile = 0;
  for (const std::string &file : files) {
    MOERT_ASSIGN_OR_RETURN(std::string text, readInput(file));
    MOERT_RETURN_IF_ERROR(checkUtf8(text, inputName(file)));
    MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.encode(text, true));
    uint64_t count = windowCount(ids.size(), windowTokens);
    if (count == 0)
      note(strCat(inputName(file), ": ", ids.size(), " tokens, fewer than a window of ",
                  windowTokens, ": left out"));
    texts.windows += count;
    largestFile = std::max<uint64_t>(largestFile, text.size());
    texts.bytes += ids.size() * sizeof(int32_t);
    texts.ids.push_back(std::move(ids));
  }
  if (texts.windows == 0)
    return invalidInput("no text has ", windowTokens, " tokens, expected at least one window");
  texts.bytes += largestFile + texts.windows * sizeof(SampleScore);
  return texts;
}

} // namespace moert
