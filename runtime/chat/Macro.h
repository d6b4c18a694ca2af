// A macro as a value.
#pragma once

#include "runtime/chat/Evaluator.h"
#include "runtime/chat/Object.h"

namespace moert::chat {

/// Refers to the template and to a captured scope; both outlive the rendering's values.
class Macro final : public Object {
public:
  Macro(const MacroDefinition &macroDefinition, Scope &scopeOfDefinition)
      : definition(macroDefinition), definedIn(scopeOfDefinition) {}

  std::string typeName() const override { return "Macro"; }
  Result<std::optional<Value>> attribute(std::string_view name) const override;
  bool isCallable() const override { return true; }
  Result<Value> call(const Arguments &arguments, Evaluator &evaluator) override {
    return evaluator.callMacro(definition, definedIn, arguments);
  }
  Status describe(TextBuilder &out) const override;

private:
  const MacroDefinition &definition;
  Scope &definedIn;
};

} // namespace moert::chat
