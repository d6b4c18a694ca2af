// A file that is there whole or not at all: written beside its place under another name and renamed
// when it is complete. Until then a file that was there before stays untouched, and a failure
// leaves nothing behind.
//
// Written pages leave the page cache on the way, since in a container they count as its memory.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moert {

/// Refuses a place where one of the given files stands, by whatever name: what is written would
/// replace what it is made from. Names of no file are passed over.
Status checkReplacesNone(const std::string &path, std::span<const std::string> inputs);

/// Owns the partial file until commit() or its end, which removes it. Movable; one thread uses it.
class OutputFile {
public:
  /// Refuses a place that is not a regular file, such as a directory or a device. A symbolic link
  /// is followed.
  static Result<OutputFile> create(const std::string &path);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) = delete;
  ~OutputFile();

  /// Behind everything that append() has written so far.
  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text);

  /// Anywhere; what was never written reads as zeros.
  Status writeAt(uint64_t offset, std::span<const std::byte> bytes);

  /// Flushes, gives the file its name and flushes that too. Nothing may be written afterwards.
  Status commit();

private:
  OutputFile(int openFile, std::string finalPath, std::string temporaryPath);

  int file = -1;
  std::string path;
  std::string partialPath; // Empty once committed or moved from.
  uint64_t appendedBytes = 0;
  uint64_t unflushedBytes = 0;
};

} // namespace moert
