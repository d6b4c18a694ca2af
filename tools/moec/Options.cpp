#include "tools/moec/Options.h"

#include "runtime/base/Size.h"

using namespace moert;

namespace moec::cli {

CLI::Validator oneOf(std::vector<std::string> words) {
  return CLI::IsMember(std::move(words)).description("");
}

CLI::Validator within(uint64_t low, uint64_t high) {
  return CLI::Range(low, high).description("");
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
