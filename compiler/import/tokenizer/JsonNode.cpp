#include "compiler/import/tokenizer/JsonNode.h"

#include <set>

namespace moert {
namespace {

using Json = nlohmann::json;

// The deepest real file nests six levels.
constexpr int kMaxDepth = 32;

// A short form of a value for messages.
std::string describe(const Json &value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return "an array";
  if (value.is_null())
    return "nothing";
  if (const auto *text = value.get_ptr<const std::string *>())
    return "'" + excerpt(*text) + "'";
  return value.dump();
}

// Observes the parser: nlohmann's tree keeps the last of two equal names and accepts any depth.
struct Watcher {
  std::vector<std::set<std::string>> names; // Names in the open objects, by depth.
  std::string complaint;

  bool operator()(int depth, Json::parse_event_t event, Json &parsed) {
    if (!complaint.empty())
      return false;
    auto level = static_cast<size_t>(depth);
    if (depth > kMaxDepth) {
      complaint = strCat("found values nested deeper than ", kMaxDepth, " levels");
      return false;
    }
    if (event == Json::parse_event_t::object_start) {
      names.resize(level + 1);
      names[level].clear();
    } else if (event == Json::parse_event_t::key) {
      const auto &name = parsed.get_ref<const std::string &>();
      if (!names[level - 1].insert(name).second)
        complaint = strCat("found the name '", excerpt(name), "' twice in one object");
    }
    return true;
  }
};

} // namespace

Result<std::string> decodeBase64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  if (text.size() % 4 != 0)
    return invalidInput("found ", text.size(), " digits of base64, expected a multiple of 4");
  std::string bytes;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size() - padding; ++i) {
    const size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos)
      return invalidInput("found '", excerpt(text.substr(i, 1)), "', expected a digit of base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 0)
      bytes.push_back(static_cast<char>(bits >> (6 - 2 * (i % 4))));
  }
  return bytes;
}

Result<std::string> JsonNode::bytes() const {
  MOERT_ASSIGN_OR_RETURN(const std::string digits, text());
  Result<std::string> decoded = decodeBase64(digits);
  if (!decoded.isOk())
    return error(decoded.status().message());
  return decoded;
}

Result<JsonNode> JsonNode::parse(std::string_view text, Json &storage) {
  Watcher watcher;
  try {
    storage = Json::parse(text.begin(), text.end(), std::ref(watcher));
  } catch (const Json::exception &exception) {
    return invalidInput("found broken JSON: ", excerpt(exception.what(), 3 * kExcerptBytes));
  }
  if (!watcher.complaint.empty())
    return invalidInput(watcher.complaint);
  return JsonNode(storage, "");
}

Status JsonNode::wrong(std::string_view expected) const {
  return error("found ", describe(*value), ", expected ", expected);
}

Result<JsonNode> JsonNode::member(std::string_view name) const {
  static const Json kMissing;
  if (!value->is_object())
    return wrong("an object");
  auto found = value->find(name);
  std::string memberPath = path.empty() ? std::string(name) : path + "." + std::string(name);
  return JsonNode(found == value->end() ? kMissing : *found, std::move(memberPath));
}

Result<std::vector<JsonNode>> JsonNode::elements() const {
  if (!value->is_array())
    return wrong("an array");
  std::vector<JsonNode> nodes;
  for (size_t i = 0; i < value->size(); ++i)
    nodes.push_back(JsonNode((*value)[i], strCat(path, "[", i, "]")));
  return nodes;
}

Result<const Json::object_t *> JsonNode::object() const {
  const auto *members = value->get_ptr<const Json::object_t *>();
  if (!members)
    return wrong("an object");
  return members;
}

Result<const Json::array_t *> JsonNode::array() const {
  const auto *values = value->get_ptr<const Json::array_t *>();
  if (!values)
    return wrong("an array");
  return values;
}

Result<std::string> JsonNode::text() const {
  const auto *content = value->get_ptr<const std::string *>();
  if (!content)
    return wrong("a text");
  return *content;
}

Result<int64_t> JsonNode::integer(int64_t least, int64_t most) const {
  std::string expected = strCat("a whole number from ", least, " to ", most);
  const auto *large = value->get_ptr<const uint64_t *>();
  const auto *content = value->get_ptr<const int64_t *>();
  if (!content || (large && *large > INT64_MAX) || *content < least || *content > most)
    return wrong(expected);
  return *content;
}

Status JsonNode::readText(std::string_view name, std::string &target) const {
  MOERT_ASSIGN_OR_RETURN(JsonNode node, member(name));
  MOERT_ASSIGN_OR_RETURN(target, node.text());
  return {};
}

Status JsonNode::readFlag(std::string_view name, bool &target) const {
  MOERT_ASSIGN_OR_RETURN(JsonNode node, member(name));
  const auto *content = node.value->get_ptr<const bool *>();
  if (!content)
    return node.wrong("true or false");
  target = *content;
  return {};
}

Status JsonNode::readOptionalFlag(std::string_view name, bool &target) const {
  MOERT_ASSIGN_OR_RETURN(JsonNode node, member(name));
  return node.isNull() ? Status() : readFlag(name, target);
}

} // namespace moert
