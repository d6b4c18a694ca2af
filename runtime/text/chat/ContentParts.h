// Contents of messages as lists of parts, {"type": "text", "text": ...}, for templates that take
// nothing else: they would lose a text.
#pragma once

#include "runtime/text/chat/ChatTemplate.h"

namespace moert {

/// Whether the template shows the text of a message only where it is such a list.
bool takesOnlyParts(const ChatTemplate &chatTemplate, const nlohmann::ordered_json &variables);

/// Makes texts such lists.
void splitIntoParts(nlohmann::ordered_json &messages);

} // namespace moert
