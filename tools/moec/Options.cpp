#include "tools/moec/Options.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Size.h"

using namespace moert;

namespace moec::cli {

CLI::Validator oneOf(std::vector<std::string> words) {
  return CLI::IsMember(std::move(words)).description("");
}

CLI::Validator within(uint64_t low, uint64_t high) {
  const CLI::Range range(low, high);
  const std::string expected = strCat("expected a whole number from ", low, " to ", high);
  return CLI::Validator(
      [range, expected](std::string &text) {
        return range(text).empty() ? std::string() : strCat("'", excerpt(text), "', ", expected);
      },
      "");
}

CLI::Validator someSize() {
  return CLI::Validator(
      [](std::string &text) {
        auto size = parseSize(text);
        return size.isOk() ? std::string() : size.status().message();
      },
      "");
}

CLI::Validator someWord() {
  return CLI::Validator([](std::string &text) { return text.empty() ? "is empty" : std::string(); },
                        "");
}

} // namespace moec::cli
