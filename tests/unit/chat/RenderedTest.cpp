// Templates in the manner of the families that checkpoints belong to, each with every conversation,
// against jinja2: tests/data/chat/make.py documents the version and the method.
#include "tests/unit/chat/ChatTestData.h"

using namespace moert;

namespace {

// The hash that make.py writes.
std::string fnv1a(const std::string &text) {
  uint64_t state = 0xCBF29CE484222325;
  for (char byte : text)
    state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  char shown[20];
  std::snprintf(shown, sizeof shown, "%016llx", static_cast<unsigned long long>(state));
  return shown;
}

} // namespace

TEST_CASE("conversations render as jinja2 renders them, and are refused where it refuses them") {
  const nlohmann::ordered_json conversations = readChatJson("conversations.json");
  const nlohmann::ordered_json rendered = readChatJson("rendered.json");
  size_t compared = 0;
  for (const auto &[family, cells] : rendered.items()) {
    const std::string source = readChatFile("templates/" + family + ".jinja");
    for (const auto &[name, expected] : cells.items()) {
      const std::string which = family + ", " + name;
      CAPTURE(which);
      const Result<std::string> text = renderText(source, conversations[name]);
      const std::string summary = expected;
      ++compared;
      if (summary.find("Error: ") != std::string::npos) {
        CHECK(!text.isOk());
        continue;
      }
      CHECK_MESSAGE(text.isOk(), text.status().message());
      if (!text.isOk())
        continue;
      CAPTURE(text.value());
      CHECK(std::to_string(text.value().size()) + " " + fnv1a(text.value()) == summary);
    }
  }
  CHECK(rendered.size() >= 16);
  CHECK(compared == rendered.size() * conversations.size());
}
