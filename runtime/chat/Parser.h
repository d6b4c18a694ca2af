// Parses the statements of a template.
#pragma once

#include "runtime/chat/Ast.h"

namespace moert::chat {

/// The source is valid UTF-8. Errors name the line.
Result<Body> parseTemplate(std::string_view source);

} // namespace moert::chat
