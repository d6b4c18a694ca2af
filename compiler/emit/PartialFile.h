// The file that an artifact grows in: OUT.partial beside OUT, written from front to back, renamed
// when it is whole. Written pages leave the page cache soon, since in a container they count as its
// memory.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// Owns the file and the lock on it, which keeps a second writer of the same output away. One
/// thread. What becomes of the file at the end: commit() gives it its name, keep() leaves it for
/// a later resume(), otherwise it is removed.
class PartialFile {
public:
  /// An empty one, whatever was there. `expectedBytes` have to fit on the disk.
  static moert::Result<PartialFile> create(const std::string &outputPath, uint64_t expectedBytes);
  /// One that keep() left, cut to its first `bytes` bytes; refuses one that has fewer.
  static moert::Result<PartialFile> resume(const std::string &outputPath, uint64_t bytes,
                                           uint64_t expectedBytes);
  static std::string partialPathOf(const std::string &outputPath) {
    return outputPath + ".partial";
  }

  PartialFile(PartialFile &&other) noexcept;
  PartialFile &operator=(PartialFile &&) = delete;
  ~PartialFile();

  uint64_t position() const { return writtenBytes + buffer.size(); }
  moert::Status append(std::span<const std::byte> bytes);
  /// Zeros up to an offset that has not been passed.
  moert::Status padTo(uint64_t offset);
  /// Over bytes that append() has written before.
  moert::Status overwrite(uint64_t offset, std::span<const std::byte> bytes);

  /// Everything appended so far is on the disk when this returns.
  moert::Status sync();
  moert::Status commit();
  /// The file stays, whatever comes.
  void keep() { isRemovedAtEnd = false; }

private:
  PartialFile(int openFile, std::string path);
  static moert::Result<PartialFile> open(const std::string &outputPath, int flags);
  moert::Status writeBuffer();
  void dropFromCache(bool all);

  int file = -1;
  std::string outputPath;
  bool isRemovedAtEnd = true;
  std::vector<std::byte> buffer; // Appended, not yet written: [writtenBytes, position()).
  uint64_t writtenBytes = 0;
  uint64_t flushedBytes = 0; // Handed to the disk: [0, flushedBytes).
  uint64_t droppedBytes = 0; // On the disk and out of the page cache: [0, droppedBytes).
};

} // namespace moec
