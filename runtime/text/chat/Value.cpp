#include "runtime/text/chat/Value.h"

#include "runtime/text/chat/Object.h"
#include "runtime/text/chat/PythonText.h"

namespace moert::chat {

Value Value::undefined(std::string reason) {
  Value value;
  value.content = Undefined{std::make_shared<const std::string>(std::move(reason))};
  return value;
}

Value Value::ofText(std::string bytes) {
  const size_t length = characterCount(bytes);
  return Value(std::make_shared<const Text>(Text{std::move(bytes), length}));
}

int64_t Value::integer() const {
  return kind() == Kind::kBoolean ? int64_t(boolean()) : std::get<int64_t>(content);
}

double Value::number() const {
  return kind() == Kind::kFloat ? std::get<double>(content) : static_cast<double>(integer());
}

const std::string &Value::text() const {
  return textValue().bytes;
}

std::string Value::typeName() const {
  static constexpr const char *kSequenceNames[] = {"list", "tuple", "range", "dictionary view",
                                                   "generator"};
  switch (kind()) {
  case Kind::kUndefined:
    return "Undefined";
  case Kind::kNone:
    return "NoneType";
  case Kind::kBoolean:
    return "bool";
  case Kind::kInteger:
    return "int";
  case Kind::kFloat:
    return "float";
  case Kind::kText:
    return "str";
  case Kind::kSequence:
    return kSequenceNames[static_cast<size_t>(sequence()->kind)];
  case Kind::kDict:
    return "dict";
  case Kind::kObject:
    break;
  }
  return object()->typeName();
}

bool Value::isTrue() const {
  switch (kind()) {
  case Kind::kUndefined:
  case Kind::kNone:
    return false;
  case Kind::kBoolean:
  case Kind::kInteger:
    return integer() != 0;
  case Kind::kFloat:
    return number() != 0;
  case Kind::kText:
    return !text().empty();
  case Kind::kSequence: // A generator is true even if it yields nothing.
    return !sequence()->hasLength() || !sequence()->items.empty();
  case Kind::kDict:
    return !dict()->entries.empty();
  case Kind::kObject:
    break;
  }
  return true;
}

uint32_t Value::depth() const {
  return isSequence()              ? sequence()->depth
         : isDict()                ? dict()->depth
         : kind() == Kind::kObject ? object()->depth()
                                   : 0;
}

uint64_t Value::weight() const {
  constexpr uint64_t kBytesPerStep = 64; // Reading is cheaper than writing.
  return isText()       ? text().size() / kBytesPerStep
         : isSequence() ? sequence()->items.size() / 4
         : isDict()     ? dict()->entries.size() / 4
                        : 0;
}

const Value *Dict::find(const std::string &key) const {
  auto found = index.find(key);
  return found == index.end() ? nullptr : &entries[found->second].second;
}

const Value *Dict::findText(std::string_view name) const {
  return find(textKey(name));
}

void Dict::set(std::string key, Value name, Value value) {
  auto [place, isNew] = index.try_emplace(std::move(key), entries.size());
  if (isNew)
    entries.emplace_back(std::move(name), std::move(value));
  else
    entries[place->second].second = std::move(value);
}

std::string textKey(std::string_view name) {
  std::string key = "s";
  return key.append(name);
}

} // namespace moert::chat
