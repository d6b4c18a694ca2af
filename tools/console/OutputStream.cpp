#include "tools/console/OutputStream.h"

#include "runtime/base/Excerpt.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace moert::cli {

static constexpr std::string_view kClosedMessage = "standard output was closed";

// A shell's exit code for a program that SIGPIPE ended.
static constexpr int kClosedOutputExitCode = 141;

/// Returns 0 or errno. Handles EAGAIN: another process may have made a shared terminal or pipe
/// non-blocking.
static int writeAll(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd room{file, POLLOUT, 0};
      (void)::poll(&room, 1, -1);
      continue;
    }
    if (written < 0)
      return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

Status writeOutput(std::string_view text) {
  int error = writeAll(STDOUT_FILENO, text);
  if (error == EPIPE)
    return failed(kClosedMessage);
  if (error != 0)
    return systemError(error, "cannot write standard output");
  return {};
}

bool isOutputTerminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

size_t outputWidth() {
  constexpr size_t kDefaultWidth = 80, kLeastWidth = 40, kMostWidth = 100;
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kDefaultWidth;
  return std::clamp<size_t>(size.ws_col, kLeastWidth, kMostWidth);
}

bool isErrorTerminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

void writeError(std::string_view text) {
  (void)writeAll(STDERR_FILENO, text);
}

void printError(std::string_view message) {
  writeError(printable(message) + "\n");
}

bool isClosedOutput(const Status &status) {
  return status.code() == StatusCode::kFailed && status.message() == kClosedMessage;
}

int endProgram(std::string_view program, const Status &status) {
  if (isClosedOutput(status))
    return kClosedOutputExitCode;
  if (!status.isOk())
    printError(strCat(program, ": ", status.message()));
  return exitCode(status);
}

} // namespace moert::cli
