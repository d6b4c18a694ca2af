#include "tools/moec/Command.h"

#include <cerrno>
#include <unistd.h>

namespace moec::cli {

// 0, or errno.
static int writeAll(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return errno;
    text.remove_prefix(size_t(written));
  }
  return 0;
}

moert::Status writeOutput(std::string_view text) {
  int error = writeAll(STDOUT_FILENO, text);
  if (error != 0 && error != EPIPE)
    return moert::systemError(error, "writing to standard output");
  return {};
}

void printError(std::string_view message) {
  // Where standard error is closed there is nowhere to complain.
  (void)writeAll(STDERR_FILENO, moert::strCat(message, "\n"));
}

} // namespace moec::cli
