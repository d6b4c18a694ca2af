#include "runtime/base/StandardStreams.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace moert {

void occupyStandardStreams() {
  // Ascending, since open() takes the lowest free number.
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
        return;
}

} // namespace moert
