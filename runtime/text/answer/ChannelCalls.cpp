// Calls of gpt-oss: a message whose header has a recipient, before or after its channel.
//
//   <|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{...}<|call|>
//
// AnswerReader reads headers; the body that it passes on begins with the recipient's name.
#include "runtime/text/answer/CallForm.h"

namespace moert {

std::string_view recipientOf(std::string_view header) {
  if (!takeUntil(header, "to="))
    return {};
  take(header, "functions.");
  return header.substr(0, header.find_first_of(" <\t\n"));
}

static CallReading readChannel(std::string_view body, const ToolTypes &,
                               std::vector<ToolCall> &calls) {
  const std::optional<std::string_view> header = takeUntil(body, "<|message|>");
  // Without a body the answer was cut off: calls without arguments have {}.
  return header && !trimmed(body).empty() ? addCall(recipientOf(*header), body, calls)
                                          : CallReading::kNoCall;
}

const CallForm kChannelForm = {.name = "channels",
                               .signs = {"<|message|>"},
                               .marks = {{{"", "<|call|>", "<|end|>"}}},
                               .tokens = {"<|constrain|>"},
                               .writings = {{{.open = "<|channel|>commentary",
                                              .beforeName = " to=functions.",
                                              .afterName = " <|constrain|>json<|message|>"}}},
                               .read = readChannel};

} // namespace moert
