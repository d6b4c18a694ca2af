// Python's attributes of texts, dictionaries and lists: which are methods here, which the sandbox
// forbids, and which this interpreter does not have.
#include "runtime/chat/Builtins.h"
#include "runtime/chat/TextMethods.h"

#include <algorithm>
#include <span>

namespace moert::chat {

namespace {

Result<Value> viewOf(const BuiltinCall &call, SequenceKind kind) {
  std::vector<Value> items;
  for (const auto &[name, value] : call.self.dict()->entries) {
    Value item = kind == SequenceKind::kKeys ? name : value;
    if (kind == SequenceKind::kItems) {
      MOERT_ASSIGN_OR_RETURN(item, call.allowance().sequence(SequenceKind::kTuple, {name, value}));
    }
    items.push_back(std::move(item));
  }
  return call.allowance().sequence(kind, std::move(items));
}

Result<Value> dictItems(const BuiltinCall &call) {
  return viewOf(call, SequenceKind::kItems);
}
Result<Value> dictKeys(const BuiltinCall &call) {
  return viewOf(call, SequenceKind::kKeys);
}
Result<Value> dictValues(const BuiltinCall &call) {
  return viewOf(call, SequenceKind::kValues);
}

// get(key, default=None)
Result<Value> dictGet(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string key, hashKey(call.argument(0), call.allowance()));
  if (const Value *value = call.self.dict()->find(key))
    return *value;
  return call.has(1) ? call.argument(1) : Value();
}

Result<Value> returnSelf(const BuiltinCall &call) {
  return call.self;
}

Result<Value> listCount(const BuiltinCall &call) {
  int64_t count = 0;
  for (const Value &item : call.self.sequence()->items) {
    MOERT_ASSIGN_OR_RETURN(const bool isSame, isEqual(item, call.argument(0), call.allowance()));
    count += isSame;
  }
  return Value(count);
}

Result<Value> listIndex(const BuiltinCall &call) {
  const std::vector<Value> &items = call.self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(const bool isSame,
                           isEqual(items[i], call.argument(0), call.allowance()));
    if (isSame)
      return Value(static_cast<int64_t>(i));
  }
  return invalidInput("index: the value is not in the list");
}

constexpr Builtin kDictMethods[] = {
    {"copy", returnSelf},   {"get", dictGet, {"key", "default"}, 1},
    {"items", dictItems},   {"keys", dictKeys},
    {"values", dictValues},
};
constexpr std::string_view kDictUnsafe[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kDictUnsupported[] = {"fromkeys"};

constexpr Builtin kListMethods[] = {
    {"copy", returnSelf},
    {"count", listCount, {"value"}, 1},
    {"index", listIndex, {"value"}, 1},
};
constexpr std::string_view kListUnsafe[] = {"append", "clear",  "extend",  "insert",
                                            "pop",    "remove", "reverse", "sort"};
constexpr Builtin kTupleMethods[] = {
    {"count", listCount, {"value"}, 1},
    {"index", listIndex, {"value"}, 1},
};

constexpr std::string_view kTextUnsupported[] = {
    "casefold",     "encode",      "expandtabs", "format",   "format_map",
    "isidentifier", "isprintable", "maketrans",  "swapcase", "translate"};
constexpr std::string_view kNumberUnsupported[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "real",      "to_bytes"};
constexpr std::string_view kRangeUnsupported[] = {"count", "index", "start", "step", "stop"};
constexpr std::string_view kViewUnsupported[] = {"isdisjoint", "mapping"};

/// What Python has of one type.
struct TypeEntry {
  std::span<const Builtin> methods = {};
  std::span<const std::string_view> unsafe = {};
  std::span<const std::string_view> unsupported = {};
};

TypeEntry typeEntry(const Value &object) {
  switch (object.kind()) {
  case Kind::kText:
    return {textMethods(), {}, kTextUnsupported};
  case Kind::kDict:
    return {kDictMethods, kDictUnsafe, kDictUnsupported};
  case Kind::kBoolean:
  case Kind::kInteger:
  case Kind::kFloat:
    return {{}, {}, kNumberUnsupported};
  case Kind::kSequence:
    switch (object.sequence()->kind) {
    case SequenceKind::kList:
      return {kListMethods, kListUnsafe, {}};
    case SequenceKind::kTuple:
      return {kTupleMethods, {}, {}};
    case SequenceKind::kRange:
      return {{}, {}, kRangeUnsupported};
    default:
      return {{}, {}, kViewUnsupported};
    }
  default:
    return {};
  }
}

} // namespace

MethodEntry findMethod(const Value &object, std::string_view name) {
  const TypeEntry type = typeEntry(object);
  MethodEntry entry;
  for (const Builtin &method : type.methods)
    if (method.name == name)
      entry.method = &method;
  auto has = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  entry.isUnsafe = has(type.unsafe);
  entry.isUnsupported = has(type.unsupported);
  return entry;
}

} // namespace moert::chat
