// The escapes of string literals.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace moert::chat {

/// The characters of a literal, from the text between its quotes, which is valid UTF-8. Refuses
/// escapes by name (\N{...}) and of surrogates.
Result<std::string> unescapeString(std::string_view literal);

} // namespace moert::chat
