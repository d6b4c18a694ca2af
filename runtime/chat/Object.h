// Values with identity or behaviour: namespaces, macros, bound methods, global functions, and the
// `loop` of a for statement.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/chat/Value.h"

#include <memory>
#include <optional>

namespace moert::chat {

class Evaluator;
class TextBuilder;

/// The arguments of a call, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Owned by the values that refer to it. Used by the thread that renders.
class Object : public std::enable_shared_from_this<Object> {
public:
  Object() = default;
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;
  virtual ~Object() = default;

  virtual std::string typeName() const = 0;
  /// A member, or null if there is none by that name.
  virtual Result<std::optional<Value>> attribute(std::string_view) const {
    return std::optional<Value>();
  }
  virtual bool isCallable() const { return false; }
  virtual Result<Value> call(const Arguments &arguments, Evaluator &evaluator);
  /// What Python prints, if that is the same each time.
  virtual Status describe(TextBuilder &out) const;
  /// Drops what the object refers to: it may refer to itself.
  virtual void clear() {}
  /// Levels of lists, dictionaries and objects below this one. 0 for objects that the evaluator
  /// keeps until the end: releasing them does not release others in turn.
  virtual uint32_t depth() const { return 0; }
};

/// The only value that templates change: {% set ns.name = value %}.
class Namespace final : public Object {
public:
  std::string typeName() const override { return "Namespace"; }
  Result<std::optional<Value>> attribute(std::string_view name) const override;
  Status describe(TextBuilder &out) const override;
  void clear() override { members = {}; }

  Dict members;
};

} // namespace moert::chat
