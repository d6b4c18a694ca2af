#include "tools/moert/chat/AnswerText.h"

namespace moert::cli {

AnswerText::AnswerText(const Tokenizer &source, std::string_view prompt, ReasoningText::Emit shown)
    : tokenizer(source), decoder(source, true), parts(prompt), show(std::move(shown)),
      keep([this](AnswerPart part, std::string_view text) { take(part, text); }) {}

void AnswerText::take(AnswerPart part, std::string_view text) {
  (part == AnswerPart::kAnswer ? answerText : reasoningText) += text;
  show(part, text);
}

void AnswerText::feed(std::string_view text) {
  wholeText += text;
  parts.feed(text, keep);
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
  parts.feedSpecial(content, keep);
}

void AnswerText::finish() {
  feed(decoder.flush());
  parts.finish(keep);
}

} // namespace moert::cli
