// A file of items from a stranger: whatever is accepted can be evaluated.
#include "runtime/evaluation/ItemFile.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  auto choices = moert::parseChoiceItems(text, "fuzz");
  if (choices.isOk())
    for (const moert::ChoiceItem &item : choices.value())
      if (item.choices.size() < 2 || item.choices.size() > moert::kMaxChoices ||
          item.answer >= item.choices.size())
        std::abort();
  auto answers = moert::parseAnswerItems(text, "fuzz");
  if (answers.isOk())
    for (const moert::AnswerItem &item : answers.value())
      if (item.prompt.empty() || item.answers.empty())
        std::abort();
  return 0;
}
