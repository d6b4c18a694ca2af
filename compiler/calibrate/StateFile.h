// The tokens' states between two layers, on the disk: OUT.partial.states. Two halves, one of which
// is read while the other is written; so the states before a layer are still there when the layer
// has to be played again. What was used leaves the page cache, which counts as memory in a
// container.
#pragma once

#include "runtime/base/Checksum.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Owns the file; removes it at its end unless keep() was the last word. One thread.
class StateFile {
public:
  static std::string pathOf(const std::string &outputPath) {
    return outputPath + ".partial.states";
  }

  /// An empty one, or with `resume` the one that is there.
  static moert::Result<StateFile> open(const std::string &outputPath, uint64_t halfBytes,
                                       bool resume);
  StateFile(StateFile &&other) noexcept;
  StateFile &operator=(StateFile &&) = delete;
  ~StateFile();

  /// Boundary b is in half b mod 2.
  moert::Status read(uint32_t boundary, uint64_t offset, std::span<std::byte> into);
  /// Front to back; the first write to a boundary begins its checksum.
  moert::Status write(uint32_t boundary, uint64_t offset, std::span<const std::byte> bytes);
  /// What was written is on the disk when this returns.
  moert::Status sync();
  /// Of what was written to the boundary last begun.
  uint64_t checksum() const { return written.digest(); }
  /// Of the first bytes of a boundary, as they are in the file.
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
