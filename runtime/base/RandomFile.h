// A file that is written and read at places, whole ranges at a time. What is written lies under its
// name at once: for work that a later run may go on with, not for results (OutputFile).
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moert {

/// Owns the open file. Movable; any number of threads may read and write, in ranges of their own.
class RandomFile {
public:
  /// flags: of open(2), which say whether it has to be there.
  static Result<RandomFile> open(std::string path, int flags);
  RandomFile(RandomFile &&other) noexcept;
  RandomFile &operator=(RandomFile &&) = delete;
  ~RandomFile();

  Status writeAt(uint64_t offset, std::span<const std::byte> bytes) const;
  /// Fails where the file ends before the range does.
  Status readAt(uint64_t offset, std::span<std::byte> bytes) const;

private:
  RandomFile(int opened, std::string name) : file(opened), path(std::move(name)) {}

  int file;
  std::string path; // For messages.
};

} // namespace moert
