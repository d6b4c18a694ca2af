#include "runtime/evaluation/JsonLine.h"

#include <nlohmann/json.hpp>

namespace moert {

namespace {

constexpr size_t kMaxDepth = 64;

/// Collects the fields of one line, event by event: keeps no more than the line's own bytes, or
/// twice as many where it is an array of digits. Ordered, as all JSON of the program: the library's
/// parser is compiled for each kind.
class FieldCollector final : public nlohmann::json_sax<nlohmann::ordered_json> {
public:
  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_float(number_float_t, const string_t &) override { return other(); }
  bool binary(binary_t &) override { return other(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth == 2 && value <= uint64_t(INT32_MAX) && current->texts.empty() &&
        (current->kind == JsonField::Kind::kTexts || current->kind == JsonField::Kind::kIds)) {
      current->kind = JsonField::Kind::kIds;
      current->ids.push_back(static_cast<int32_t>(value));
      return true;
    }
    if (depth != 1)
      return other();
    current->kind = JsonField::Kind::kNumber;
    current->number = value;
    return true;
  }
  bool string(string_t &value) override {
    if (depth == 0 || (depth == 2 && current->kind != JsonField::Kind::kTexts) || depth > 2)
      return other();
    if (depth == 2) {
      current->texts.push_back(std::move(value));
    } else {
      current->kind = JsonField::Kind::kText;
      current->text = std::move(value);
    }
    return true;
  }
  bool start_object(std::size_t) override { return depth == 0 ? enter() : other() && enter(); }
  bool start_array(std::size_t) override {
    if (depth == 1)
      current->kind = JsonField::Kind::kTexts;
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

  JsonLine::Fields fields;
  std::string fault; // Why the line is refused: what was found.

private:
  /// A value of a kind that no known key has. Allowed for unknown keys.
  bool other() {
    if (depth == 0) {
      fault = "a value that is no object, expected one object a line";
      return false;
    }
    current->kind = JsonField::Kind::kOther;
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
  JsonField *current = nullptr;
};

} // namespace

Status JsonLine::parse(std::string_view text) {
  FieldCollector collector;
  // The library treats a NUL as the end of its input.
  if (text.find('\0') != std::string_view::npos)
    return refuse("a zero byte, expected JSON text");
  if (!nlohmann::ordered_json::sax_parse(text, &collector))
    return refuse(collector.fault);
  fields = std::move(collector.fields);
  return {};
}

Result<JsonField *> JsonLine::find(std::string_view key, JsonField::Kind kind,
                                   std::string_view expected) {
  auto found = fields.find(key);
  if (found == fields.end())
    return refuse("no key \"", key, "\", expected ", expected);
  if (found->second.kind != kind)
    return refuse("another kind of value for \"", key, "\", expected ", expected);
  return &found->second;
}

bool JsonLine::hasTexts(std::string_view key) const {
  auto found = fields.find(key);
  return found != fields.end() && found->second.kind == JsonField::Kind::kTexts;
}

Result<std::string> JsonLine::text(std::string_view key, std::string_view expected) {
  MOERT_ASSIGN_OR_RETURN(JsonField * field, find(key, JsonField::Kind::kText, expected));
  return std::move(field->text);
}

Result<std::vector<std::string>> JsonLine::texts(std::string_view key, std::string_view expected) {
  MOERT_ASSIGN_OR_RETURN(JsonField * field, find(key, JsonField::Kind::kTexts, expected));
  return std::move(field->texts);
}

Result<std::vector<int32_t>> JsonLine::ids(std::string_view key, std::string_view expected) {
  MOERT_ASSIGN_OR_RETURN(JsonField * field, find(key, JsonField::Kind::kIds, expected));
  return std::move(field->ids);
}

Result<uint64_t> JsonLine::number(std::string_view key, std::string_view expected) {
  MOERT_ASSIGN_OR_RETURN(JsonField * field, find(key, JsonField::Kind::kNumber, expected));
  return field->number;
}

} // namespace moert
