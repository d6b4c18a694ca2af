// Lines of input: from a terminal with editing, pasting and history (libedit), or from anything
// else.
#pragma once

#include "runtime/base/Status.h"

#include <memory>
#include <string>

namespace moert::cli {

enum class LineEnd {
  kLine,
  kInput,       // No more input; `text` has a last line without a line break, or nothing.
  kInterrupted, // A signal; what was typed is dropped.
};

struct InputLine {
  std::string text; // Without its line break. Pasted text may have others.
  LineEnd end = LineEnd::kLine;
};

/// Used by one thread.
class LineReader {
public:
  virtual ~LineReader() = default;
  /// Waits for a line. Someone who types at a terminal sees a prompt: that of a new message, or of
  /// one that `continues`.
  virtual Result<InputLine> read(bool continues) = 0;
  /// Offers a message to the arrow keys.
  virtual void addHistory(const std::string &) {}
  /// Whether someone types at a terminal.
  virtual bool isTerminal() const = 0;
};

/// The reader of standard input. At a terminal it loads libedit, and does without editing, pasting
/// and history if the system has none. historyPath: the file that keeps the history; empty: none.
std::unique_ptr<LineReader> makeLineReader(const std::string &historyPath);

/// The file in the user's folder for states of programs, which is made; empty if the environment
/// names none.
std::string defaultHistoryPath();

} // namespace moert::cli
