#include "runtime/format/FieldCheck.h"

#include "runtime/base/Utf8.h"
#include "runtime/format/ValidateRules.h"

#include <cmath>

namespace moert {

// Long enough for any name, short enough for a message.
constexpr size_t kMaxStringBytes = 65536;

Status checkText(std::string_view text, std::string_view what) {
  if (text.size() > kMaxStringBytes)
    return invalidInput(what, " has ", text.size(), " bytes, expected at most ", kMaxStringBytes);
  if (!isPlainText(text))
    return invalidInput(what, " is not plain UTF-8 text without control characters");
  return {};
}

void FieldChecker::checkReal(std::string_view name, double value, const FieldRule &rule) {
  if (!status.isOk() || (std::isfinite(value) && value >= rule.least && value <= rule.most))
    return;
  if (!std::isfinite(value))
    status = invalidInput(name, " is ", value, ", expected a finite number");
  else if (std::isfinite(rule.most))
    status = invalidInput(name, " is ", value, ", expected ", rule.least, " to ", rule.most);
  else
    status = invalidInput(name, " is ", value, ", expected at least ", rule.least);
}

void FieldChecker::checkWhole(std::string_view name, uint64_t value, const FieldRule &rule) {
  if (std::isfinite(rule.most) && status.isOk())
    status = checkRange(name, value, uint64_t(rule.least), uint64_t(rule.most));
}

void FieldChecker::checkAllWhole(std::string_view name, const std::vector<uint32_t> &values,
                                 const FieldRule &rule) {
  for (uint32_t value : values)
    checkWhole(name, value, rule);
}

void FieldChecker::checkString(std::string_view name, const std::string &text) {
  if (status.isOk())
    status = checkText(text, name);
}

void FieldChecker::addContext(std::string_view name, std::optional<size_t> element) {
  status = std::move(status).withContext(element ? strCat(name, " ", *element) : std::string(name));
}

} // namespace moert
