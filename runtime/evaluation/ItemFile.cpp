#include "runtime/evaluation/ItemFile.h"

#include "runtime/evaluation/JsonLine.h"

namespace moert {

namespace {

Result<ChoiceItem> choiceItem(JsonLine &line) {
  ChoiceItem item;
  MOERT_ASSIGN_OR_RETURN(item.question, line.text("question", "a text"));
  MOERT_ASSIGN_OR_RETURN(item.choices, line.texts("choices", "a list of texts"));
  if (item.choices.size() < 2 || item.choices.size() > kMaxChoices)
    return line.refuse(item.choices.size(), " choices, expected 2 to ", kMaxChoices);
  const std::string expected =
      strCat("a whole number from 0 to ", item.choices.size() - 1, ", which choice is right");
  MOERT_ASSIGN_OR_RETURN(uint64_t answer, line.number("answer", expected));
  if (answer >= item.choices.size())
    return line.refuse("the answer ", answer, ", expected ", expected);
  item.answer = static_cast<uint32_t>(answer);
  if (line.has("subject")) {
    MOERT_ASSIGN_OR_RETURN(item.subject, line.text("subject", "a text"));
  }
  return item;
}

Result<AnswerItem> answerItem(JsonLine &line) {
  AnswerItem item;
  MOERT_ASSIGN_OR_RETURN(item.prompt, line.text("prompt", "a text"));
  if (item.prompt.empty())
    return line.refuse("an empty prompt, expected at least one character");
  constexpr std::string_view kExpected = "a text, or a list of texts of which each is right";
  if (line.hasTexts("answer")) {
    MOERT_ASSIGN_OR_RETURN(item.answers, line.texts("answer", kExpected));
    if (item.answers.empty())
      return line.refuse("an empty list of answers, expected ", kExpected);
  } else {
    MOERT_ASSIGN_OR_RETURN(std::string answer, line.text("answer", kExpected));
    item.answers.push_back(std::move(answer));
  }
  return item;
}

template <typename Item>
Result<std::vector<Item>> parseItems(std::string_view text, std::string_view name,
                                     Result<Item> (*itemOf)(JsonLine &)) {
  std::vector<Item> items;
  MOERT_RETURN_IF_ERROR(forEachJsonLine(text, name, [&](JsonLine &line, uint32_t number) -> Status {
    MOERT_ASSIGN_OR_RETURN(Item item, itemOf(line));
    item.line = number;
    items.push_back(std::move(item));
    return {};
  }));
  if (items.empty())
    return invalidInput(name, ": found no items, expected one JSON object a line");
  return items;
}

} // namespace

Result<std::vector<ChoiceItem>> parseChoiceItems(std::string_view text, std::string_view name) {
  return parseItems<ChoiceItem>(text, name, choiceItem);
}

Result<std::vector<AnswerItem>> parseAnswerItems(std::string_view text, std::string_view name) {
  return parseItems<AnswerItem>(text, name, answerItem);
}

} // namespace moert
