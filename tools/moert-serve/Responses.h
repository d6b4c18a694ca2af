// OpenAI's newer API, /v1/responses, as a translation to and from chat calls. Responses are not
// stored: a conversation is sent whole, in "input".
#pragma once

#include "tools/moert-serve/ApiCall.h"

#include <cstdint>
#include <string>

namespace moert::serve {

/// Reads the body of /v1/responses, whose members are moved.
std::optional<ApiError> readResponseCall(Json body, const ServedModelInfo &info, ApiCall &call);

/// Writes one response from the chat's message or its deltas. Used by one thread.
class ResponseWriter {
public:
  /// echoed: members of the request, as ApiCall::response has them.
  ResponseWriter(const std::string &id, const std::string &model, int64_t created,
                 const Json &echoed);

  /// The response to a chat.completion.
  Json whole(const Json &completion);
  /// The events of a chat.completion.chunk; of the last one, which has the usage, with the end.
  std::string eventsOf(const Json &chunk);
  std::string eventsOf(const ApiError &error);

private:
  void take(const Json &message);
  void open(const char *type, Json item);
  void append(const char *type, const std::string &text);
  void appendArguments(const std::string &text);
  void close();
  void end(const Json &reason, const Json &usage);
  /// Adds an event about the open item.
  void addOfItem(const char *type, Json members);
  void add(const char *type, Json members);
  Json &item() { return response["output"].back(); }

  Json response;
  std::string events;
  const std::string id;
  Json finishReason;
  uint64_t eventCount = 0;
  bool isOpen = false; // The last item of the output.
};

} // namespace moert::serve
