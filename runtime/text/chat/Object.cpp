#include "runtime/text/chat/Object.h"

#include "runtime/base/Excerpt.h"
#include "runtime/text/chat/Evaluator.h"

namespace moert::chat {

using Found = std::optional<Value>;

static Status unsupportedAttribute(const Object &object, const std::string &name) {
  return notSupported("the attribute '", excerpt(name), "' of type ", object.typeName());
}

Result<Value> Object::call(const Arguments &, Evaluator &) {
  return invalidInput("'", typeName(), "' object is not callable");
}

Result<Found> Namespace::attribute(const std::string &name) const {
  const Value *value = members.findText(name);
  return value ? Found(*value) : Found();
}

Result<Found> Loop::attribute(const std::string &name) const {
  const size_t length = items->items.size();
  const std::pair<const char *, size_t> numbers[] = {
      {"index", index + 1},         {"index0", index},
      {"revindex", length - index}, {"revindex0", length - index - 1},
      {"length", length},
  };
  for (const auto &[known, number] : numbers)
    if (name == known)
      return Found(Value(static_cast<int64_t>(number)));
  if (name == "first")
    return Found(Value(index == 0));
  if (name == "last")
    return Found(Value(index + 1 == length));
  if (name == "previtem")
    return Found(index == 0 ? Value::undefined("there is no previous item")
                            : items->items[index - 1]);
  if (name == "nextitem")
    return Found(index + 1 == length ? Value::undefined("there is no next item")
                                     : items->items[index + 1]);
  if (name == "cycle" || name == "changed" || name == "depth" || name == "depth0")
    return unsupportedAttribute(*this, name);
  return Found();
}

Result<Found> Macro::attribute(const std::string &name) const {
  return unsupportedAttribute(*this, name);
}

Result<Value> Macro::call(const Arguments &arguments, Evaluator &evaluator) {
  return evaluator.callMacro(definition, arguments);
}

} // namespace moert::chat
