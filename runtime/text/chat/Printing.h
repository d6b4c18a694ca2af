// Values as text: Python's str() and repr(), and JSON as json.dumps() writes it.
#pragma once

#include "runtime/text/chat/Allowance.h"
#include "runtime/text/chat/Value.h"

namespace moert::chat {

/// Python's str().
Status appendText(const Value &value, TextBuilder &out);
/// Python's repr().
Status appendRepr(const Value &value, TextBuilder &out);

/// The shortest decimals that read back as the same number, as Python writes them.
std::string floatText(double number);

struct JsonStyle {
  bool isIndented = false;
  uint64_t indent = 0; // Spaces for one level.
  std::string itemSeparator = ", ";
  std::string keySeparator = ": ";
};
Status appendJson(const Value &value, const JsonStyle &style, TextBuilder &out);

} // namespace moert::chat
