#include "runtime/base/RandomFile.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace moert {

Result<RandomFile> RandomFile::open(std::string path, int flags) {
  int file = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (file < 0)
    return systemError(errno, strCat("opening ", path));
  return RandomFile(file, std::move(path));
}

RandomFile::RandomFile(RandomFile &&other) noexcept
    : file(std::exchange(other.file, -1)), path(std::move(other.path)) {}

RandomFile::~RandomFile() {
  if (file >= 0)
    ::close(file);
}

Status RandomFile::writeAt(uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("writing ", path));
    offset += uint64_t(count);
    bytes = bytes.subspan(size_t(count));
  }
  return {};
}

Status RandomFile::readAt(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    ssize_t count = ::pread(file, bytes.data(), bytes.size(), off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("reading ", path));
    if (count == 0)
      return failed(path, " ends at ", offset, ", expected ", bytes.size(), " bytes more");
    offset += uint64_t(count);
    bytes = bytes.subspan(size_t(count));
  }
  return {};
}

} // namespace moert
