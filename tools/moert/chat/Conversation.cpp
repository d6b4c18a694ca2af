#include "tools/moert/chat/Conversation.h"

#include <algorithm>

namespace moert::cli {

using Json = nlohmann::ordered_json;

void Conversation::setSystem(std::string text) {
  system = std::move(text);
}

void Conversation::addUser(std::string text) {
  messages.push_back({{"role", "user"}, {"content", std::move(text)}});
}

void Conversation::addAnswer(std::string text, std::string reasoning) {
  Json message = {{"role", "assistant"}, {"content", std::move(text)}};
  if (!reasoning.empty()) {
    message["thinking"] = reasoning; // As gpt-oss names it.
    message["reasoning_content"] = std::move(reasoning);
  }
  messages.push_back(std::move(message));
}

void Conversation::reset() {
  messages.clear();
}

static bool isUsers(const Json &message) {
  return message["role"] == "user";
}

size_t Conversation::turns() const {
  return static_cast<size_t>(std::count_if(messages.begin(), messages.end(), isUsers));
}

bool Conversation::dropOldestTurn() {
  if (messages.empty())
    return false;
  auto next = std::find_if(messages.begin() + 1, messages.end(), isUsers);
  if (next == messages.end())
    return false;
  messages.erase(messages.begin(), next);
  return true;
}

bool Conversation::removeAnswer() {
  const auto last = std::find_if(messages.rbegin(), messages.rend(), isUsers);
  messages.erase(last.base(), messages.end());
  return !messages.empty();
}

bool Conversation::removeLastTurn() {
  if (!removeAnswer())
    return false;
  messages.pop_back();
  return true;
}

static Json withSystem(const std::string &system, const std::vector<Json> &messages) {
  Json all = Json::array();
  if (!system.empty())
    all.push_back({{"role", "system"}, {"content", system}});
  for (const Json &message : messages)
    all.push_back(message);
  return all;
}

Result<std::string> Conversation::render(const TemplateLimits &limits) const {
  return chatTemplate.render(withSystem(system, messages), {}, limits);
}

std::string Conversation::asJson() const {
  const Json saved = {{"messages", withSystem(system, messages)}};
  return saved.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace moert::cli
