// The methods of Python's str that cut a text into parts.
#pragma once

#include "runtime/chat/Builtins.h"

namespace moert::chat {

// split(sep=None, maxsplit=-1): at white space without sep.
Result<Value> splitText(const BuiltinCall &call);
Result<Value> splitTextFromEnd(const BuiltinCall &call);
// splitlines(keepends=False)
Result<Value> splitTextLines(const BuiltinCall &call);
// partition(sep): before, the separator, after.
Result<Value> partitionText(const BuiltinCall &call);
Result<Value> partitionTextFromEnd(const BuiltinCall &call);

} // namespace moert::chat
