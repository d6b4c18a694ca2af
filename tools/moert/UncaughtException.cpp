// Handles an uncaught exception, such as memory that ran out: prints one line with the reason and
// aborts.
//
// It replaces libstdc++'s function of the same name, which the linker then leaves out together with
// its demangler: 45 KB that only make the exception's name more readable. std::set_terminate(), the
// documented way, would link both.
#include <cstdlib>
#include <exception>
#include <string_view>
#include <unistd.h>

static void say(std::string_view text) {
  // The process is about to end, so a failed write is ignored.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

namespace __gnu_cxx {

void __verbose_terminate_handler();

void __verbose_terminate_handler() {
  try {
    if (std::exception_ptr thrown = std::current_exception())
      std::rethrow_exception(thrown);
    say("terminated without an exception\n");
  } catch (const std::exception &error) {
    say("unexpected failure: ");
    say(error.what());
    say("\n");
  } catch (...) {
    say("unexpected failure of an unknown type\n");
  }
  std::abort();
}

} // namespace __gnu_cxx
