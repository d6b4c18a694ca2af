// The two sources of bytes that Reader.h declares.
#include "runtime/base/ArtifactPath.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/format/Reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace moert {

static Status checkEnd(uint64_t offset, uint64_t length, uint64_t size) {
  if (!rangeFits(offset, length, size))
    return invalidInput(length, " bytes at offset ", offset, " requested, the end is at ", size);
  return {};
}

Status MemorySource::read(uint64_t offset, std::span<std::byte> into) const {
  MOERT_RETURN_IF_ERROR(checkEnd(offset, into.size(), content.size()));
  if (!into.empty())
    std::memcpy(into.data(), content.data() + offset, into.size());
  return {};
}

// Alignment of offset, length and memory that direct I/O needs on every common file system.
constexpr uint64_t kDirectAlignment = 4096;
// Large enough for a disk's full speed, small beside any budget.
constexpr uint64_t kBounceBytes = uint64_t(1) << 20;

// Whether a direct read works on an open file. Some file systems accept O_DIRECT in open() and
// refuse it in read(), or need a larger alignment.
static bool readsDirectly(int descriptor) {
  std::unique_ptr<void, decltype(&std::free)> page(
      std::aligned_alloc(kDirectAlignment, kDirectAlignment), &std::free);
  return page && ::pread(descriptor, page.get(), kDirectAlignment, 0) >= 0;
}

// O_NONBLOCK: a pipe of that name is refused instead of blocking in open().
Result<FileSource> FileSource::open(const std::string &path) {
  FileSource source;
  source.path = path;
  source.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
  if (source.descriptor >= 0 && !readsDirectly(source.descriptor))
    ::close(std::exchange(source.descriptor, -1));
  // Fall back to the page cache; an error of open() is reported from this call.
  if (source.descriptor < 0)
    source.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (source.descriptor < 0)
    return cannotOpenArtifact(errno, path);
  struct stat status;
  if (::fstat(source.descriptor, &status) != 0)
    return systemError(errno, path);
  if (!S_ISREG(status.st_mode))
    return noArtifact(path);
  source.fileBytes = uint64_t(status.st_size);
  return source;
}

Result<FileSource> FileSource::fromOpen(const std::string &path, int direct, int buffered) {
  FileSource source;
  source.path = path;
  const bool isDirect = direct >= 0 && readsDirectly(direct);
  source.descriptor = ::fcntl(isDirect ? direct : buffered, F_DUPFD_CLOEXEC, 0);
  struct stat status;
  if (source.descriptor < 0 || ::fstat(source.descriptor, &status) != 0)
    return systemError(errno, path);
  source.fileBytes = uint64_t(status.st_size);
  return source;
}

FileSource::FileSource(FileSource &&other) noexcept
    : path(std::move(other.path)), fileBytes(other.fileBytes),
      descriptor(std::exchange(other.descriptor, -1)) {}

FileSource::~FileSource() {
  if (descriptor >= 0)
    ::close(descriptor);
}

// Reads at least `wanted` bytes, up to `into.size()` where the file has them.
static Status readAtLeast(int descriptor, uint64_t offset, std::span<std::byte> into,
                          uint64_t wanted) {
  uint64_t done = 0;
  while (done < wanted) {
    ssize_t count =
        ::pread(descriptor, into.data() + done, into.size() - done, off_t(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("reading at offset ", offset + done));
    if (count == 0)
      return failed("the file ended at ", offset + done, " while it was read, expected ",
                    offset + wanted, " or more");
    done += uint64_t(count);
    // A direct read that ends off the alignment has reached the end of the file.
    if (done < wanted && done % kDirectAlignment != 0)
      return failed("the file ended at ", offset + done, " while it was read, expected ",
                    offset + wanted, " or more");
  }
  return {};
}

Status FileSource::read(uint64_t offset, std::span<std::byte> into) const {
  MOERT_RETURN_IF_ERROR(checkEnd(offset, into.size(), fileBytes));
  if (into.empty())
    return {};
  uint64_t bounceBytes =
      std::min(kBounceBytes, roundUp(into.size() + offset % kDirectAlignment, kDirectAlignment));
  std::unique_ptr<void, decltype(&std::free)> bounce(
      std::aligned_alloc(kDirectAlignment, bounceBytes), &std::free);
  if (!bounce)
    return failed("no memory for a read of ", bounceBytes, " bytes");
  std::span<std::byte> buffer(static_cast<std::byte *>(bounce.get()), bounceBytes);
  while (!into.empty()) {
    uint64_t skip = offset % kDirectAlignment;
    uint64_t count = std::min<uint64_t>(into.size(), bounceBytes - skip);
    uint64_t span = std::min(bounceBytes, roundUp(skip + count, kDirectAlignment));
    MOERT_RETURN_IF_ERROR(readAtLeast(descriptor, offset - skip, buffer.first(span), skip + count));
    std::memcpy(into.data(), buffer.data() + skip, count);
    into = into.subspan(count);
    offset += count;
  }
  return {};
}

} // namespace moert
