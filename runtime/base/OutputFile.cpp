// The system calls that make an output atomic: complete under its name, or absent.
#include "runtime/base/OutputFile.h"

#include "runtime/base/Size.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace moert {

/// Unwritten data that may accumulate before the disk is asked to write it. Up to as much again is
/// being written meanwhile: enough to keep the disk busy, little compared with any budget.
constexpr uint64_t kUnflushedLimitBytes = 4 << 20;

static std::string directoryOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return path.substr(0, std::max<size_t>(slash, 1));
}

/// The final path of the file with all links followed, even if no file exists there yet. A path
/// with more links than the system follows is returned unchanged, for open() to refuse.
static std::string resolvedPath(const std::string &path) {
  constexpr int kMaxLinks = 40;
  std::string place = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    char target[PATH_MAX];
    ssize_t length = ::readlink(place.c_str(), target, sizeof(target));
    if (length <= 0 || size_t(length) == sizeof(target))
      return place;
    std::string next(target, size_t(length));
    place = next[0] == '/' ? next : strCat(place.substr(0, place.rfind('/') + 1), next);
  }
  return path;
}

static bool isSameFile(const std::string &one, const std::string &other) {
  struct stat first, second;
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Status checkReplacesNone(const std::string &path, std::span<const std::string> inputs) {
  const std::string partial = OutputFile::partialPathOf(path);
  for (const std::string &name : inputs)
    if (isSameFile(path, name) || isSameFile(partial, name))
      return invalidInput("output '", path, "' would replace '", name,
                          "', which is read; expected another name");
  return {};
}

std::string OutputFile::partialPathOf(const std::string &path) {
  return resolvedPath(path) + ".partial";
}

bool OutputFile::isCommitted(const std::string &path) {
  return ::access(partialPathOf(path).c_str(), F_OK) != 0 && ::access(path.c_str(), F_OK) == 0;
}

// Checks of the place that change nothing.
static Status checkPlace(const std::string &path, const std::string &place) {
  if (path.empty())
    return invalidInput("the name of the output file is empty");
  struct stat found;
  if (::stat(place.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    return invalidInput("output '", path, "' is ",
                        S_ISDIR(found.st_mode) ? "a directory" : "not a regular file",
                        ", expected the name of a file to write");
  std::string directory = directoryOf(place);
  if (::stat(directory.c_str(), &found) != 0 && errno == ENOENT)
    return invalidInput("output '", path, "': there is no directory '", directory, "'");
  return {};
}

// Fails early instead of after an hour. The space of an earlier partial file will be freed.
static Status checkSpace(const std::string &place, const std::string &partial, uint64_t bytes) {
  struct statvfs space;
  if (bytes == 0 || ::statvfs(directoryOf(place).c_str(), &space) != 0)
    return {};
  struct stat earlier;
  uint64_t freed = ::lstat(partial.c_str(), &earlier) == 0 && S_ISREG(earlier.st_mode)
                       ? uint64_t(earlier.st_blocks) * 512
                       : 0;
  uint64_t available = uint64_t(space.f_bavail) * space.f_frsize + freed;
  if (available < bytes)
    return failed("output '", place, "': ", formatBytes(bytes), " needed, ", formatBytes(available),
                  " free on the disk");
  return {};
}

// Whether the name still refers to the open file: its last writer may have renamed it between our
// open() and our lock.
static bool isStillAt(int file, const std::string &name) {
  struct stat opened, named;
  return ::fstat(file, &opened) == 0 && ::lstat(name.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Result<OutputFile> OutputFile::open(const std::string &path, int flags) {
  std::string place = resolvedPath(path), partial = place + ".partial";
  int opened = ::open(partial.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0666);
  if (opened < 0)
    return openError(errno, strCat("cannot create '", partial, "'"));
  OutputFile file(opened, std::move(place), std::move(partial));
  file.keep(); // It may belong to another process.
  struct stat found;
  if (::fstat(opened, &found) != 0 || !S_ISREG(found.st_mode))
    return invalidInput("'", file.partialPath, "' is not a regular file, expected to write one");
  if (::flock(opened, LOCK_EX | LOCK_NB) != 0 || !isStillAt(opened, file.partialPath))
    return invalidInput("'", file.partialPath, "' is being written by another process");
  return file;
}

Result<OutputFile> OutputFile::create(const std::string &path, uint64_t expectedBytes) {
  std::string place = resolvedPath(path);
  MOERT_RETURN_IF_ERROR(checkPlace(path, place));
  MOERT_RETURN_IF_ERROR(checkSpace(place, place + ".partial", expectedBytes));
  MOERT_ASSIGN_OR_RETURN(OutputFile created, open(path, O_CREAT));
  if (::ftruncate(created.file, 0) != 0)
    return systemError(errno, strCat("cannot empty '", created.partialPath, "'"));
  created.isRemovedAtEnd = true;
  return created;
}

Result<OutputFile> OutputFile::resume(const std::string &path, uint64_t bytes,
                                      uint64_t expectedBytes) {
  std::string place = resolvedPath(path), partial = place + ".partial";
  MOERT_RETURN_IF_ERROR(checkPlace(path, place));
  struct stat found;
  if (::lstat(partial.c_str(), &found) != 0 && errno == ENOENT)
    return invalidInput("'", partial,
                        "' is gone, its journal is still there; --restart begins anew");
  MOERT_ASSIGN_OR_RETURN(OutputFile resumed, open(path, 0));
  if (::fstat(resumed.file, &found) != 0)
    return systemError(errno, partial);
  if (uint64_t(found.st_size) < bytes)
    return invalidInput("'", partial, "' has ", uint64_t(found.st_size),
                        " bytes, its journal expects ", bytes, "; --restart begins anew");
  MOERT_RETURN_IF_ERROR(checkSpace(place, partial, expectedBytes));
  if (::ftruncate(resumed.file, off_t(bytes)) != 0)
    return systemError(errno, strCat("cannot cut '", partial, "'"));
  resumed.appendedBytes = bytes;
  resumed.isRemovedAtEnd = true;
  return resumed;
}

OutputFile::OutputFile(int openFile, std::string finalPath, std::string temporaryPath)
    : file(openFile), path(std::move(finalPath)), partialPath(std::move(temporaryPath)) {}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : file(std::exchange(other.file, -1)), path(std::move(other.path)),
      partialPath(std::move(other.partialPath)), isRemovedAtEnd(other.isRemovedAtEnd),
      appendedBytes(other.appendedBytes), unflushedBytes(other.unflushedBytes) {}

OutputFile::~OutputFile() {
  if (file < 0)
    return;
  if (isRemovedAtEnd)
    ::unlink(partialPath.c_str());
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

Status OutputFile::padTo(uint64_t offset) {
  static constexpr std::byte kZeros[4096] = {};
  while (appendedBytes < offset)
    MOERT_RETURN_IF_ERROR(append(
        std::span(kZeros).first(std::min<uint64_t>(sizeof(kZeros), offset - appendedBytes))));
  return {};
}

Status OutputFile::writeAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t part = std::min<size_t>(bytes.size(), kUnflushedLimitBytes);
    ssize_t written = ::pwrite(file, bytes.data(), part, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return systemError(written < 0 ? errno : ENOSPC, strCat("cannot write '", partialPath, "'"));
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
    unflushedBytes += static_cast<uint64_t>(written);
    if (unflushedBytes >= kUnflushedLimitBytes)
      MOERT_RETURN_IF_ERROR(dropFromCache());
  }
  return {};
}

// Waits for the writes that the previous call began and begins writing the rest: the disk is never
// idle, and the amount of unwritten data is bounded. Written pages leave the page cache.
Status OutputFile::dropFromCache() {
  unflushedBytes = 0;
  bool isBegun =
      ::sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE) == 0;
  // Not every file system supports it.
  if (!isBegun && ::fdatasync(file) != 0)
    return systemError(errno, strCat("cannot write '", partialPath, "'"));
  // Advice only: a file system may ignore it.
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

void OutputFile::drop(uint64_t offset, uint64_t bytes) {
  (void)::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(bytes));
}

Status OutputFile::sync() {
  unflushedBytes = 0;
  if (::fsync(file) != 0)
    return systemError(errno, strCat("cannot write '", partialPath, "'"));
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Status OutputFile::commit() {
  MOERT_RETURN_IF_ERROR(sync());
  if (::rename(partialPath.c_str(), path.c_str()) != 0)
    return systemError(errno, strCat("cannot rename '", partialPath, "' to '", path, "'"));
  isRemovedAtEnd = false;

  int directory = ::open(directoryOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    // The file is complete and has its name; some file systems cannot flush a directory.
    (void)::fsync(directory);
    ::close(directory);
  }
  return {};
}

} // namespace moert
