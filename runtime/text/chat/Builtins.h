// The filters, tests, methods and global functions: tables of functions with the names of their
// parameters.
#pragma once

#include "runtime/text/chat/Evaluator.h"
#include "runtime/text/chat/Object.h"
#include "runtime/text/chat/PythonText.h"

#include <array>
#include <optional>
#include <span>

namespace moert::chat {

inline constexpr size_t kMaxParameters = 4;

/// One call of a builtin: what it is applied to, and its arguments by parameter.
struct BuiltinCall {
  Evaluator &evaluator;
  const Value &self;
  std::array<const Value *, kMaxParameters> arguments = {}; // Null: not given.
  const Arguments &given; // As they were written, for builtins that take any number.

  Allowance &allowance() const { return evaluator.allowance; }
  bool has(size_t parameter) const { return arguments[parameter] != nullptr; }
  /// Whether it is given and not None.
  bool isSet(size_t parameter) const { return has(parameter) && !arguments[parameter]->isNone(); }
  const Value &argument(size_t parameter) const { return *arguments[parameter]; }
  bool flag(size_t parameter) const { return has(parameter) && argument(parameter).isTrue(); }
  /// A number or a text that must have that type; `otherwise` if it is not set.
  Result<int64_t> integer(size_t parameter, int64_t otherwise) const;
  Result<std::string> text(size_t parameter, std::string_view otherwise = "") const;
};

struct Builtin {
  std::string_view name;
  Result<Value> (*apply)(const BuiltinCall &call);
  std::array<std::string_view, kMaxParameters> parameters = {};
  uint8_t required = 0;
  bool takesAny = false; // Any arguments; then there are no parameters.
};

/// Null if there is none by that name.
const Builtin *findBuiltin(std::span<const Builtin> table, std::string_view name);
const Builtin *findFilter(std::string_view name);
const Builtin *findTest(std::string_view name);
/// A global function.
const Builtin *findGlobal(std::string_view name);

/// The filters on texts, of which many are methods too.
std::span<const Builtin> textFilters();

/// The method of a value. Null if Python has no such attribute; an error if only this interpreter
/// does not have it.
Result<const Builtin *> findMethod(const Value &object, const std::string &name);

/// Calls it with its arguments in place. Fails if they do not fit its parameters.
Result<Value> callBuiltin(const Builtin &builtin, const Value &self, const Arguments &arguments,
                          Evaluator &evaluator);

/// A builtin as a value, such as `range` or `text.strip`.
class BoundBuiltin final : public Object {
public:
  BoundBuiltin(const Builtin &boundBuiltin, Value boundSelf)
      : builtin(boundBuiltin), self(std::move(boundSelf)) {}

  std::string typeName() const override { return "builtin_function_or_method"; }
  Result<Value> call(const Arguments &arguments, Evaluator &evaluator) override {
    return callBuiltin(builtin, self, arguments, evaluator);
  }

  uint32_t depth() const override { return self.depth() + 1; }

private:
  const Builtin &builtin;
  const Value self;
};

} // namespace moert::chat
