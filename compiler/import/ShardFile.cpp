#include "compiler/import/ShardFile.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/Safetensors.h"
#include "runtime/base/ArtifactPath.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;

Result<ShardFile> ShardFile::openWithoutHeader(const std::string &path) {
  // Do not block if the path is a pipe without a writer.
  ShardFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0)
    return openError(path, errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0)
    return moert::systemError(errno, path + ": cannot stat");
  if (!S_ISREG(info.st_mode))
    return invalidInput(path, ": found no regular file, expected a file of weights");
  file.size = static_cast<uint64_t>(info.st_size);
  return file;
}

Result<ShardFile> ShardFile::open(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(ShardFile file, openWithoutHeader(path));
  const uint64_t size = file.size;
  std::array<std::byte, 64> first{};
  const size_t available = static_cast<size_t>(std::min<uint64_t>(size, first.size()));
  MOERT_RETURN_IF_ERROR(file.read(0, std::span(first).first(available)));
  const std::string_view firstBytes(reinterpret_cast<const char *>(first.data()), available);
  if (const std::string found = moert::foreignFileText(firstBytes); !found.empty())
    return invalidInput(path, ": ", found);
  MOERT_ASSIGN_OR_RETURN(const uint64_t length,
                         safetensorsHeaderLength(path, firstBytes.substr(0, 8), size));
  std::string text(length, '\0');
  MOERT_RETURN_IF_ERROR(file.read(8, std::as_writable_bytes(std::span(text))));
  MOERT_ASSIGN_OR_RETURN(file.checkedHeader, parseSafetensorsHeader(path, text, size));
  return file;
}

ShardFile::ShardFile(ShardFile &&other) noexcept
    : filePath(std::move(other.filePath)), fd(std::exchange(other.fd, -1)), size(other.size),
      checkedHeader(std::move(other.checkedHeader)) {}

ShardFile &ShardFile::operator=(ShardFile &&other) noexcept {
  std::swap(filePath, other.filePath);
  std::swap(fd, other.fd);
  std::swap(size, other.size);
  std::swap(checkedHeader, other.checkedHeader);
  return *this;
}

ShardFile::~ShardFile() {
  if (fd >= 0)
    ::close(fd);
}

Status ShardFile::read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return moert::systemError(errno, filePath + ": cannot read");
    if (count == 0)
      return moert::failed(filePath, ": found the end of the file at byte ", offset, ", expected ",
                           out.size(), " more bytes; was it changed meanwhile?");
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
  return Status();
}

void ShardFile::dropCache() const {
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

} // namespace moec
