// The methods of Python's str.
#pragma once

#include "runtime/chat/Builtins.h"

#include <span>

namespace moert::chat {

std::span<const Builtin> textMethods();

} // namespace moert::chat
