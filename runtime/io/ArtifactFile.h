// An artifact opened for reading, both past the page cache and through it. Which of the two is
// used, and how, is the read queue's business (ReadQueue.h).
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moert {

/// Owns the file's descriptors, both of the one file that had the name when it was opened: a file
/// that gets its name later is never read. Read queues borrow it and have to go first. Constant
/// once opened, so any thread may use it.
class ArtifactFile {
public:
  /// Everything in an artifact that is read directly starts and ends at multiples of this; a file
  /// system that wants more gets buffered reads.
  static constexpr uint64_t kAlignment = 4096;

  static Result<ArtifactFile> open(const std::string &path);

  ArtifactFile(ArtifactFile &&other) noexcept;
  ArtifactFile &operator=(ArtifactFile &&other) noexcept;
  ~ArtifactFile();

  const std::string &path() const { return filePath; }
  uint64_t bytes() const { return fileBytes; }

  /// Reads past the page cache: offset, length and memory have to be multiples of kAlignment. -1
  /// where that was refused; directRefusal() then says by what.
  int directDescriptor() const { return directFd; }
  const std::string &directRefusal() const { return refusal; }
  int bufferedDescriptor() const { return bufferedFd; }

  /// Reads through the page cache, at any offset; for metadata, before the token loop. A file that
  /// ends too early is an error that says where.
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
