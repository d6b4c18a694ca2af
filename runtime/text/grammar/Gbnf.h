// Reads grammars in llama.cpp's notation: rules such as root ::= "a" [0-9]+ ("," word)?
//
// Literals, classes of characters, "." for any character, groups, alternatives and the quantifiers
// *, +, ?, {2}, {2,} and {2,5}. A rule ends with its line, except in a group, after "::=" and "|",
// and before "|". The text is of the rule "root".
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Grammar.h"

#include <string_view>

namespace moert {

/// The text is untrusted. Errors name the line and the column, or the rule.
Result<Grammar> grammarOfGbnf(std::string_view text);

} // namespace moert
