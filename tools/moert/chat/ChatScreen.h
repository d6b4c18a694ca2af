// What a conversation writes: answers to standard output, wrapped at a terminal's width; notices
// there too if it is a terminal, and to standard error otherwise, so that a pipe receives the
// answers alone.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/answer/AnswerReader.h"
#include "tools/console/WordWrap.h"

#include <string>
#include <string_view>

namespace moert::cli {

enum class ReasoningView { kShow, kDim, kHide };

/// Used by one thread.
class ChatScreen {
public:
  explicit ChatScreen(ReasoningView view);

  /// Writes a part of an answer. An error is kept for status().
  void show(AnswerPart part, std::string_view text);
  /// Ends the answer's last line.
  void endAnswer();
  /// The first error of writing an answer.
  const Status &status() const { return failure; }

  /// A line or several for the person, wrapped at a terminal's width.
  void notice(std::string_view text);

private:
  void write(std::string_view text);
  void writeHeldBack();
  void setDim(bool dim);

  ReasoningView reasoningView;
  bool isTerminal, canDim;
  bool isDim = false;       // The terminal writes dimmed text now.
  bool hasReasoned = false; // Reasoning of this answer was shown, and nothing of the answer yet.
  bool hasText = false;     // Something of this answer was shown.
  WordWrap answer;          // At a terminal.
  Status failure;
};

} // namespace moert::cli
