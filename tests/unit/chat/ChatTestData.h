// The files in tests/data/chat, and templates rendered at one moment, for the tests of this
// directory.
#pragma once

#include "runtime/text/chat/ChatTemplate.h"

#include <doctest/doctest.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace moert {

inline std::string readChatFile(const std::string &name) {
  std::ifstream file(std::string(MOE_TEST_DATA_DIR) + "/chat/" + name, std::ios::binary);
  REQUIRE(file.is_open());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline nlohmann::ordered_json readChatJson(const std::string &name) {
  return nlohmann::ordered_json::parse(readChatFile(name));
}

/// 4:05:06 on Tuesday, February 3, 2026: what make.py renders with.
inline std::tm testClock() {
  std::tm moment = {};
  moment.tm_year = 126;
  moment.tm_mon = 1;
  moment.tm_mday = 3;
  moment.tm_hour = 4;
  moment.tm_min = 5;
  moment.tm_sec = 6;
  moment.tm_wday = 2;
  moment.tm_yday = 33;
  return moment;
}

inline Result<std::string> renderText(const std::string &source,
                                      const nlohmann::ordered_json &context,
                                      const TemplateLimits &limits = {}) {
  Result<ChatTemplate> compiled = ChatTemplate::compile(source, "test");
  if (!compiled.isOk())
    return compiled.status();
  return compiled->render(context, limits, testClock);
}

} // namespace moert
