#include "tools/moert/chat/LineReader.h"

#include "tools/console/OutputStream.h"
#include "tools/moert/chat/ChatSignals.h"

#include <histedit.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <dlfcn.h>
#include <optional>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace moert::cli {

namespace {

// Above any message that a context has room for; bounds the memory of hostile input.
constexpr size_t kMaxLineBytes = size_t(16) << 20;
constexpr int kHistoryLines = 1000;

/// Reads with the system's line editing, or from a pipe or file.
class PlainReader : public LineReader {
public:
  Result<InputLine> read(bool continues) override {
    if (isTerminal())
      writeError(continues ? ". " : "> ");
    const InterruptibleInput interruptible;
    while (true) {
      if (const size_t end = buffer.find('\n'); end != std::string::npos) {
        InputLine line{buffer.substr(0, end), LineEnd::kLine};
        buffer.erase(0, end + 1);
        return line;
      }
      if (buffer.size() > kMaxLineBytes)
        return invalidInput("standard input: a line of more than ", kMaxLineBytes,
                            " bytes, expected a message");
      std::array<char, 65536> bytes;
      const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) {
        if (isTerminal())
          buffer.clear();
        return InputLine{"", LineEnd::kInterrupted};
      }
      if (count < 0)
        return systemError(errno, "cannot read standard input");
      if (count == 0)
        return InputLine{std::exchange(buffer, {}), LineEnd::kInput};
      buffer.append(bytes.data(), static_cast<size_t>(count));
    }
  }

  bool isTerminal() const override { return ::isatty(STDIN_FILENO) == 1; }

private:
  std::string buffer; // Read, but not yet returned.
};

/// libedit's functions. Loaded when they are needed: a program that is copied to a device must
/// start there without the library.
struct EditLibrary {
  decltype(&::el_init) init;
  decltype(&::el_end) end;
  decltype(&::el_set) set;
  decltype(&::el_gets) gets;
  decltype(&::el_reset) reset;
  decltype(&::el_resize) resize;
  decltype(&::history_init) historyInit;
  decltype(&::history_end) historyEnd;
  decltype(&::history) history;

  static std::optional<EditLibrary> load() {
    void *library = ::dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return std::nullopt;
    EditLibrary loaded = {};
    bool isComplete = true;
    auto find = [&](auto &function, const char *name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      isComplete = isComplete && function;
    };
    find(loaded.init, "el_init");
    find(loaded.end, "el_end");
    find(loaded.set, "el_set");
    find(loaded.gets, "el_gets");
    find(loaded.reset, "el_reset");
    find(loaded.resize, "el_resize");
    find(loaded.historyInit, "history_init");
    find(loaded.historyEnd, "history_end");
    find(loaded.history, "history");
    return isComplete ? std::optional(loaded) : std::nullopt;
  }
};

/// A terminal with libedit.
class EditingReader : public LineReader {
public:
  explicit EditingReader(const EditLibrary &loaded)
      : library(loaded), editor(library.init("moert", stdin, stdout, stderr)),
        past(library.historyInit()) {
    HistEvent event;
    library.history(past, &event, H_SETSIZE, kHistoryLines);
    library.history(past, &event, H_SETUNIQUE, 1);
    library.set(editor, EL_EDITOR, "emacs");
    library.set(editor, EL_SIGNAL, 0);
    library.set(editor, EL_HIST, library.history, past);
  }
  ~EditingReader() override {
    library.historyEnd(past);
    library.end(editor);
  }
  EditingReader(const EditingReader &) = delete;
  EditingReader &operator=(const EditingReader &) = delete;

  Result<InputLine> read(bool continues) override {
    library.set(editor, EL_PROMPT, continues ? &nextPrompt : &firstPrompt);
    const InterruptibleInput interruptible;
    library.resize(editor); // The window may have another size since the last line.
    // el_gets would prepare the terminal after the prompt, and lose a Ctrl-D typed between them.
    library.set(editor, EL_PREP_TERM, 1);
    int count = 0;
    errno = 0;
    const char *line = library.gets(editor, &count);
    if (line && count > 0) {
      std::string text(line, static_cast<size_t>(count));
      if (text.ends_with('\n'))
        text.pop_back();
      return InputLine{std::move(text), LineEnd::kLine};
    }
    const bool isInterrupted = count < 0 && errno == EINTR;
    library.reset(editor);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return InputLine{"", isInterrupted ? LineEnd::kInterrupted : LineEnd::kInput};
  }

  void addHistory(const std::string &message) override {
    HistEvent event;
    library.history(past, &event, H_ENTER, message.c_str());
  }

  bool isTerminal() const override { return true; }

private:
  // libedit takes prompts from functions without arguments of ours.
  static char *firstPrompt(EditLine *) {
    static char prompt[] = "> ";
    return prompt;
  }
  static char *nextPrompt(EditLine *) {
    static char prompt[] = ". ";
    return prompt;
  }

  EditLibrary library;
  EditLine *editor;
  History *past;
};

} // namespace

std::unique_ptr<LineReader> makeLineReader() {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
    // Characters are UTF-8, whatever the environment has: the model's text is.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    if (std::optional<EditLibrary> library = EditLibrary::load())
      return std::make_unique<EditingReader>(*library);
  }
  return std::make_unique<PlainReader>();
}

} // namespace moert::cli
