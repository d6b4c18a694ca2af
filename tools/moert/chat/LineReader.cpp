#include "tools/moert/chat/LineReader.h"

#include "tools/console/OutputStream.h"
#include "tools/moert/chat/ChatSignals.h"

#include <histedit.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace moert::cli {

namespace {

// Above any message that a context has room for; bounds the memory of hostile input.
constexpr size_t kMaxLineBytes = size_t(16) << 20;
// The history's memory is bounded by these: what is longer is not kept, nor what of a file that is
// larger.
constexpr int kHistoryLines = 500;
constexpr size_t kHistoryLineBytes = 4096;
constexpr off_t kHistoryFileBytes = off_t(4) << 20;

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
  decltype(&::el_wgetc) getCharacter;
  decltype(&::el_winsertstr) insert;
  decltype(&::el_reset) reset;
  decltype(&::el_resize) resize;
  decltype(&::history_init) historyInit;
  decltype(&::history_end) historyEnd;
  decltype(&::history) history;

  /// nullopt if the system has none.
  static const std::optional<EditLibrary> &loaded() {
    static const std::optional<EditLibrary> library = load();
    return library;
  }

private:
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
    find(loaded.getCharacter, "el_wgetc");
    find(loaded.insert, "el_winsertstr");
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
  EditingReader(const EditLibrary &loaded, std::string historyFile)
      : library(loaded), historyPath(std::move(historyFile)), takesPastes(isAnsiTerminal()),
        editor(library.init("moert", stdin, stdout, stderr)), past(library.historyInit()) {
    HistEvent event;
    library.history(past, &event, H_SETSIZE, kHistoryLines);
    library.history(past, &event, H_SETUNIQUE, 1);
    library.set(editor, EL_EDITOR, "emacs");
    library.set(editor, EL_SIGNAL, 0);
    library.set(editor, EL_HIST, library.history, past);
    library.set(editor, EL_ADDFN, "moert-paste", "insert what is pasted", &insertPaste);
    library.set(editor, EL_BIND, "\\e[200~", "moert-paste", nullptr);
    struct stat file;
    if (!historyPath.empty() && ::stat(historyPath.c_str(), &file) == 0 &&
        file.st_size <= kHistoryFileBytes)
      library.history(past, &event, H_LOAD, historyPath.c_str());
  }
  ~EditingReader() override {
    HistEvent event;
    if (!historyPath.empty())
      library.history(past, &event, H_SAVE, historyPath.c_str());
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
    setPasteMarks(true);
    const char *line = library.gets(editor, &count);
    const int error = errno;
    setPasteMarks(false);
    if (line && count > 0) {
      std::string text(line, static_cast<size_t>(count));
      if (text.ends_with('\n'))
        text.pop_back();
      return InputLine{std::move(text), LineEnd::kLine};
    }
    const bool isInterrupted = count < 0 && error == EINTR;
    library.reset(editor);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return InputLine{"", isInterrupted ? LineEnd::kInterrupted : LineEnd::kInput};
  }

  void addHistory(const std::string &message) override {
    HistEvent event;
    if (message.size() <= kHistoryLineBytes)
      library.history(past, &event, H_ENTER, message.c_str());
  }

  bool isTerminal() const override { return true; }

private:
  static bool isAnsiTerminal() {
    const char *terminal = std::getenv("TERM");
    return terminal && std::string_view(terminal) != "dumb";
  }

  /// Bracketed paste: the terminal marks the beginning and the end of what is pasted.
  void setPasteMarks(bool on) const {
    if (takesPastes)
      (void)writeOutput(on ? "\x1b[?2004h" : "\x1b[?2004l");
  }

  /// Inserts the text up to its end mark into the line, line breaks too. A break at its end is left
  /// out, so that the text can be looked at before it is sent.
  static unsigned char insertPaste(EditLine *editor, int) {
    constexpr std::wstring_view kEnd = L"\x1b[201~";
    const EditLibrary &library = *EditLibrary::loaded();
    std::wstring text;
    wchar_t character = 0;
    while (!text.ends_with(kEnd) && text.size() < kMaxLineBytes &&
           library.getCharacter(editor, &character) == 1)
      text += character == L'\r' ? L'\n' : character;
    if (text.ends_with(kEnd))
      text.resize(text.size() - kEnd.size());
    text.erase(text.find_last_not_of(L'\n') + 1);
    library.insert(editor, text.c_str());
    return CC_REFRESH;
  }

  // libedit takes prompts from functions without arguments of ours.
  static char *firstPrompt(EditLine *) {
    static char prompt[] = "> ";
    return prompt;
  }
  static char *nextPrompt(EditLine *) {
    static char prompt[] = ". ";
    return prompt;
  }

  const EditLibrary library;
  const std::string historyPath;
  const bool takesPastes;
  EditLine *editor;
  History *past;
};

} // namespace

std::string defaultHistoryPath() {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  std::string folder = state && *state ? state : home && *home ? strCat(home, "/.local/state") : "";
  if (!folder.starts_with('/'))
    return "";
  folder += "/moert";
  for (size_t end = 0; end < folder.size();) { // Makes those that are missing.
    end = std::min(folder.find('/', end + 1), folder.size());
    (void)::mkdir(folder.substr(0, end).c_str(), 0700);
  }
  return folder + "/chat-history";
}

std::unique_ptr<LineReader> makeLineReader(const std::string &historyPath) {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
    // Characters are those of the locale that ChatScreen has set.
    if (const std::optional<EditLibrary> &library = EditLibrary::loaded())
      return std::make_unique<EditingReader>(*library, historyPath);
  }
  return std::make_unique<PlainReader>();
}

} // namespace moert::cli
