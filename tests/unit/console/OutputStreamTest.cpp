#include "tools/console/OutputStream.h"

#include <chrono>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>

using namespace moert;

TEST_CASE("a non-blocking pipe gets all of the output, however slowly it is read") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
  const std::string text(1 << 20, 'x'); // Sixteen times a pipe's capacity.
  std::string read;
  std::thread reader([&] {
    char block[65536];
    for (ssize_t count; (count = ::read(ends[0], block, sizeof block)) > 0;) {
      read.append(block, static_cast<size_t>(count));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const int standard = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  Status written = cli::writeOutput(text);
  ::dup2(standard, STDOUT_FILENO);
  ::close(standard);
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  CHECK(written.message() == "");
  CHECK(read == text);
}
