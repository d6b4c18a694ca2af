#include "runtime/io/ArtifactFile.h"

#include "runtime/base/ArtifactPath.h"
#include "runtime/base/CheckedMath.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace moert {

static int openForReading(const std::string &path, int extraFlags) {
  int fd;
  do
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | extraFlags);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/// Why statx() reports direct reads as impossible. Empty if it reports no obstacle or nothing
/// (before Linux 6.1); then a probing read decides.
static std::string statedRefusal(int fd) {
#ifdef STATX_DIOALIGN
  struct statx stated = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stated) != 0 ||
      !(stated.stx_mask & STATX_DIOALIGN))
    return {};
  if (stated.stx_dio_offset_align == 0)
    return "the file system has no direct I/O for this file";
  if (stated.stx_dio_offset_align > ArtifactFile::kAlignment ||
      stated.stx_dio_mem_align > ArtifactFile::kAlignment)
    return strCat("direct I/O is aligned at ", stated.stx_dio_offset_align,
                  " bytes here, expected at most ", ArtifactFile::kAlignment);
#endif
  return {};
}

/// Opens the same file again, past the page cache: through its descriptor, so that a file which was
/// renamed to this path meanwhile is not opened; without /proc, by its path. -1 and errno on
/// failure.
static int reopenDirect(int fd, const std::string &path) {
  const int again = openForReading(strCat("/proc/self/fd/", fd), O_DIRECT);
  return again < 0 && errno == ENOENT ? openForReading(path, O_DIRECT) : again;
}

static bool isSameFile(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

ArtifactFile::ArtifactFile(ArtifactFile &&other) noexcept
    : filePath(std::move(other.filePath)), fileBytes(other.fileBytes),
      bufferedFd(std::exchange(other.bufferedFd, -1)), directFd(std::exchange(other.directFd, -1)),
      refusal(std::move(other.refusal)) {}

ArtifactFile &ArtifactFile::operator=(ArtifactFile &&other) noexcept {
  std::swap(filePath, other.filePath);
  std::swap(fileBytes, other.fileBytes);
  std::swap(bufferedFd, other.bufferedFd);
  std::swap(directFd, other.directFd);
  std::swap(refusal, other.refusal);
  return *this;
}

ArtifactFile::~ArtifactFile() {
  if (bufferedFd >= 0)
    ::close(bufferedFd);
  if (directFd >= 0)
    ::close(directFd);
}

Result<ArtifactFile> ArtifactFile::open(const std::string &path) {
  ArtifactFile file;
  file.filePath = path;
  // O_NONBLOCK: a pipe under that name is refused instead of blocking.
  file.bufferedFd = openForReading(path, O_NONBLOCK);
  if (file.bufferedFd < 0)
    return cannotOpenArtifact(errno, path);
  struct stat stated = {};
  if (fstat(file.bufferedFd, &stated) != 0)
    return systemError(errno, strCat(path, ": stat"));
  if (!S_ISREG(stated.st_mode))
    return noArtifact(path);
  // With O_NONBLOCK left on, io_uring reads would fail with EAGAIN.
  if (fcntl(file.bufferedFd, F_SETFL, 0) != 0)
    return systemError(errno, strCat(path, ": fcntl"));
  file.fileBytes = static_cast<uint64_t>(stated.st_size);

  file.refusal = statedRefusal(file.bufferedFd);
  if (!file.refusal.empty())
    return file;
  file.directFd = reopenDirect(file.bufferedFd, path);
  if (file.directFd < 0) {
    file.refusal = strCat("opening it for direct I/O: ", std::strerror(errno));
    return file;
  }
  struct stat again = {};
  if (fstat(file.directFd, &again) != 0 || !isSameFile(stated, again))
    return failed(path, ": was replaced or changed while it was being opened");
  return file;
}

Status ArtifactFile::read(uint64_t offset, std::span<std::byte> into) const {
  if (!rangeFits(offset, into.size(), fileBytes))
    return invalidInput("read of ", into.size(), " bytes at offset ", offset, ", but the file has ",
                        fileBytes);
  size_t done = 0;
  while (done < into.size()) {
    ssize_t got = pread(bufferedFd, into.data() + done, into.size() - done,
                        static_cast<off_t>(offset + done));
    if (got < 0 && errno != EINTR)
      return systemError(errno, strCat("read of ", into.size(), " bytes at offset ", offset,
                                       " found ", done, " bytes"));
    if (got == 0)
      return invalidInput("read of ", into.size(), " bytes at offset ", offset, " found ", done,
                          " bytes, then the end of the file");
    if (got > 0)
      done += static_cast<size_t>(got);
  }
  return {};
}

} // namespace moert
