// Keys that are typed while an answer is written.
#pragma once

#include <optional>
#include <termios.h>

namespace moert::cli {

/// While one exists, keys typed at the terminal are not shown; the next line that is read has them.
/// Keys of signals work. Without a terminal it does nothing. Used by one thread.
class HeldKeys {
public:
  HeldKeys();
  ~HeldKeys();
  HeldKeys(const HeldKeys &) = delete;
  HeldKeys &operator=(const HeldKeys &) = delete;

private:
  std::optional<termios> before;
};

} // namespace moert::cli
