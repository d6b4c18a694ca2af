#include "compiler/emit/PartialFile.h"

#include "runtime/base/Size.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace moert;

namespace moec {

// Large enough that a disk runs at full speed, small beside a container's memory: at most three of
// them are in the page cache.
constexpr uint64_t kBufferBytes = uint64_t(8) << 20;

static std::string directoryOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

PartialFile::PartialFile(int openFile, std::string path)
    : file(openFile), outputPath(std::move(path)) {
  buffer.reserve(kBufferBytes);
}

PartialFile::PartialFile(PartialFile &&other) noexcept
    : file(std::exchange(other.file, -1)), outputPath(std::move(other.outputPath)),
      isRemovedAtEnd(other.isRemovedAtEnd), buffer(std::move(other.buffer)),
      writtenBytes(other.writtenBytes), flushedBytes(other.flushedBytes),
      droppedBytes(other.droppedBytes) {}

PartialFile::~PartialFile() {
  if (file < 0)
    return;
  if (isRemovedAtEnd)
    ::unlink(partialPathOf(outputPath).c_str());
  ::close(file);
}

Result<PartialFile> PartialFile::open(const std::string &outputPath, int flags) {
  std::error_code ignored;
  if (outputPath.empty() || std::filesystem::is_directory(outputPath, ignored))
    return invalidInput("output '", outputPath, "' is a directory, expected the name of a file");
  if (std::filesystem::exists(outputPath, ignored) &&
      !std::filesystem::is_regular_file(outputPath, ignored))
    return invalidInput("output ", outputPath, " is not a regular file");
  if (!std::filesystem::is_directory(directoryOf(outputPath), ignored))
    return invalidInput("output ", outputPath, ": there is no directory ", directoryOf(outputPath));
  std::string partial = partialPathOf(outputPath);
  int descriptor = ::open(partial.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (descriptor < 0 && errno == ENOENT)
    return invalidInput(partial, " is gone, its journal is still there; start without --resume");
  if (descriptor < 0)
    return systemError(errno, strCat("creating ", partial));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return invalidInput(partial, " is being written by another process");
  }
  return PartialFile(descriptor, outputPath);
}

// Better now than after an hour.
static Status checkSpace(const std::string &outputPath, uint64_t bytes) {
  struct statvfs space;
  if (::statvfs(directoryOf(outputPath).c_str(), &space) != 0)
    return {};
  uint64_t available = uint64_t(space.f_bavail) * space.f_frsize;
  if (available < bytes)
    return failed("output ", outputPath, ": ", formatBytes(bytes), " needed, ",
                  formatBytes(available), " free on the disk");
  return {};
}

Result<PartialFile> PartialFile::create(const std::string &outputPath, uint64_t expectedBytes) {
  MOERT_ASSIGN_OR_RETURN(PartialFile partial, open(outputPath, O_CREAT));
  if (::ftruncate(partial.file, 0) != 0)
    return systemError(errno, strCat("emptying ", partialPathOf(outputPath)));
  MOERT_RETURN_IF_ERROR(checkSpace(outputPath, expectedBytes));
  return partial;
}

Result<PartialFile> PartialFile::resume(const std::string &outputPath, uint64_t bytes,
                                        uint64_t expectedBytes) {
  MOERT_ASSIGN_OR_RETURN(PartialFile partial, open(outputPath, 0));
  // From here on a refusal must not cost the user what there is to resume.
  partial.isRemovedAtEnd = false;
  struct stat status;
  if (::fstat(partial.file, &status) != 0)
    return systemError(errno, partialPathOf(outputPath));
  if (uint64_t(status.st_size) < bytes)
    return invalidInput(partialPathOf(outputPath), " has ", uint64_t(status.st_size),
                        " bytes, its journal speaks of ", bytes, "; start without --resume");
  MOERT_RETURN_IF_ERROR(checkSpace(outputPath, expectedBytes - std::min(expectedBytes, bytes)));
  if (::ftruncate(partial.file, off_t(bytes)) != 0)
    return systemError(errno, strCat("cutting ", partialPathOf(outputPath)));
  partial.writtenBytes = partial.flushedBytes = partial.droppedBytes = bytes;
  partial.isRemovedAtEnd = true;
  return partial;
}

static Status writeAll(int file, uint64_t offset, std::span<const std::byte> bytes,
                       const std::string &outputPath) {
  while (!bytes.empty()) {
    ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("writing ", PartialFile::partialPathOf(outputPath)));
    offset += uint64_t(count);
    bytes = bytes.subspan(size_t(count));
  }
  return {};
}

// The buffer before the last one is waited for, so that writing runs ahead of the disk by a bounded
// amount; then its pages, clean by now, can go.
void PartialFile::dropFromCache(bool all) {
  uint64_t start = flushedBytes;
  flushedBytes = writtenBytes;
  ::sync_file_range(file, off_t(start), off_t(flushedBytes - start), SYNC_FILE_RANGE_WRITE);
  uint64_t end = all ? flushedBytes : start;
  if (end <= droppedBytes)
    return;
  ::sync_file_range(file, off_t(droppedBytes), off_t(end - droppedBytes),
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                        SYNC_FILE_RANGE_WAIT_AFTER);
  ::posix_fadvise(file, off_t(droppedBytes), off_t(end - droppedBytes), POSIX_FADV_DONTNEED);
  droppedBytes = end;
}

Status PartialFile::writeBuffer() {
  MOERT_RETURN_IF_ERROR(writeAll(file, writtenBytes, buffer, outputPath));
  writtenBytes += buffer.size();
  buffer.clear();
  return {};
}

Status PartialFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t count = std::min<size_t>(bytes.size(), kBufferBytes - buffer.size());
    buffer.insert(buffer.end(), bytes.begin(), bytes.begin() + ptrdiff_t(count));
    bytes = bytes.subspan(count);
    if (buffer.size() == kBufferBytes) {
      MOERT_RETURN_IF_ERROR(writeBuffer());
      dropFromCache(/*all=*/false);
    }
  }
  return {};
}

Status PartialFile::padTo(uint64_t offset) {
  static constexpr std::byte kZeros[4096] = {};
  while (position() < offset)
    MOERT_RETURN_IF_ERROR(
        append(std::span(kZeros).first(std::min<uint64_t>(sizeof(kZeros), offset - position()))));
  return {};
}

Status PartialFile::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  MOERT_RETURN_IF_ERROR(writeBuffer());
  return writeAll(file, offset, bytes, outputPath);
}

Status PartialFile::sync() {
  MOERT_RETURN_IF_ERROR(writeBuffer());
  dropFromCache(/*all=*/true);
  if (::fdatasync(file) != 0)
    return systemError(errno, strCat("flushing ", partialPathOf(outputPath)));
  return {};
}

Status PartialFile::commit() {
  MOERT_RETURN_IF_ERROR(writeBuffer());
  if (::fsync(file) != 0)
    return systemError(errno, strCat("flushing ", partialPathOf(outputPath)));
  if (::rename(partialPathOf(outputPath).c_str(), outputPath.c_str()) != 0)
    return systemError(errno, strCat("renaming to ", outputPath));
  isRemovedAtEnd = false;
  // The file is whole either way; its name survives a power failure only if the directory does.
  int directory = ::open(directoryOf(outputPath).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
  return {};
}

} // namespace moec
