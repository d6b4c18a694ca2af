// Signals of a conversation: Ctrl-C ends the answer and not the program; a request to end
// (SIGTERM, a closed terminal) ends both.
#pragma once

#include <atomic>

namespace moert::cli {

/// Set by SIGINT, SIGTERM and SIGHUP; cleared by whoever has reacted. A second SIGINT changes
/// nothing.
struct ChatSignals {
  std::atomic<bool> &stopsAnswer;
  const std::atomic<bool> &endsProgram;
};

/// Installs the handlers; SIGHUP stays ignored where it is (nohup).
ChatSignals catchChatSignals();

/// While one exists, a signal interrupts a blocked read of input (EINTR). Otherwise reads are
/// restarted: the engine's must be.
class InterruptibleInput {
public:
  InterruptibleInput();
  ~InterruptibleInput();
  InterruptibleInput(const InterruptibleInput &) = delete;
  InterruptibleInput &operator=(const InterruptibleInput &) = delete;
};

} // namespace moert::cli
