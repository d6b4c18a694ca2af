#include "runtime/base/OutputFile.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

/// Dirty pages that may pile up before they are written and dropped: enough for the disk to be
/// busy, little beside any budget.
constexpr uint64_t kUnflushedLimitBytes = 8 << 20;

/// Where the file is to stand in the end: behind a link, if there is one that leads somewhere.
static std::string resolvedPath(const std::string &path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) ? std::string(resolved) : path;
}

Status checkReplacesNone(const std::string &path, std::span<const std::string> inputs) {
  struct stat output, input;
  if (::stat(path.c_str(), &output) != 0)
    return {};
  for (const std::string &name : inputs)
    if (::stat(name.c_str(), &input) == 0 && input.st_dev == output.st_dev &&
        input.st_ino == output.st_ino)
      return invalidInput("output '", path, "' would replace '", name,
                          "', which is read; expected another name");
  return {};
}

Result<OutputFile> OutputFile::create(const std::string &path) {
  if (path.empty())
    return invalidInput("the name of the output file is empty");
  std::string place = resolvedPath(path);
  struct stat found;
  if (::stat(place.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    return invalidInput("'", path, "' is ", S_ISDIR(found.st_mode) ? "a directory" : "a device",
                        ", expected the name of a file to write");
  std::string partial = place + ".partial";
  int file = ::open(partial.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) {
    int error = errno;
    Status status = systemError(error, strCat("cannot create '", partial, "'"));
    bool isUsage = error == ENOENT || error == ENOTDIR || error == EACCES || error == EROFS;
    return isUsage ? invalidInput(status.message()) : status;
  }
  return OutputFile(file, std::move(place), std::move(partial));
}

OutputFile::OutputFile(int openFile, std::string finalPath, std::string temporaryPath)
    : file(openFile), path(std::move(finalPath)), partialPath(std::move(temporaryPath)) {}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : file(std::exchange(other.file, -1)), path(std::move(other.path)),
      partialPath(std::exchange(other.partialPath, {})), appendedBytes(other.appendedBytes),
      unflushedBytes(other.unflushedBytes) {}

OutputFile::~OutputFile() {
  if (!partialPath.empty())
    ::unlink(partialPath.c_str());
  if (file >= 0)
    ::close(file);
}

Status OutputFile::append(std::string_view text) {
  return append(std::as_bytes(std::span(text.data(), text.size())));
}

Status OutputFile::append(std::span<const std::byte> bytes) {
  MOERT_RETURN_IF_ERROR(writeAt(appendedBytes, bytes));
  appendedBytes += bytes.size();
  return {};
}

Status OutputFile::writeAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return systemError(written < 0 ? errno : ENOSPC, strCat("cannot write '", partialPath, "'"));
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
    unflushedBytes += static_cast<uint64_t>(written);
  }
  if (unflushedBytes < kUnflushedLimitBytes)
    return {};
  unflushedBytes = 0;
  if (::fdatasync(file) != 0)
    return systemError(errno, strCat("cannot write '", partialPath, "'"));
  // Only advice: a file system that ignores it is no error.
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Status OutputFile::commit() {
  if (::fsync(file) != 0)
    return systemError(errno, strCat("cannot write '", partialPath, "'"));
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  if (::rename(partialPath.c_str(), path.c_str()) != 0)
    return systemError(errno, strCat("cannot rename '", partialPath, "' to '", path, "'"));
  partialPath.clear();

  size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  int handle = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    // The file is complete and in its place; some file systems cannot flush a directory.
    (void)::fsync(handle);
    ::close(handle);
  }
  return {};
}

} // namespace moert
