// An artifact opened for reading, both past and through the page cache. The read queue decides
// which of the two is used (ReadQueue.h).
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moert {

/// Owns the file's descriptors, both of the file that had the path when it was opened: a file that
/// is renamed to the path later is never read. Read queues borrow it and must be destroyed first.
/// Immutable once opened, so any thread may use it.
class ArtifactFile {
public:
  /// Everything in an artifact that is read directly starts and ends at multiples of this; a file
  /// system that requires more gets buffered reads.
  static constexpr uint64_t kAlignment = 4096;

  static Result<ArtifactFile> open(const std::string &path);

  ArtifactFile(ArtifactFile &&other) noexcept;
  ArtifactFile &operator=(ArtifactFile &&other) noexcept;
  ~ArtifactFile();

  const std::string &path() const { return filePath; }
  uint64_t bytes() const { return fileBytes; }

  /// Descriptor for reads past the page cache: offset, length and memory must be multiples of
  /// kAlignment. -1 if direct I/O was refused; directRefusal() then gives the reason.
  int directDescriptor() const { return directFd; }
  const std::string &directRefusal() const { return refusal; }
  int bufferedDescriptor() const { return bufferedFd; }

  /// Reads through the page cache, at any offset; for metadata, before the token loop. If the file
  /// ends too early, the error names the offset.
  Status read(uint64_t offset, std::span<std::byte> into) const;

private:
  ArtifactFile() = default;

  std::string filePath;
  uint64_t fileBytes = 0;
  int bufferedFd = -1;
  int directFd = -1;
  std::string refusal;
};

} // namespace moert
