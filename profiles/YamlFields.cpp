#include "profiles/YamlFields.h"

#include "runtime/base/Excerpt.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

std::string describeNode(const YAML::Node &node) {
  switch (node.Type()) {
  case YAML::NodeType::Map:
    return "a map";
  case YAML::NodeType::Sequence:
    return node.size() == 0 ? "an empty list" : "a list";
  case YAML::NodeType::Scalar:
    return strCat("'", moert::excerpt(node.Scalar()), "'");
  default:
    return "nothing";
  }
}

Status refuseAt(const std::string &file, const YAML::Node &node, const std::string &what) {
  const YAML::Mark mark = node.Mark();
  // yaml-cpp gives invalid nodes negative lines.
  const std::string line = mark.line >= 0 ? strCat(":", mark.line + 1) : "";
  return moert::invalidInput(file, line, ": ", what);
}

/// Whole bounds are written with all digits; they all fit into 64 bits.
std::string boundText(double bound) {
  return bound == std::floor(bound) ? strCat(static_cast<uint64_t>(bound)) : strCat(bound);
}

std::string rangeText(const Range &range, bool isWhole) {
  return strCat(isWhole ? "a whole number" : "a number", " from ", boundText(range.minimum), " to ",
                boundText(range.maximum));
}

template <typename Number> std::optional<Number> parseNumber(const std::string &text) {
  Number value{};
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    return std::nullopt;
  return value;
}

std::optional<Origin> originOf(const std::string &tag) {
  return tag.starts_with('!') ? moert::valueNamed<moert::Origin>(std::string_view(tag).substr(1))
                              : std::nullopt;
}

} // namespace

Status refuseNode(const std::string &file, const YAML::Node &node, const std::string &place,
                  std::string_view expected) {
  return refuseAt(file, node,
                  strCat(place, place.empty() ? "" : ": ", "found ", describeNode(node),
                         ", expected ", expected));
}

Result<YamlFields> YamlFields::of(const std::string &file, const YAML::Node &node,
                                  std::string place) {
  if (!node.IsMap())
    return refuseNode(file, node, place, "a map of fields");
  std::set<std::string> seen;
  for (const auto &field : node) {
    if (!field.first.IsScalar())
      return refuseNode(file, field.first, place, "the name of a field");
    if (!seen.insert(field.first.Scalar()).second)
      return refuseAt(file, field.first,
                      strCat(place, place.empty() ? "" : ": ", "field '",
                             moert::excerpt(field.first.Scalar()), "' is given twice"));
  }
  return YamlFields(file, node, std::move(place));
}

std::string YamlFields::placeOf(const std::string &key) const {
  return place.empty() ? key : strCat(place, ".", key);
}

bool YamlFields::has(const std::string &key) const {
  return static_cast<bool>(node[key]);
}

Status YamlFields::refuse(const std::string &key, std::string_view expected) const {
  const YAML::Node field = std::as_const(node)[key];
  return refuseNode(file, field ? field : node, placeOf(key), expected);
}

Result<YAML::Node> YamlFields::take(const std::string &key) {
  if (!has(key))
    return refuseAt(file, node, strCat(placeOf(key), ": the field is missing"));
  taken.insert(key);
  return std::as_const(node)[key];
}

Result<YamlFields> YamlFields::map(const std::string &key) {
  MOERT_ASSIGN_OR_RETURN(YAML::Node field, take(key));
  return of(file, field, placeOf(key));
}

Result<std::string> YamlFields::scalar(const std::string &key, std::string_view expected) {
  MOERT_ASSIGN_OR_RETURN(YAML::Node field, take(key));
  if (!field.IsScalar())
    return refuse(key, expected);
  return field.Scalar();
}

Status YamlFields::checkTag(const std::string &key) const {
  const YAML::Node field = std::as_const(node)[key];
  if (originOf(field.Tag()))
    return {};
  const bool hasTag = field.Tag().size() > 1; // yaml-cpp reports untagged values as "?" or "!".
  return refuseAt(file, field,
                  strCat(placeOf(key), ": found ", hasTag ? moert::excerpt(field.Tag()) : "no tag",
                         ", expected one of !measured, !stated, !derived and "
                         "!assumed before the value"));
}

Result<std::string> YamlFields::text(const std::string &key) {
  MOERT_ASSIGN_OR_RETURN(std::string value, scalar(key, "a text"));
  if (value.empty())
    return refuse(key, "a text");
  return value;
}

Result<uint64_t> YamlFields::count(const std::string &key, const Range &range) {
  const std::string expected = rangeText(range, true);
  MOERT_ASSIGN_OR_RETURN(std::string digits, scalar(key, expected));
  const std::optional<uint64_t> value = parseNumber<uint64_t>(digits);
  if (!value || static_cast<double>(*value) < range.minimum ||
      static_cast<double>(*value) > range.maximum)
    return refuse(key, expected);
  return *value;
}

Result<Quantity> YamlFields::quantity(const std::string &key, const Range &range) {
  const std::string expected = rangeText(range, false);
  MOERT_ASSIGN_OR_RETURN(std::string digits, scalar(key, expected));
  MOERT_RETURN_IF_ERROR(checkTag(key));
  const std::optional<double> value = parseNumber<double>(digits);
  // NaN is outside every range.
  if (!value || !(*value >= range.minimum && *value <= range.maximum))
    return refuse(key, expected);
  return Quantity{*value, *originOf(std::as_const(node)[key].Tag())};
}

Result<uint64_t> YamlFields::knownCount(const std::string &key, const Range &range) {
  MOERT_ASSIGN_OR_RETURN(uint64_t value, count(key, range));
  MOERT_RETURN_IF_ERROR(checkTag(key));
  return value;
}

Result<bool> YamlFields::knownFlag(const std::string &key) {
  Result<std::string> word = knownWord(key, {"true", "false"});
  if (!word.isOk())
    return word.status();
  return *word == "true";
}

Result<std::string> YamlFields::knownWord(const std::string &key,
                                          std::initializer_list<std::string_view> words) {
  std::string expected;
  for (std::string_view word : words)
    expected += strCat(expected.empty() ? "" : " or ", word);
  MOERT_ASSIGN_OR_RETURN(std::string value, scalar(key, expected));
  MOERT_RETURN_IF_ERROR(checkTag(key));
  if (std::find(words.begin(), words.end(), value) == words.end())
    return refuse(key, expected);
  return value;
}

Status YamlFields::finish() const {
  for (const auto &field : node)
    if (taken.count(field.first.Scalar()) == 0)
      return refuseAt(file, field.first,
                      strCat(placeOf(moert::excerpt(field.first.Scalar())),
                             ": unknown field; profiles/README.md lists the known ones"));
  return {};
}

} // namespace moec
