#include "tools/moert/chat/HeldKeys.h"

#include <unistd.h>

namespace moert::cli {

/// A process in the background would be stopped where it changes the terminal.
static bool isInForeground() {
  return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

HeldKeys::HeldKeys() {
  termios now = {};
  if (!isInForeground() || ::tcgetattr(STDIN_FILENO, &now) != 0)
    return;
  before = now;
  // Without ICANON, keys are kept one by one, not as lines whose erasing would be shown.
  now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
}

HeldKeys::~HeldKeys() {
  if (before && isInForeground())
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before);
}

} // namespace moert::cli
