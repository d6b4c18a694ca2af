#include "tools/moert/probe/ProbeFile.h"

#include "runtime/base/Size.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace moert::probe {

namespace {

constexpr uint64_t kPieceBytes = 4 << 20;
/// Left free on the disk for other programs.
constexpr uint64_t kSpareBytes = 64 << 20;

/// Opens a file without a name (O_TMPFILE); where the file system cannot, one whose name is removed
/// at once. SIGINT cannot interrupt the two steps: its handler only sets a flag.
int openNameless(const std::string &folder) {
  int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  // Kernels before 3.11 take the flag for opening a folder for writing (EISDIR).
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return file;
  const std::string name = strCat(folder, "/.moert-probe-", ::getpid());
  file = ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0)
    ::unlink(name.c_str());
  return file;
}

/// True for an existing file to read, false for a folder to write one to.
Result<bool> isFile(const std::string &path) {
  struct stat found;
  if (::stat(path.c_str(), &found) != 0)
    return openError(errno, strCat("--path ", path, ": cannot be probed"));
  if (!S_ISDIR(found.st_mode) && !S_ISREG(found.st_mode))
    return invalidInput("--path ", path,
                        " is neither a folder nor a file, expected one on the disk to measure");
  return S_ISREG(found.st_mode);
}

/// Bytes to write: `mostBytes`, or less if the disk has less room.
Result<uint64_t> roomFor(const std::string &folder, uint64_t leastBytes, uint64_t mostBytes) {
  struct statvfs space;
  if (::statvfs(folder.c_str(), &space) != 0)
    return systemError(errno, strCat("--path ", folder, ": free space"));
  const uint64_t freeBytes = uint64_t(space.f_bavail) * space.f_frsize;
  if (freeBytes >= mostBytes + kSpareBytes)
    return mostBytes;
  if (freeBytes >= leastBytes + kSpareBytes)
    return (freeBytes - kSpareBytes) / kPieceBytes * kPieceBytes;
  return failed("--path ", folder, ": the probe needs ", formatBytes(leastBytes + kSpareBytes),
                ", free on the disk: ", formatBytes(freeBytes));
}

/// Xorshift: as fast as memory, and incompressible.
void fillWithNoise(std::vector<uint64_t> &words, uint64_t &state) {
  for (uint64_t &word : words) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    word = state;
  }
}

Status writeAll(int file, const std::byte *data, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(file, data, bytes);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return systemError(written < 0 ? errno : ENOSPC, "writing the probe's temporary file");
    data += written;
    bytes -= static_cast<uint64_t>(written);
  }
  return {};
}

} // namespace

Result<ProbeFile> ProbeFile::openFile(const std::string &path, uint64_t leastBytes) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0)
    return openError(errno, strCat("--path ", path, ": cannot be read"));
  ProbeFile file(opened);
  struct stat found;
  if (::fstat(opened, &found) != 0)
    return systemError(errno, strCat("--path ", path));
  const auto bytes = static_cast<uint64_t>(found.st_size);
  if (bytes < leastBytes)
    return invalidInput("--path ", path, " has ", formatBytes(bytes),
                        ", expected a file of at least ", formatBytes(leastBytes), ", or a folder");
  // Holes read as zeros without disk access. st_blocks counts blocks of 512 bytes on every file
  // system.
  const uint64_t stored = static_cast<uint64_t>(found.st_blocks) * 512;
  if (stored < bytes / 2)
    return invalidInput("--path ", path, " has holes, ", formatBytes(stored), " of its ",
                        formatBytes(bytes), " are on the disk; expected a file without holes");
  file.usedBytes = bytes / kPieceBytes * kPieceBytes;
  MOERT_RETURN_IF_ERROR(file.dropFromCache());
  return file;
}

Result<ProbeFile> ProbeFile::create(ProbeRun &run, const std::string &folder, uint64_t leastBytes,
                                    uint64_t mostBytes, uint64_t plannedNs) {
  MOERT_ASSIGN_OR_RETURN(bool isThere, isFile(folder));
  if (isThere)
    return openFile(folder, leastBytes);
  MOERT_ASSIGN_OR_RETURN(uint64_t bytes, roomFor(folder, leastBytes, mostBytes));
  const int opened = openNameless(folder);
  if (opened < 0)
    return openError(errno, strCat("--path ", folder, ": cannot write a temporary file there"));
  ProbeFile created(opened);
  const uint64_t pieces = bytes / kPieceBytes, begin = run.nowNs();
  std::vector<uint64_t> piece(kPieceBytes / sizeof(uint64_t));
  uint64_t state = 0x9e3779b97f4a7c15;
  for (uint64_t i = 0; i < pieces; ++i) {
    const bool isLate = run.nowNs() - begin > plannedNs;
    if (isLate && created.usedBytes >= leastBytes)
      break;
    MOERT_RETURN_IF_ERROR(run.begin("writing a temporary file", plannedNs / pieces));
    fillWithNoise(piece, state);
    Status written =
        writeAll(created.file, reinterpret_cast<const std::byte *>(piece.data()), kPieceBytes);
    // fdatasync, since the disk's time counts, not the page cache's.
    if (written.isOk() && ::fdatasync(created.file) != 0)
      written = systemError(errno, "writing the probe's temporary file");
    MOERT_RETURN_IF_ERROR(std::move(written).withContext(strCat("--path ", folder)));
    created.usedBytes += kPieceBytes;
  }
  MOERT_RETURN_IF_ERROR(created.dropFromCache());
  return created;
}

ProbeFile::ProbeFile(ProbeFile &&other) noexcept
    : file(std::exchange(other.file, -1)), usedBytes(other.usedBytes) {}

ProbeFile::~ProbeFile() {
  if (file >= 0)
    ::close(file);
}

Result<ArtifactFile> ProbeFile::open() const {
  return ArtifactFile::open(strCat("/proc/self/fd/", file));
}

Status ProbeFile::dropFromCache() const {
  if (int error = ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
    return systemError(error, "dropping the probe's file from the page cache");
  return {};
}

} // namespace moert::probe
