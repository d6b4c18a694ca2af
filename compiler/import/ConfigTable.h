// The keys of one config class as data: name, type, default and effect of each. A family reads its
// config through its table (Config.h), so a key that is absent has the reference class's default in
// one place, and a key that the family does not compute is refused unless it has its default.
//
// Not here: the tables (architectures/), and what the keys mean to a model.
#pragma once

#include "runtime/base/Status.h"

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// What a key does to logits.
enum class KeyEffect {
  kUsed,        ///< The family's code reads it.
  kNone,        ///< Nothing: training, caching, labels, token ids of other parts.
  kDefaultOnly, ///< The reference has more than the description can express; another value is
                ///< refused.
};

/// One key of a config class.
struct ConfigKey {
  std::string_view name;
  /// What the value is: "int", "real", "flag", "text", "list", "object", or "any" where nothing
  /// reads it. With "?", null is a value of its own ("flag?": false, as in Python); with "~", null
  /// is as absent.
  std::string_view type;
  std::string_view fallback; ///< The default of the class as JSON.
  KeyEffect effect = KeyEffect::kUsed;
  std::string_view alias = {}; ///< Another name. If a file has both, they must agree.
};

using ConfigKeys = std::span<const ConfigKey>;

/// A family's keys and those of every class (kCommonKeys), with their parsed defaults. Immutable;
/// ConfigObjects refer to it, so it must outlive them.
class ConfigTable {
public:
  /// A row of `keys` replaces the common row of the same name.
  explicit ConfigTable(ConfigKeys keys);
  ConfigTable(ConfigTable &&) noexcept;
  ~ConfigTable();

  /// Null for a name that the class does not have.
  const ConfigKey *find(std::string_view name) const;
  /// The default of a key that find() returned.
  const nlohmann::json &fallback(const ConfigKey &key) const;
  /// All rows, the family's first.
  const std::vector<ConfigKey> &rows() const { return keys; }

private:
  struct Defaults;
  std::vector<ConfigKey> keys;
  std::unique_ptr<Defaults> defaults; // Parallel to keys.
};

/// Keys that every class has or ignores.
extern const ConfigKeys kCommonKeys;

} // namespace moec
