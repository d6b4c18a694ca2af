#include "tools/moert-serve/SchemaFields.h"

#include <utility>

namespace moert::serve {

std::optional<Grammar> readGrammarOf(Result<SchemaGrammar> made, bool isStrict,
                                     const std::string &what, Fields &fields, const char *parameter,
                                     ApiCall &call) {
  std::string fault = made.status().message();
  if (made.isOk() && isStrict && !made->unenforced.empty())
    fault = made->unenforced.front() + " is not enforced, and the schema is strict";
  if (fault.empty()) {
    call.unenforced.insert(call.unenforced.end(), made->unenforced.begin(), made->unenforced.end());
    return std::move(made->grammar);
  }
  fields.fail(invalidField(strCat("Invalid schema for ", what, fault, "."), parameter));
  return {};
}

} // namespace moert::serve
