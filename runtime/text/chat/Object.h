// Values with identity or behaviour: namespaces, macros, the `loop` of a for statement, bound
// methods and global functions.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/chat/Value.h"

#include <memory>
#include <optional>

namespace moert::chat {

class Evaluator;
struct MacroDefinition;

/// The arguments of a call, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Owned by the values that refer to it. Used by the thread that renders.
class Object {
public:
  Object() = default;
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;
  virtual ~Object() = default;

  virtual std::string typeName() const = 0;
  /// A member, or null if there is none by that name.
  virtual Result<std::optional<Value>> attribute(const std::string &) const {
    return std::optional<Value>();
  }
  virtual Result<Value> call(const Arguments &arguments, Evaluator &evaluator);
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
  Result<std::optional<Value>> attribute(const std::string &name) const override;
  void clear() override { members = {}; }

  Dict members;
};

/// The variable `loop` in the body of a for statement.
class Loop final : public Object {
public:
  explicit Loop(SequencePtr loopItems) : items(std::move(loopItems)) {}

  std::string typeName() const override { return "LoopContext"; }
  Result<std::optional<Value>> attribute(const std::string &name) const override;
  uint32_t depth() const override { return items->depth + 1; }

  size_t index = 0; // The current element.

private:
  const SequencePtr items;
};

/// Refers to the template, which outlives the rendering's values.
class Macro final : public Object {
public:
  explicit Macro(const MacroDefinition &macroDefinition) : definition(macroDefinition) {}

  std::string typeName() const override { return "Macro"; }
  Result<std::optional<Value>> attribute(const std::string &name) const override;
  Result<Value> call(const Arguments &arguments, Evaluator &evaluator) override;

private:
  const MacroDefinition &definition;
};

} // namespace moert::chat
