#include "tools/moert/chat/ChatScreen.h"

#include "runtime/base/Excerpt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/WrappedLines.h"

#include <clocale>
#include <cstdlib>
#include <unistd.h>

namespace moert::cli {

/// NO_COLOR is a convention of terminal programs: no escape sequences.
static bool takesEscapes() {
  const char *noColour = std::getenv("NO_COLOR");
  const char *terminal = std::getenv("TERM");
  return !(noColour && *noColour) && !(terminal && std::string_view(terminal) == "dumb");
}

ChatScreen::ChatScreen(ReasoningView view)
    : reasoningView(view), isTerminal(isOutputTerminal()), canDim(isTerminal && takesEscapes()) {
  // Characters are UTF-8, whatever the environment has: the model's text is.
  if (isTerminal)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

void ChatScreen::write(std::string_view text) {
  if (!failure.isOk())
    return;
  // A model's text may hold escape sequences, which a terminal would execute.
  failure = writeOutput(isTerminal ? answer.feed(printable(text), terminalColumns(STDOUT_FILENO))
                                   : std::string(text));
}

void ChatScreen::writeHeldBack() {
  if (failure.isOk() && isTerminal)
    failure = writeOutput(answer.flush(terminalColumns(STDOUT_FILENO)));
}

void ChatScreen::setDim(bool dim) {
  if (!canDim || isDim == dim)
    return;
  writeHeldBack();
  if (failure.isOk())
    failure = writeOutput(dim ? "\x1b[2m" : "\x1b[0m");
  isDim = dim;
}

void ChatScreen::show(AnswerPart part, std::string_view text) {
  if (part == AnswerPart::kReasoning) {
    if (reasoningView == ReasoningView::kHide)
      return;
    setDim(reasoningView == ReasoningView::kDim);
    hasReasoned = true;
  } else {
    setDim(false);
    if (hasReasoned)
      write("\n\n");
    hasReasoned = false;
  }
  hasText = true;
  write(text);
}

void ChatScreen::endAnswer() {
  writeHeldBack();
  setDim(false);
  if (hasText || !isTerminal) // A pipe receives an empty line for an empty answer.
    write("\n");
  answer.reset();
  hasReasoned = hasText = false;
}

void ChatScreen::notice(std::string_view text) {
  const std::string lines = printable(text);
  if (!isTerminal) {
    writeError(lines + "\n");
    return;
  }
  setDim(true);
  if (failure.isOk())
    failure = writeOutput(wrappedLines(lines, terminalColumns(STDOUT_FILENO)) + "\n");
  setDim(false);
}

} // namespace moert::cli
