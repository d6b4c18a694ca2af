#include "tools/moert/chat/HeldKeys.h"

#include <unistd.h>

namespace moert::cli {

HeldKeys::HeldKeys() {
  termios now = {};
  if (::tcgetattr(STDIN_FILENO, &now) != 0)
    return;
  before = now;
  // Without ICANON, keys are kept one by one, not as lines whose erasing would be shown.
  now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
}

HeldKeys::~HeldKeys() {
  if (before)
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before);
}

} // namespace moert::cli
