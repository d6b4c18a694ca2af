// Who a command works for: what it tells, and what may end it.
#pragma once

#include "compiler/session/Progress.h"

#include <atomic>
#include <functional>
#include <string_view>

namespace moec {

/// What every command needs from its surroundings.
struct Session {
  Progress *progress = nullptr;
  const std::atomic<bool> *stop = nullptr;
  /// A line for a person.
  std::function<void(std::string_view)> say;
};

} // namespace moec
