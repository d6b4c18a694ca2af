#include "runtime/chat/Object.h"

#include "runtime/chat/Macro.h"
#include "runtime/chat/Printing.h"

namespace moert::chat {

Result<Value> Object::call(const Arguments &, Evaluator &) {
  return invalidInput("'", typeName(), "' object is not callable");
}

Status Object::describe(TextBuilder &) const {
  return invalidInput("a value of type ", typeName(), " cannot be printed");
}

Result<std::optional<Value>> Namespace::attribute(std::string_view name) const {
  const Value *value = members.findText(name);
  return value ? std::optional(*value) : std::nullopt;
}

Status Namespace::describe(TextBuilder &out) const {
  MOERT_RETURN_IF_ERROR(out.append("<Namespace "));
  // A copy on purpose: printing takes a value, and the namespace's members are not shared.
  MOERT_RETURN_IF_ERROR(out.allowance.spend(4 * members.entries.size()));
  MOERT_RETURN_IF_ERROR(appendRepr(Value(std::make_shared<const Dict>(members)), out));
  return out.append(">");
}

Result<std::optional<Value>> Macro::attribute(std::string_view name) const {
  return name == "name" ? std::optional(Value::ofText(definition.name)) : std::nullopt;
}

Status Macro::describe(TextBuilder &out) const {
  MOERT_RETURN_IF_ERROR(out.append("<Macro "));
  MOERT_RETURN_IF_ERROR(appendRepr(Value::ofText(definition.name), out));
  return out.append(">");
}

} // namespace moert::chat
