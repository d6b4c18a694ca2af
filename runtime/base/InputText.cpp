#include "runtime/base/InputText.h"

#include "runtime/base/Size.h"
#include "runtime/base/Utf8.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <iomanip>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

namespace {

/// Closes the file that it opened; standard input stays open.
class InputFile {
public:
  explicit InputFile(const std::string &path)
      : isStandardInput(path == "-"),
        file(isStandardInput ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~InputFile() {
    if (!isStandardInput && file >= 0)
      ::close(file);
  }
  InputFile(const InputFile &) = delete;
  InputFile &operator=(const InputFile &) = delete;

  int descriptor() const { return file; }

private:
  bool isStandardInput;
  int file;
};

} // namespace

std::string inputName(const std::string &path) {
  return path == "-" ? "standard input" : strCat("'", path, "'");
}

Result<std::string> readInput(const std::string &path, uint64_t mostBytes) {
  const std::string name = inputName(path);
  InputFile file(path);
  if (file.descriptor() < 0)
    return openError(errno, strCat("cannot read ", name));

  std::string text;
  struct stat status;
  if (::fstat(file.descriptor(), &status) == 0 && S_ISREG(status.st_mode)) {
    if (static_cast<uint64_t>(status.st_size) > mostBytes)
      return invalidInput(name, " has ", status.st_size, " bytes, expected at most ",
                          formatBytes(mostBytes));
    text.reserve(static_cast<size_t>(status.st_size) + 1);
  }
  char block[65536];
  while (true) {
    ssize_t count = ::read(file.descriptor(), block, sizeof block);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return openError(errno, strCat("cannot read ", name));
    if (count == 0)
      break;
    text.append(block, static_cast<size_t>(count));
    if (text.size() > mostBytes)
      return invalidInput(name, " has more than ", mostBytes, " bytes, expected at most ",
                          formatBytes(mostBytes));
  }
  // In a container the page cache counts as this process's memory.
  (void)::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  return text;
}

Status checkUtf8(std::string_view text, std::string_view what) {
  for (size_t offset = 0; offset < text.size();) {
    Utf8Sequence sequence = nextUtf8(text.substr(offset));
    if (sequence.kind != Utf8Kind::kValid) {
      std::ostringstream byte;
      byte << "0x" << std::hex << std::setw(2) << std::setfill('0')
           << unsigned(static_cast<unsigned char>(text[offset]));
      return invalidInput(what, ": byte ", byte.str(), " at offset ", offset,
                          " is not UTF-8, expected UTF-8 text");
    }
    offset += sequence.length;
  }
  return {};
}

} // namespace moert
