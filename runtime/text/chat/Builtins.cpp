#include "runtime/text/chat/Builtins.h"

#include "runtime/base/Excerpt.h"

#include <algorithm>

namespace moert::chat {

Result<int64_t> BuiltinCall::integer(size_t parameter, int64_t otherwise) const {
  if (!isSet(parameter))
    return otherwise;
  MOERT_RETURN_IF_ERROR(requireDefined(argument(parameter)));
  if (!argument(parameter).isIntegral())
    return invalidInput("'", argument(parameter).typeName(),
                        "' object cannot be interpreted as an integer");
  return argument(parameter).integer();
}

Result<std::string> BuiltinCall::text(size_t parameter, std::string_view otherwise) const {
  if (!isSet(parameter))
    return std::string(otherwise);
  MOERT_RETURN_IF_ERROR(requireDefined(argument(parameter)));
  if (!argument(parameter).isText())
    return invalidInput("found a value of type ", argument(parameter).typeName(),
                        " as an argument, expected str");
  return argument(parameter).text();
}

namespace {

size_t parameterCount(const Builtin &builtin) {
  size_t count = 0;
  while (count < kMaxParameters && !builtin.parameters[count].empty())
    ++count;
  return count;
}

Status bind(const Builtin &builtin, const Arguments &arguments, BuiltinCall &call) {
  const size_t count = parameterCount(builtin);
  if (arguments.positional.size() > count)
    return invalidInput(builtin.name, ": found ", arguments.positional.size(),
                        " arguments, expected at most ", count);
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    call.arguments[i] = &arguments.positional[i];
  for (const auto &[name, value] : arguments.named) {
    const auto place = std::find(builtin.parameters.begin(),
                                 builtin.parameters.begin() + static_cast<ptrdiff_t>(count),
                                 std::string_view(name));
    const size_t parameter = static_cast<size_t>(place - builtin.parameters.begin());
    if (parameter == count)
      return invalidInput(builtin.name, ": unexpected argument '", excerpt(name), "'");
    if (call.arguments[parameter])
      return invalidInput(builtin.name, ": two values for the argument '", excerpt(name), "'");
    call.arguments[parameter] = &value;
  }
  for (size_t i = 0; i < builtin.required; ++i)
    if (!call.arguments[i])
      return invalidInput(builtin.name, ": the argument '", builtin.parameters[i], "' is missing");
  return {};
}

} // namespace

Result<Value> callBuiltin(const Builtin &builtin, const Value &self, const Arguments &arguments,
                          Evaluator &evaluator) {
  MOERT_RETURN_IF_ERROR(evaluator.allowance.spend(1 + self.weight()));
  BuiltinCall call{evaluator, self, {}, arguments};
  if (!builtin.takesAny)
    MOERT_RETURN_IF_ERROR(bind(builtin, arguments, call));
  return builtin.apply(call);
}

const Builtin *findBuiltin(std::span<const Builtin> table, std::string_view name) {
  for (const Builtin &builtin : table)
    if (builtin.name == name)
      return &builtin;
  return nullptr;
}

} // namespace moert::chat
