// What becomes of an exception that nobody expected, such as memory that ran out: one line that
// says what it was, and an abort.
//
// It takes the place of the function of this name in libstdc++, which the linker then leaves out,
// and with it the demangler that it calls: 45 KB that print the same exception's name more
// prettily. The name is the one that libstdc++ documents for std::set_terminate(), which would link
// both.
#include <cstdlib>
#include <exception>
#include <string_view>
#include <unistd.h>

static void say(std::string_view text) {
  // The process is about to end: a line that cannot be written is lost.
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
