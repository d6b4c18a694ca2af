// Typed reading of config.json and generation_config.json. Every failure says which file and key,
// what was found there and what was expected.
//
// Not here: which keys a family has and what they mean (architectures/).
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

/// A JSON object inside a Config. A view: cheap to copy, valid while the Config lives (also after
/// the Config was moved). The accessors with a fallback use it when the key is missing; a key that
/// is there with null or a wrong value is an error even then. Keys that may be null are to be asked
/// for with has() first.
class ConfigObject {
public:
  /// Whether the key is there and not null.
  bool has(std::string_view key) const;
  /// Whether the key is there, null or not.
  bool contains(std::string_view key) const;

  moert::Result<uint32_t> integer(std::string_view key, uint32_t least, uint32_t most,
                                  std::optional<uint32_t> fallback = std::nullopt) const;
  /// A finite number within [least, most]; an integer is taken as well.
  moert::Result<double> real(std::string_view key, double least, double most,
                             std::optional<double> fallback = std::nullopt) const;
  moert::Result<bool> boolean(std::string_view key,
                              std::optional<bool> fallback = std::nullopt) const;
  moert::Result<std::string> string(std::string_view key,
                                    std::optional<std::string> fallback = std::nullopt) const;
  moert::Result<std::vector<std::string>> strings(std::string_view key) const;
  moert::Result<std::vector<uint32_t>> integers(std::string_view key, uint32_t least,
                                                uint32_t most) const;
  /// A token id or a list of them, as eos_token_id has it; missing or null is an empty list.
  moert::Result<std::vector<uint32_t>> integerOrList(std::string_view key, uint32_t least,
                                                     uint32_t most) const;
  /// A nested object, which must be there.
  moert::Result<ConfigObject> object(std::string_view key) const;

  /// "FILE: key 'KEY': found VALUE, expected EXPECTED".
  moert::Status mismatch(std::string_view key, std::string_view expected) const;

  const std::string &fileName() const;

private:
  friend class Config;
  ConfigObject(const nlohmann::json *node, const std::string *file, std::string path);
  moert::Result<uint32_t> integerValue(const nlohmann::json &value, std::string_view key,
                                       uint32_t least, uint32_t most) const;

  const nlohmann::json *node; // An object of the Config, as is file.
  const std::string *file;
  std::string path; // "rope_scaling." inside a nested object.
};

/// A parsed file; owns what its ConfigObjects look at.
class Config {
public:
  /// read() takes a file, parse() its text; fileName is for messages. Both refuse what is not one
  /// JSON object, is nested deeper than any config or names a key twice.
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
