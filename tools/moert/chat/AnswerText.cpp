#include "tools/moert/chat/AnswerText.h"

#include <algorithm>

namespace moert::cli {

AnswerText::AnswerText(const Tokenizer &source, const AnswerFormat &format, std::string_view prompt,
                       Show shown)
    : tokenizer(source), decoder(source, true), markers(format.tokens(source, nullptr)),
      reader(format, prompt), show(std::move(shown)),
      keep([this](AnswerPart part, std::string_view text, const ToolCall *) { take(part, text); }) {
}

void AnswerText::take(AnswerPart part, std::string_view text) {
  if (part != AnswerPart::kAnswer && part != AnswerPart::kReasoning)
    return;
  (part == AnswerPart::kAnswer ? answerText : reasoningText) += text;
  show(part, text);
}

void AnswerText::feed(std::string_view text) {
  wholeText += text;
  reader.feed(text, keep);
}

void AnswerText::add(int32_t token) {
  if (!tokenizer.isSpecial(token)) {
    feed(decoder.feed(token));
    return;
  }
  // A special token ends the text that later tokens could have completed.
  feed(decoder.flush());
  const std::string_view content = tokenizer.contentOf(token);
  wholeText += content;
  if (std::find(markers.begin(), markers.end(), token) != markers.end())
    reader.feed(content, keep);
}

void AnswerText::finish() {
  feed(decoder.flush());
  reader.finish(keep);
}

} // namespace moert::cli
