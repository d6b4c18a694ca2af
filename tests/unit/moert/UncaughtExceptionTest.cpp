#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Ending {
  std::string said; // Standard error.
  int signal = 0;
};

/// The output and the end of a process in which nothing catches what `function` throws.
Ending endingOf(const std::function<void()> &function) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    [&]() noexcept { function(); }();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  char buffer[256];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    ending.said.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  ending.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return ending;
}

} // namespace

TEST_CASE("an uncaught exception is reported before the program aborts") {
  const Ending ending = endingOf([] { throw std::runtime_error("the reason"); });
  CHECK(ending.said == "unexpected failure: the reason\n");
  CHECK(ending.signal == SIGABRT);
  CHECK(endingOf([] { throw std::bad_alloc(); }).said == "unexpected failure: std::bad_alloc\n");
}

TEST_CASE("a thrown value that is not a std::exception is reported too") {
  const Ending ending = endingOf([] { throw 3; });
  CHECK(ending.said == "unexpected failure of an unknown type\n");
  CHECK(ending.signal == SIGABRT);
}

TEST_CASE("a termination without an exception is reported") {
  const Ending ending = endingOf([] { std::terminate(); });
  CHECK(ending.said == "terminated without an exception\n");
  CHECK(ending.signal == SIGABRT);
}
