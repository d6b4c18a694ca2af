// The global functions of templates: range, namespace, and transformers' raise_exception and
// strftime_now.
#include "runtime/base/Excerpt.h"
#include "runtime/text/chat/Builtins.h"
#include "runtime/text/chat/Operators.h"

namespace moert::chat {

namespace {

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
  auto range = std::make_shared<Sequence>();
  range->kind = SequenceKind::kRange;
  bool overflows = false; // Then the numbers end.
  for (int64_t number = start; !overflows && (step > 0 ? number < stop : number > stop);
       overflows = __builtin_add_overflow(number, step, &number)) {
    if (range->items.size() == kMaxRange)
      return invalidInput("Range too big. The sandbox blocks ranges larger than ", kMaxRange, ".");
    MOERT_RETURN_IF_ERROR(call.allowance().spend(1));
    range->items.emplace_back(number);
  }
  return Value(SequencePtr(std::move(range)));
}

// namespace(name=value, ...)
Result<Value> makeNamespace(const BuiltinCall &call) {
  if (!call.given.positional.empty())
    return notSupported("namespace of a value without a name");
  auto space = std::make_shared<Namespace>();
  for (const auto &[name, value] : call.given.named)
    space->members.set(textKey(name), Value::ofText(name), value);
  call.evaluator.keep(space);
  return call.allowance().object(space);
}

Result<Value> raiseException(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value message, toText(call.argument(0), call.allowance()));
  return invalidInput("the template refuses the conversation: ", printable(message.text()));
}

/// Fails if the format has a directive whose result depends on more than the local time.
Status checkDirectives(std::string_view format) {
  static constexpr std::string_view kLetters = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%";
  for (size_t at = format.find('%'); at != std::string_view::npos; at = format.find('%', at)) {
    const std::string_view directive = format.substr(at + 1);
    const size_t flag = directive.starts_with('-'); // %-d: without the zero in front.
    if (directive.size() == flag || kLetters.find(directive[flag]) == std::string_view::npos)
      return notSupported("strftime_now: the directive '%", excerpt(directive.substr(0, flag + 1)),
                          "'");
    at += 2 + flag;
  }
  return {};
}

Result<Value> formatNow(const BuiltinCall &call) {
  constexpr size_t kMaxFormat = 1024;
  MOERT_ASSIGN_OR_RETURN(const std::string format, call.text(0));
  if (format.size() > kMaxFormat)
    return invalidInput("strftime_now: found a format of ", format.size(),
                        " bytes, expected at most ", kMaxFormat);
  MOERT_RETURN_IF_ERROR(checkDirectives(format));
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
    {"namespace", makeNamespace, {}, 0, true},
    {"raise_exception", raiseException, {"message"}, 1},
    {"strftime_now", formatNow, {"format"}, 1},
};

} // namespace

const Builtin *findGlobal(std::string_view name) {
  return findBuiltin(kGlobals, name);
}

} // namespace moert::chat
