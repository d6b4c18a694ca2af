#include "compiler/calibrate/StateFile.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace moert;

namespace moec {

// The bytes that may be in the page cache: large enough for a disk, small beside any budget.
static constexpr uint64_t kPieceBytes = uint64_t(4) << 20;

Result<StateFile> StateFile::open(const std::string &outputPath, uint64_t halfBytes, bool resume) {
  std::string path = pathOf(outputPath);
  struct stat found;
  if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    return invalidInput(path, " is not a regular file, expected a writable file or none");
  int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (resume ? 0 : O_CREAT | O_TRUNC);
  int file = ::open(path.c_str(), flags, 0666);
  if (file < 0 && resume && errno == ENOENT)
    return invalidInput(path, " is gone, but its journal exists; --restart begins anew");
  if (file < 0)
    return systemError(errno, strCat("opening ", path));
  // Readahead would fill the page cache with pages that are dropped at once.
  ::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
  return StateFile(file, std::move(path), halfBytes);
}

StateFile::StateFile(StateFile &&other) noexcept
    : file(std::exchange(other.file, -1)), path(std::move(other.path)), halfBytes(other.halfBytes),
      isRemovedAtEnd(other.isRemovedAtEnd), written(other.written) {}

StateFile::~StateFile() {
  if (file < 0)
    return;
  if (isRemovedAtEnd)
    ::unlink(path.c_str());
  ::close(file);
}

Status StateFile::read(uint32_t boundary, uint64_t offset, std::span<std::byte> into) {
  offset += boundary % 2 * halfBytes;
  while (!into.empty()) {
    size_t wanted = std::min<size_t>(into.size(), kPieceBytes);
    ssize_t count = ::pread(file, into.data(), wanted, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("reading ", path));
    if (count == 0)
      return invalidInput(path, " ends at ", offset, ", expected ", into.size(), " bytes more");
    ::posix_fadvise(file, static_cast<off_t>(offset), count, POSIX_FADV_DONTNEED);
    offset += static_cast<uint64_t>(count);
    into = into.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status StateFile::write(uint32_t boundary, uint64_t offset, std::span<const std::byte> bytes) {
  if (offset == 0)
    written = ChecksumStream();
  written.update(bytes);
  offset += boundary % 2 * halfBytes;
  while (!bytes.empty()) {
    size_t wanted = std::min<size_t>(bytes.size(), kPieceBytes);
    ssize_t count = ::pwrite(file, bytes.data(), wanted, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("writing ", path));
    // Only clean pages can be dropped from the page cache.
    ::sync_file_range(file, static_cast<off_t>(offset), count,
                      SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    ::posix_fadvise(file, static_cast<off_t>(offset), count, POSIX_FADV_DONTNEED);
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status StateFile::sync() {
  if (::fdatasync(file) != 0)
    return systemError(errno, strCat("flushing ", path));
  return {};
}

Result<uint64_t> StateFile::checksumOf(uint32_t boundary, uint64_t bytes) {
  ChecksumStream checksum;
  std::vector<std::byte> piece(std::min(bytes, kPieceBytes));
  for (uint64_t done = 0; done < bytes; done += piece.size()) {
    auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), bytes - done));
    MOERT_RETURN_IF_ERROR(read(boundary, done, part));
    checksum.update(part);
  }
  return checksum.digest();
}

} // namespace moec
