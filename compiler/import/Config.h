// Typed access to config.json and generation_config.json. Every error names file and key, the found
// and the expected value.
//
// Not here: which keys a family has and their meaning (ConfigTable.h, architectures/).
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

class ConfigTable;

/// A JSON object inside a Config. A view: cheap to copy, valid while the Config lives (even after
/// the Config was moved). Accessors with a fallback return it if the key is missing; a key with
/// null or a wrong value is an error even then. Check keys that may be null with has() first.
///
/// With a table, a key that the file lacks has its other name's value or the table's default, and a
/// key that the table lacks has none. Valid while the table lives.
class ConfigObject {
public:
  /// True if the key has a value other than null. With a table, a null of a key that may not be
  /// null counts as a value, so that the accessor refuses it.
  bool has(std::string_view key) const;
  /// True where the name of a key contains the word, in this object or in objects nested in it.
  bool hasKeyWith(std::string_view word) const;
  /// True if the file has the key under one of its names, null or not.
  bool contains(std::string_view key) const;
  /// True if the file has the key and its value does not stand for the default, as null may.
  bool isGiven(std::string_view key) const;

  /// This object, read through `table`. Refuses two names of one key with different values, and a
  /// value other than the default where only the default is supported.
  moert::Result<ConfigObject> withTable(const ConfigTable &table) const;

  moert::Result<uint32_t> integer(std::string_view key, uint32_t least, uint32_t most,
                                  std::optional<uint32_t> fallback = std::nullopt) const;
  /// A finite number in [least, most]; integers are accepted too.
  moert::Result<double> real(std::string_view key, double least, double most,
                             std::optional<double> fallback = std::nullopt) const;
  moert::Result<bool> boolean(std::string_view key,
                              std::optional<bool> fallback = std::nullopt) const;
  moert::Result<std::string> string(std::string_view key,
                                    std::optional<std::string> fallback = std::nullopt) const;
  moert::Result<std::vector<std::string>> strings(std::string_view key) const;
  moert::Result<std::vector<uint32_t>> integers(std::string_view key, uint32_t least,
                                                uint32_t most) const;
  /// A list of finite numbers in [least, most].
  moert::Result<std::vector<double>> reals(std::string_view key, double least, double most) const;
  /// A list of such lists.
  moert::Result<std::vector<std::vector<double>>> realLists(std::string_view key, double least,
                                                            double most) const;
  /// A token id or a list of them, as in eos_token_id; missing or null is an empty list.
  moert::Result<std::vector<uint32_t>> integerOrList(std::string_view key, uint32_t least,
                                                     uint32_t most) const;
  /// All keys, ascending.
  std::vector<std::string> keys() const;
  /// A nested object; an error if it is missing.
  moert::Result<ConfigObject> object(std::string_view key) const;

  /// "FILE: key 'KEY': found VALUE, expected EXPECTED".
  moert::Status mismatch(std::string_view key, std::string_view expected) const;

  const std::string &fileName() const;

private:
  friend class Config;
  struct Found;
  ConfigObject(const nlohmann::json *node, const std::string *file, std::string path);
  Found find(std::string_view key) const;
  const nlohmann::json *valueOf(std::string_view key) const;
  moert::Result<uint32_t> integerValue(const nlohmann::json &value, std::string_view key,
                                       uint32_t least, uint32_t most) const;
  moert::Result<std::vector<double>> realValues(const nlohmann::json &list, std::string_view key,
                                                double least, double most) const;

  const nlohmann::json *node; // An object of the Config; `file` belongs to the Config too.
  const std::string *file;
  std::string path; // "rope_scaling." inside a nested object.
  const ConfigTable *table = nullptr;
};

/// A parsed file; owns the data of its ConfigObjects.
class Config {
public:
  /// read() parses a file, parse() a text; fileName is for messages. Both refuse a text that is not
  /// one JSON object, nesting deeper than any config's, and duplicate keys.
  static moert::Result<Config> read(const std::string &path);
  static moert::Result<Config> parse(std::string fileName, std::string_view text);

  Config(Config &&) noexcept;
  Config &operator=(Config &&) noexcept;
  ~Config();

  ConfigObject root() const;

private:
  struct Impl;
  explicit Config(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moec
