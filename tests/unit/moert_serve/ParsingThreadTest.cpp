// The thread that parses: what a function throws reaches its caller.
#include "tools/moert-serve/ParsingThread.h"

#include <doctest/doctest.h>
#include <new>

using moert::serve::ParsingThread;

TEST_CASE("a function that fails for lack of memory fails its caller, and the next one works") {
  ParsingThread thread;
  CHECK_THROWS_AS(thread.run([] { throw std::bad_alloc(); }), std::bad_alloc);
  bool isDone = false;
  thread.run([&] { isDone = true; });
  CHECK(isDone);
}
