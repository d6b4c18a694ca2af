// A command's environment: where it reports to, and what interrupts it.
#pragma once

#include "compiler/session/Progress.h"

#include <atomic>
#include <functional>
#include <string_view>

namespace moec {

/// Passed to every command.
struct Session {
  Progress *progress = nullptr;
  const std::atomic<bool> *stop = nullptr;
  /// Prints one line for the user; may be empty.
  std::function<void(std::string_view)> say;
};

inline void sayTo(const Session &session, std::string_view line) {
  if (session.say)
    session.say(line);
}

} // namespace moec
