// The global functions of templates: range, dict, namespace, cycler, joiner, and transformers'
// raise_exception and strftime_now.
#include "runtime/base/Excerpt.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Printing.h"

#include <algorithm>

namespace moert::chat {

namespace {

uint64_t rangeLength(int64_t start, int64_t stop, int64_t step) {
  const bool isEmpty = step > 0 ? start >= stop : start <= stop;
  if (isEmpty)
    return 0;
  auto distance = [](int64_t from, int64_t to) {
    return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  };
  const uint64_t width = step > 0 ? distance(start, stop) : distance(stop, start);
  const uint64_t magnitude = step > 0 ? static_cast<uint64_t>(step) : distance(step, 0);
  return (width - 1) / magnitude + 1;
}

// range(stop), range(start, stop) or range(start, stop, step)
Result<Value> makeRange(const BuiltinCall &call) {
  constexpr uint64_t kMaxRange = 100000; // jinja2's sandbox refuses longer ones.
  MOERT_ASSIGN_OR_RETURN(int64_t start, call.integer(0, 0));
  MOERT_ASSIGN_OR_RETURN(int64_t stop, call.integer(1, 0));
  MOERT_ASSIGN_OR_RETURN(const int64_t step, call.integer(2, 1));
  if (!call.has(1)) {
    stop = start;
    start = 0;
  }
  if (step == 0)
    return invalidInput("range() arg 3 must not be zero");
  const uint64_t length = rangeLength(start, stop, step);
  if (length > kMaxRange)
    return invalidInput("Range too big. The sandbox blocks ranges larger than ", kMaxRange, ".");
  MOERT_RETURN_IF_ERROR(call.allowance().spend(1 + length));
  auto range = std::make_shared<Sequence>();
  range->kind = SequenceKind::kRange;
  std::copy_n(std::initializer_list<int64_t>{start, stop, step}.begin(), 3, range->bounds);
  for (uint64_t i = 0; i < length; ++i)
    range->items.emplace_back(
        static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step)));
  return Value(SequencePtr(std::move(range)));
}

Status addPair(const Value &pair, Dict &dict, Allowance &allowance) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr parts, iterate(pair, allowance));
  if (parts->items.size() != 2)
    return invalidInput("dictionary update sequence element has length ", parts->items.size(),
                        "; 2 is required");
  MOERT_ASSIGN_OR_RETURN(std::string key, hashKey(parts->items[0], allowance));
  dict.set(std::move(key), parts->items[0], parts->items[1]);
  return {};
}

/// dict(): a mapping or pairs, and named values.
Result<Dict> makeMembers(const BuiltinCall &call) {
  const Arguments &given = call.given;
  Dict members;
  if (given.positional.size() > 1)
    return invalidInput("dict expected at most 1 argument, got ", given.positional.size());
  if (!given.positional.empty() && given.positional[0].isDict()) {
    MOERT_RETURN_IF_ERROR(call.allowance().spend(4 * given.positional[0].dict()->entries.size()));
    members = *given.positional[0].dict();
  } else if (!given.positional.empty()) {
    MOERT_ASSIGN_OR_RETURN(const SequencePtr pairs, iterate(given.positional[0], call.allowance()));
    for (const Value &pair : pairs->items)
      MOERT_RETURN_IF_ERROR(addPair(pair, members, call.allowance()));
  }
  for (const auto &[name, value] : given.named)
    members.set(textKey(name), Value::ofText(name), value);
  return members;
}

Result<Value> makeDict(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(Dict members, makeMembers(call));
  return call.allowance().dict(std::move(members));
}

Result<Value> makeNamespace(const BuiltinCall &call) {
  auto space = std::make_shared<Namespace>();
  MOERT_ASSIGN_OR_RETURN(space->members, makeMembers(call));
  call.evaluator.keep(space);
  return call.allowance().object(space);
}

/// Its values in turn: next(), current, reset().
class Cycler final : public Object {
public:
  explicit Cycler(SequencePtr cycledItems) : items(std::move(cycledItems)) {}

  std::string typeName() const override { return "Cycler"; }
  uint32_t depth() const override { return items->depth + 1; }
  Result<std::optional<Value>> attribute(std::string_view name) const override;

  Value current() const { return items->items[position]; }
  Value next() {
    Value value = current();
    position = (position + 1) % items->items.size();
    return value;
  }
  void reset() { position = 0; }

private:
  const SequencePtr items;
  size_t position = 0;
};

/// A method of a cycler that it keeps alive.
class CyclerMethod final : public Object {
public:
  CyclerMethod(ObjectPtr ofCycler, bool isResetMethod)
      : cycler(std::move(ofCycler)), isReset(isResetMethod) {}

  std::string typeName() const override { return "method"; }
  uint32_t depth() const override { return cycler->depth() + 1; }
  bool isCallable() const override { return true; }
  Result<Value> call(const Arguments &, Evaluator &) override {
    auto &cycled = static_cast<Cycler &>(*cycler);
    if (!isReset)
      return cycled.next();
    cycled.reset();
    return Value();
  }

private:
  const ObjectPtr cycler;
  const bool isReset;
};

Result<std::optional<Value>> Cycler::attribute(std::string_view name) const {
  if (name == "current")
    return std::optional(current());
  if (name != "next" && name != "reset")
    return std::optional<Value>();
  auto self = std::const_pointer_cast<Object>(shared_from_this());
  return std::optional(Value(ObjectPtr(std::make_shared<CyclerMethod>(self, name == "reset"))));
}

Result<Value> makeCycler(const BuiltinCall &call) {
  if (call.given.positional.empty())
    return invalidInput("at least one item has to be provided");
  MOERT_ASSIGN_OR_RETURN(const Value items, call.allowance().list(call.given.positional));
  return call.allowance().object(std::make_shared<Cycler>(items.sequence()));
}

/// Nothing at its first call, and then its separator.
class Joiner final : public Object {
public:
  explicit Joiner(Value joiningSeparator) : separator(std::move(joiningSeparator)) {}

  std::string typeName() const override { return "Joiner"; }
  uint32_t depth() const override { return separator.depth() + 1; }
  bool isCallable() const override { return true; }
  Result<Value> call(const Arguments &, Evaluator &) override {
    return std::exchange(wasCalled, true) ? separator : Value::ofText("");
  }

private:
  const Value separator;
  bool wasCalled = false;
};

Result<Value> makeJoiner(const BuiltinCall &call) {
  return call.allowance().object(
      std::make_shared<Joiner>(call.has(0) ? call.argument(0) : Value::ofText(", ")));
}

Result<Value> raiseException(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value message, toText(call.argument(0), call.allowance()));
  return invalidInput("the template refuses the conversation: ", printable(message.text()));
}

/// The directive's letter of a format for strftime; an error if its result depends on more than
/// the local time.
Result<char> directiveLetter(std::string_view directive) {
  static constexpr std::string_view kFlags = "-_0^#";
  static constexpr std::string_view kLetters = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%";
  size_t at = 0;
  while (at < directive.size() && kFlags.find(directive[at]) != std::string_view::npos)
    ++at;
  if (at == directive.size() || kLetters.find(directive[at]) == std::string_view::npos)
    return invalidInput("strftime_now: the directive '%", excerpt(directive.substr(0, at + 1)),
                        "' is not supported");
  return directive[at];
}

Result<Value> formatNow(const BuiltinCall &call) {
  constexpr size_t kMaxFormat = 1024;
  MOERT_ASSIGN_OR_RETURN(const std::string format, call.text(0));
  if (format.size() > kMaxFormat)
    return invalidInput("strftime_now: found a format of ", format.size(),
                        " bytes, expected at most ", kMaxFormat);
  for (size_t at = format.find('%'); at != std::string::npos; at = format.find('%', at)) {
    MOERT_ASSIGN_OR_RETURN(const char letter,
                           directiveLetter(std::string_view(format).substr(at + 1)));
    at = format.find(letter, at + 1) + 1;
  }
  const std::tm now = call.evaluator.clock();
  // The mark tells an empty result from one that does not fit, which strftime does not.
  std::string shown(64 * kMaxFormat, '\0');
  shown.resize(std::strftime(shown.data(), shown.size(), (format + "|").c_str(), &now));
  if (shown.empty() || format.find('\0') != std::string::npos)
    return invalidInput("strftime_now: the format cannot be applied");
  shown.pop_back();
  return call.allowance().text(std::move(shown));
}

constexpr Builtin kGlobals[] = {
    {"range", makeRange, {"start", "stop", "step"}, 1},
    {"dict", makeDict, {}, 0, true},
    {"namespace", makeNamespace, {}, 0, true},
    {"cycler", makeCycler, {}, 0, true},
    {"joiner", makeJoiner, {"sep"}},
    {"raise_exception", raiseException, {"message"}, 1},
    {"strftime_now", formatNow, {"format"}, 1},
};

} // namespace

const Builtin *findGlobal(std::string_view name) {
  for (const Builtin &global : kGlobals)
    if (global.name == name)
      return &global;
  return nullptr;
}

} // namespace moert::chat
