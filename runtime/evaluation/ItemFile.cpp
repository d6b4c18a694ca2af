#include "runtime/evaluation/ItemFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace moert {

namespace {

constexpr size_t kMaxDepth = 64;

/// What one key of a line has.
struct Field {
  enum class Kind { kText, kNumber, kTexts, kOther };
  Kind kind = Kind::kOther;
  std::string text;
  uint64_t number = 0;
  std::vector<std::string> texts;
};

using Fields = std::map<std::string, Field, std::less<>>;

/// Collects the fields of one line, event by event: whatever a line holds, no more than its own
/// bytes are kept.
class FieldCollector final : public nlohmann::json_sax<nlohmann::json> {
public:
  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_float(number_float_t, const string_t &) override { return other(); }
  bool binary(binary_t &) override { return other(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth != 1)
      return other();
    current->kind = Field::Kind::kNumber;
    current->number = value;
    return true;
  }
  bool string(string_t &value) override {
    if (depth == 0 || (depth == 2 && current->kind != Field::Kind::kTexts) || depth > 2)
      return other();
    if (depth == 2) {
      current->texts.push_back(std::move(value));
    } else {
      current->kind = Field::Kind::kText;
      current->text = std::move(value);
    }
    return true;
  }
  bool start_object(std::size_t) override { return depth == 0 ? enter() : other() && enter(); }
  bool start_array(std::size_t) override {
    if (depth == 1)
      current->kind = Field::Kind::kTexts;
    else if (!other())
      return false;
    return enter();
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t &name) override {
    if (depth > 1)
      return true;
    auto [place, isNew] = fields.try_emplace(name);
    if (!isNew)
      fault = "a key twice, expected each once";
    current = &place->second;
    return isNew;
  }
  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    fault = strCat("no JSON from byte ", position, " on, expected one object a line");
    return false;
  }

  Fields fields;
  std::string fault; // Why the line is refused: what was found.

private:
  /// A value that no field of ours may have; fine where it belongs to none of ours.
  bool other() {
    if (depth == 0) {
      fault = "a value that is no object, expected one object a line";
      return false;
    }
    current->kind = Field::Kind::kOther;
    return true;
  }
  bool enter() {
    if (++depth <= kMaxDepth)
      return true;
    fault = strCat("JSON nested deeper than ", kMaxDepth, " levels, expected at most that");
    return false;
  }
  bool leave() {
    --depth;
    return true;
  }

  size_t depth = 0;
  Field *current = nullptr;
};

/// One line of a file, with the refusals that name it.
class ItemLine {
public:
  ItemLine(std::string_view fileName, uint32_t lineNumber) : name(fileName), line(lineNumber) {}

  Status parse(std::string_view text) {
    FieldCollector collector;
    // The library takes a NUL for the end of its input.
    if (text.find('\0') != std::string_view::npos)
      return refuse("a zero byte, expected JSON text");
    const bool isWhole = nlohmann::json::sax_parse(text, &collector);
    if (!isWhole)
      return refuse(collector.fault);
    fields = std::move(collector.fields);
    return {};
  }

  Result<std::string> text(std::string_view key, std::string_view expected) {
    Field *field = find(key);
    if (!field || field->kind != Field::Kind::kText)
      return refuseField(key, field, expected);
    return std::move(field->text);
  }

  Result<std::vector<std::string>> texts(std::string_view key, std::string_view expected) {
    Field *field = find(key);
    if (!field || field->kind != Field::Kind::kTexts)
      return refuseField(key, field, expected);
    return std::move(field->texts);
  }

  Result<uint64_t> number(std::string_view key, std::string_view expected) {
    Field *field = find(key);
    if (!field || field->kind != Field::Kind::kNumber)
      return refuseField(key, field, expected);
    return field->number;
  }

  bool has(std::string_view key) const { return fields.find(key) != fields.end(); }
  bool hasTexts(std::string_view key) const {
    auto found = fields.find(key);
    return found != fields.end() && found->second.kind == Field::Kind::kTexts;
  }

  template <typename... Parts> Status refuse(const Parts &...found) const {
    return invalidInput(name, " line ", line, ": found ", found...);
  }

private:
  Field *find(std::string_view key) {
    auto found = fields.find(key);
    return found == fields.end() ? nullptr : &found->second;
  }

  Status refuseField(std::string_view key, const Field *field, std::string_view expected) const {
    return refuse(field ? "another kind of value for \"" : "no key \"", key, "\", expected ",
                  expected);
  }

  std::string_view name;
  uint32_t line;
  Fields fields;
};

Result<ChoiceItem> choiceItem(ItemLine &line) {
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

Result<AnswerItem> answerItem(ItemLine &line) {
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
                                     Result<Item> (*itemOf)(ItemLine &)) {
  std::vector<Item> items;
  for (uint32_t number = 1; !text.empty(); ++number) {
    const std::string_view content = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(content.size() + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos)
      continue;
    ItemLine line(name, number);
    MOERT_RETURN_IF_ERROR(line.parse(content));
    MOERT_ASSIGN_OR_RETURN(Item item, itemOf(line));
    item.line = number;
    items.push_back(std::move(item));
  }
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
