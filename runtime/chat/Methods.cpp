// Python's attributes of texts, dictionaries and lists: which are methods here, and which this
// interpreter does not have or jinja2's sandbox forbids.
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Operators.h"

namespace moert::chat {

namespace {

Result<Value> viewOf(const BuiltinCall &call, bool hasKeys, bool hasValues) {
  std::vector<Value> items;
  for (const auto &[name, value] : call.self.dict()->entries) {
    Value item = hasKeys ? name : value;
    if (hasKeys && hasValues) {
      MOERT_ASSIGN_OR_RETURN(item, call.allowance().sequence(SequenceKind::kTuple, {name, value}));
    }
    items.push_back(std::move(item));
  }
  return call.allowance().sequence(SequenceKind::kView, std::move(items));
}

Result<Value> dictItems(const BuiltinCall &call) {
  return viewOf(call, true, true);
}
Result<Value> dictKeys(const BuiltinCall &call) {
  return viewOf(call, true, false);
}
Result<Value> dictValues(const BuiltinCall &call) {
  return viewOf(call, false, true);
}

// get(key, default=None)
Result<Value> dictGet(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string key, hashKey(call.argument(0), call.allowance()));
  if (const Value *value = call.self.dict()->find(key))
    return *value;
  return call.has(1) ? call.argument(1) : Value();
}

constexpr Builtin kDictMethods[] = {
    {"get", dictGet, {"key", "default"}, 1},
    {"items", dictItems},
    {"keys", dictKeys},
    {"values", dictValues},
};

// Other attributes of Python's types, each between spaces.
constexpr std::string_view kOtherOfDict = " clear copy fromkeys pop popitem setdefault update ";
constexpr std::string_view kOtherOfList =
    " append clear copy count extend index insert pop remove reverse sort ";
constexpr std::string_view kOtherOfTuple = " count index ";
constexpr std::string_view kOtherOfRange = " count index start step stop ";
constexpr std::string_view kOtherOfView = " isdisjoint mapping ";
constexpr std::string_view kOtherOfText =
    " casefold center encode expandtabs format format_map index isalnum isalpha isascii isdecimal "
    "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper ljust maketrans "
    "partition rfind rindex rjust rpartition swapcase translate zfill ";
constexpr std::string_view kOtherOfNumber =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag "
    "is_integer numerator real to_bytes ";

std::string_view otherAttributes(const Value &object) {
  static constexpr std::string_view kOfSequences[] = {kOtherOfList, kOtherOfTuple, kOtherOfRange,
                                                      kOtherOfView, ""};
  switch (object.kind()) {
  case Kind::kText:
    return kOtherOfText;
  case Kind::kDict:
    return kOtherOfDict;
  case Kind::kBoolean:
  case Kind::kInteger:
  case Kind::kFloat:
    return kOtherOfNumber;
  case Kind::kSequence:
    return kOfSequences[static_cast<size_t>(object.sequence()->kind)];
  default:
    return "";
  }
}

} // namespace

Result<const Builtin *> findMethod(const Value &object, const std::string &name) {
  const Builtin *method = object.isText()   ? findBuiltin(textMethods(), name)
                          : object.isDict() ? findBuiltin(kDictMethods, name)
                                            : nullptr;
  if (!method && otherAttributes(object).find(" " + name + " ") != std::string_view::npos)
    return notSupported("the attribute '", name, "' of type ", object.typeName());
  return method;
}

} // namespace moert::chat
