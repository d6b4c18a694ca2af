#include "tools/console/Interrupt.h"

#include <csignal>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace moert::cli;

/// Exit status of a process that catches signals and is sent two, `apart` microseconds apart.
static int statusAfterTwo(int first, int second, useconds_t apart) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::atomic<bool> &stop = catchInterrupts();
    std::raise(first);
    ::usleep(apart);
    std::raise(second);
    ::_exit(stop ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("a signal that is both sent and forwarded counts once") {
  CHECK(statusAfterTwo(SIGINT, SIGINT, 0) == 0);
  CHECK(statusAfterTwo(SIGTERM, SIGINT, 0) == 0);
}

TEST_CASE("the second signal kills") {
  const int status = statusAfterTwo(SIGINT, SIGTERM, 700'000);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("a second SIGHUP does not kill") {
  CHECK(statusAfterTwo(SIGHUP, SIGHUP, 700'000) == 0);
}
