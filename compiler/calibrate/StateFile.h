// The tokens' states between two layers, on the disk: OUT.partial.states. It has two halves: one is
// read while the other is written, so the states before a layer still exist when the layer has to
// be executed again. Used pages are dropped from the page cache, which counts as memory in a
// container.
#pragma once

#include "runtime/base/Checksum.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Owns the file; removes it when destroyed unless keep() was called last. One thread.
class StateFile {
public:
  static std::string pathOf(const std::string &outputPath) {
    return outputPath + ".partial.states";
  }

  /// Opens an empty file, or with `resume` the existing one.
  static moert::Result<StateFile> open(const std::string &outputPath, uint64_t halfBytes,
                                       bool resume);
  StateFile(StateFile &&other) noexcept;
  StateFile &operator=(StateFile &&) = delete;
  ~StateFile();

  /// The states at boundary b are in half b mod 2.
  moert::Status read(uint32_t boundary, uint64_t offset, std::span<std::byte> into);
  /// Writes in ascending order; the first write to a boundary begins its checksum.
  moert::Status write(uint32_t boundary, uint64_t offset, std::span<const std::byte> bytes);
  /// Returns when everything written is on the disk.
  moert::Status sync();
  /// Checksum of the bytes written to the current boundary.
  uint64_t checksum() const { return written.digest(); }
  /// Checksum of the first bytes of a boundary, as read from the file.
  moert::Result<uint64_t> checksumOf(uint32_t boundary, uint64_t bytes);
  void keep() { isRemovedAtEnd = false; }
  void dispose() { isRemovedAtEnd = true; }

private:
  StateFile(int openFile, std::string filePath, uint64_t bytes)
      : file(openFile), path(std::move(filePath)), halfBytes(bytes) {}

  int file;
  std::string path;
  uint64_t halfBytes;
  bool isRemovedAtEnd = true;
  moert::ChecksumStream written;
};

} // namespace moec
