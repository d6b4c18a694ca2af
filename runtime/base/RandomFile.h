// A file that is read and written at offsets, whole ranges at a time. Writes are visible under its
// name at once: for data that a later run may reuse, not for results (OutputFile).
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moert {

/// Owns the open file. Movable; any number of threads may read and write disjoint ranges.
class RandomFile {
public:
  /// flags: of open(2); without O_CREAT the file has to exist.
  static Result<RandomFile> open(std::string path, int flags);
  RandomFile(RandomFile &&other) noexcept;
  RandomFile &operator=(RandomFile &&) = delete;
  ~RandomFile();

  Status writeAt(uint64_t offset, std::span<const std::byte> bytes) const;
  /// Fails if the file ends before the range.
  Status readAt(uint64_t offset, std::span<std::byte> bytes) const;

private:
  RandomFile(int opened, std::string name) : file(opened), path(std::move(name)) {}

  int file;
  std::string path; // For messages.
};

} // namespace moert
