#include "compiler/import/Config.h"

#include "compiler/import/ConfigTable.h"
#include "compiler/import/JsonScan.h"
#include "compiler/import/OptionalFile.h"
#include "runtime/base/Excerpt.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// Refuses duplicate keys, of which a DOM parser would silently keep one.
class UniqueKeys final : public JsonEventHandler {
public:
  Status handle(const JsonEvent &event) override {
    if (event.kind == JsonEventKind::kStartObject)
      keys.emplace_back();
    else if (event.kind == JsonEventKind::kEndObject)
      keys.pop_back();
    else if (event.kind == JsonEventKind::kKey && !keys.back().insert(*event.text).second)
      return invalidInput("found key ", quoted(*event.text), " twice, expected it once");
    return Status();
  }

private:
  std::vector<std::set<std::string>> keys; // Keys of the open objects, innermost object last.
};

std::string foundText(const nlohmann::json &value) {
  if (value.is_object())
    return "an object";
  return moert::excerpt(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

const nlohmann::json *lookUp(const nlohmann::json &object, std::string_view key) {
  const auto entry = object.find(std::string(key));
  return entry == object.end() ? nullptr : &*entry;
}

std::string rangeText(uint32_t least, uint32_t most) {
  return strCat("an integer from ", least, " to ", most);
}

} // namespace

struct Config::Impl {
  std::string file;
  nlohmann::json root;
};

Config::Config(std::unique_ptr<Impl> content) : impl(std::move(content)) {}
Config::Config(Config &&) noexcept = default;
Config &Config::operator=(Config &&) noexcept = default;
Config::~Config() = default;

/// The largest published config.json is under 100 KB.
static constexpr uint64_t kMaxConfigBytes = 16 << 20;

Result<Config> Config::read(const std::string &path) {
  MOERT_RETURN_IF_ERROR(hasReadableFile(path).status()); // Has better messages for broken links.
  MOERT_ASSIGN_OR_RETURN(const std::string text, readTextFile(path, kMaxConfigBytes));
  return parse(path, text);
}

Result<Config> Config::parse(std::string fileName, std::string_view text) {
  UniqueKeys uniqueKeys;
  MOERT_RETURN_IF_ERROR(scanJson(fileName, text, uniqueKeys));
  auto impl = std::make_unique<Impl>();
  try {
    impl->root = nlohmann::json::parse(text);
  } catch (const std::exception &error) {
    return invalidInput(fileName, ": found broken JSON, expected valid: ", quoted(error.what()));
  }
  if (!impl->root.is_object())
    return invalidInput(fileName, ": found ", foundText(impl->root), ", expected a JSON object");
  impl->file = std::move(fileName);
  return Config(std::move(impl));
}

ConfigObject Config::root() const {
  return ConfigObject(&impl->root, &impl->file, "");
}

ConfigObject::ConfigObject(const nlohmann::json *object, const std::string *fileName,
                           std::string prefix)
    : node(object), file(fileName), path(std::move(prefix)) {}

const std::string &ConfigObject::fileName() const {
  return *file;
}

/// A key's value: the file's, or the table's default, or none.
struct ConfigObject::Found {
  const nlohmann::json *value = nullptr;
  std::string_view name; // Under which the file has it.
  const ConfigKey *row = nullptr;
  bool isDefault = false;
};

ConfigObject::Found ConfigObject::find(std::string_view key) const {
  if (!table)
    return {lookUp(*node, key), key};
  Found found = {nullptr, key, table->find(key)};
  if (!found.row)
    return found;
  found.value = lookUp(*node, key);
  if (!found.value && !found.row->alias.empty()) {
    found.value = lookUp(*node, found.row->alias);
    found.name = found.value ? found.row->alias : key;
  }
  found.isDefault = !found.value || (found.value->is_null() && found.row->type.ends_with('~'));
  if (found.isDefault)
    found.value = &table->fallback(*found.row);
  return found;
}

const nlohmann::json *ConfigObject::valueOf(std::string_view key) const {
  return find(key).value;
}

bool ConfigObject::contains(std::string_view key) const {
  const Found found = find(key);
  return found.value && (!found.isDefault || lookUp(*node, found.name));
}

bool ConfigObject::isGiven(std::string_view key) const {
  const Found found = find(key);
  return found.value && !found.isDefault;
}

static bool hasKeyWith(const nlohmann::json &object, std::string_view word) {
  for (const auto &[key, value] : object.items())
    if (key.find(word) != std::string::npos || (value.is_object() && hasKeyWith(value, word)))
      return true;
  return false;
}

bool ConfigObject::hasKeyWith(std::string_view word) const {
  return moec::hasKeyWith(*node, word);
}

bool ConfigObject::has(std::string_view key) const {
  const Found found = find(key);
  if (!found.value)
    return false;
  const bool countsNull = !found.row || found.isDefault || found.row->type.ends_with('?');
  return !(found.value->is_null() && countsNull);
}

Status ConfigObject::mismatch(std::string_view key, std::string_view expected) const {
  const Found found = find(key);
  std::string text = found.value ? foundText(*found.value) : "no such key";
  if (found.isDefault && !lookUp(*node, found.name))
    text = strCat("no such key, whose default is ", foundText(*found.value));
  return invalidInput(*file, ": key '", path, found.name, "': found ", text, ", expected ",
                      expected);
}

/// One value under two names; a number may stand for a list with it at every place.
static bool areSame(const nlohmann::json &a, const nlohmann::json &b) {
  const nlohmann::json &list = a.is_array() ? a : b, &other = a.is_array() ? b : a;
  if (!list.is_array() || other.is_array())
    return a == b;
  return std::all_of(list.begin(), list.end(),
                     [&](const auto &element) { return element == other; });
}

/// Python takes null as false, and so as 0 too; nothing else but keys with "?" or "~" is null
/// there.
static bool mayBeNull(const ConfigKey &row) {
  return row.type.ends_with('?') || row.type.ends_with('~') || row.fallback == "null" ||
         row.fallback == "false" || row.fallback == "0";
}

Result<ConfigObject> ConfigObject::withTable(const ConfigTable &keys) const {
  ConfigObject object = *this;
  object.table = &keys;
  for (const ConfigKey &row : keys.rows()) {
    const nlohmann::json *value = lookUp(*node, row.name);
    const nlohmann::json *other = row.alias.empty() ? nullptr : lookUp(*node, row.alias);
    if (value && other && !areSame(*value, *other))
      return object.mismatch(row.name,
                             strCat("the same as ", row.alias, ", which is ", foundText(*other)));
    value = value ? value : other;
    if (row.effect != KeyEffect::kDefaultOnly || !value || (value->is_null() && mayBeNull(row)) ||
        areSame(*value, keys.fallback(row)) || (value->is_object() && value->empty()))
      continue;
    return object.mismatch(row.name,
                           strCat(row.fallback, ": nothing else is supported in this family"));
  }
  return object;
}

Result<uint32_t> ConfigObject::integerValue(const nlohmann::json &value, std::string_view key,
                                            uint32_t least, uint32_t most) const {
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least || value.get<uint64_t>() > most)
    return mismatch(key, rangeText(least, most));
  return static_cast<uint32_t>(value.get<uint64_t>());
}

Result<uint32_t> ConfigObject::integer(std::string_view key, uint32_t least, uint32_t most,
                                       std::optional<uint32_t> fallback) const {
  const nlohmann::json *value = valueOf(key);
  if (!value && fallback)
    return *fallback;
  if (!value)
    return mismatch(key, rangeText(least, most));
  return integerValue(*value, key, least, most);
}

Result<double> ConfigObject::real(std::string_view key, double least, double most,
                                  std::optional<double> fallback) const {
  const nlohmann::json *value = valueOf(key);
  if (!value && fallback)
    return *fallback;
  const double number = value && value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= least && number <= most))
    return mismatch(key, strCat("a number from ", least, " to ", most));
  return number;
}

Result<bool> ConfigObject::boolean(std::string_view key, std::optional<bool> fallback) const {
  const Found found = find(key);
  if (!found.value && fallback)
    return *fallback;
  if (found.value && found.value->is_null() && found.row && found.row->type.ends_with('?'))
    return false; // As Python takes it.
  if (!found.value || !found.value->is_boolean())
    return mismatch(key, "true or false");
  return found.value->get<bool>();
}

Result<std::string> ConfigObject::string(std::string_view key,
                                         std::optional<std::string> fallback) const {
  const nlohmann::json *value = valueOf(key);
  if (!value && fallback)
    return *std::move(fallback);
  if (!value || !value->is_string())
    return mismatch(key, "a string");
  return value->get<std::string>();
}

Result<std::vector<std::string>> ConfigObject::strings(std::string_view key) const {
  const nlohmann::json *value = valueOf(key);
  if (!value || !value->is_array())
    return mismatch(key, "a list of strings");
  std::vector<std::string> result;
  for (const nlohmann::json &element : *value) {
    if (!element.is_string())
      return mismatch(key, "a list of strings");
    result.push_back(element.get<std::string>());
  }
  return result;
}

Result<std::vector<uint32_t>> ConfigObject::integers(std::string_view key, uint32_t least,
                                                     uint32_t most) const {
  const nlohmann::json *value = valueOf(key);
  if (!value || !value->is_array())
    return mismatch(key, strCat("a list, each ", rangeText(least, most)));
  std::vector<uint32_t> result;
  for (const nlohmann::json &element : *value) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t number, integerValue(element, key, least, most));
    result.push_back(number);
  }
  return result;
}

Result<std::vector<double>> ConfigObject::realValues(const nlohmann::json &list,
                                                     std::string_view key, double least,
                                                     double most) const {
  std::vector<double> result;
  for (const nlohmann::json &element : list.is_array() ? list : nlohmann::json::array({nullptr})) {
    const double number = element.is_number() ? element.get<double>() : std::nan("");
    if (!(number >= least && number <= most))
      return mismatch(key, strCat("a list of numbers from ", least, " to ", most));
    result.push_back(number);
  }
  return result;
}

Result<std::vector<double>> ConfigObject::reals(std::string_view key, double least,
                                                double most) const {
  const nlohmann::json *value = valueOf(key);
  return realValues(value ? *value : nlohmann::json(), key, least, most);
}

Result<std::vector<std::vector<double>>> ConfigObject::realLists(std::string_view key, double least,
                                                                 double most) const {
  const nlohmann::json *value = valueOf(key);
  if (!value || !value->is_array())
    return mismatch(key, "a list of lists");
  std::vector<std::vector<double>> result;
  for (const nlohmann::json &list : *value) {
    MOERT_ASSIGN_OR_RETURN(result.emplace_back(), realValues(list, key, least, most));
  }
  return result;
}

Result<std::vector<uint32_t>> ConfigObject::integerOrList(std::string_view key, uint32_t least,
                                                          uint32_t most) const {
  if (!has(key))
    return std::vector<uint32_t>();
  if (valueOf(key)->is_array())
    return integers(key, least, most);
  MOERT_ASSIGN_OR_RETURN(const uint32_t number, integer(key, least, most));
  return std::vector<uint32_t>{number};
}

std::vector<std::string> ConfigObject::keys() const {
  std::vector<std::string> names;
  for (const auto &[name, value] : node->items())
    names.push_back(name);
  return names;
}

Result<ConfigObject> ConfigObject::object(std::string_view key) const {
  const nlohmann::json *value = valueOf(key);
  if (!value || !value->is_object())
    return mismatch(key, "an object");
  return ConfigObject(value, file, strCat(path, key, "."));
}

} // namespace moec
