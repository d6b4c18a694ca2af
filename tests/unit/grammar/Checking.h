// Checks which texts the grammar of a schema takes, and which keywords it does not keep.
#pragma once

#include "runtime/text/grammar/JsonSchema.h"
#include "tests/unit/grammar/Matching.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moert::test {

using Json = nlohmann::ordered_json;

inline void check(const char *schema, const std::vector<const char *> &fitting,
                  const std::vector<const char *> &others,
                  const std::vector<std::string> &unenforced = {}) {
  CAPTURE(schema);
  auto made = grammarOfSchema(Json::parse(schema));
  REQUIRE_MESSAGE(made.isOk(), made.status().message());
  CHECK(made->unenforced == unenforced);
  for (const char *text : fitting) {
    CAPTURE(text);
    CHECK(matches(made->grammar, text));
    CHECK(Json::accept(text));
  }
  for (const char *text : others) {
    CAPTURE(text);
    CHECK_FALSE(matches(made->grammar, text));
  }
}

inline std::string refusalOf(const char *schema) {
  return grammarOfSchema(Json::parse(schema)).status().message();
}

} // namespace moert::test
