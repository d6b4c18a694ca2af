// The parts of the file that an unfinished emission has written: OUT.partial.journal beside
// OUT.partial. It is text with a line for each finished part, in the order of the file:
//
//   moec-journal 1 FINGERPRINT
//   resident CHECKSUM
//   record LAYER EXPERT CHECKSUM...        one checksum for each slice
//
// Layers and experts are counted from 0, in the order of the file; the other numbers are 16
// hexadecimal digits. A line is written only after the bytes that it covers are on the disk. A last
// line without its end was being written when the power failed, and is ignored.
#pragma once

#include "runtime/base/OutputFile.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <optional>
#include <string>

namespace moec {

/// Progress of an emission: the resident section, then a number of records, in file order.
struct EmitState {
  bool hasResidents = false;
  uint64_t records = 0;

  friend bool operator==(const EmitState &, const EmitState &) = default;
};

/// Owns only a path until it writes. One thread.
class Journal {
public:
  static std::string pathOf(const std::string &outputPath) {
    return moert::OutputFile::partialPathOf(outputPath) + ".journal";
  }

  explicit Journal(const std::string &outputPath) : path(pathOf(outputPath)) {}

  /// Reads a journal and stores its checksums in the artifact. nullopt: there is none. Refuses a
  /// journal with another fingerprint: the checkpoint, the options or the program have changed.
  moert::Result<std::optional<EmitState>> load(uint64_t fingerprint, moert::Artifact &artifact);

  /// Replaces the journal atomically: until it is complete, and after a power failure meanwhile,
  /// the previous one is in place.
  moert::Status store(uint64_t fingerprint, const EmitState &state,
                      const moert::Artifact &artifact) const;

  bool exists() const;
  void remove() const;

private:
  std::string path;
};

} // namespace moec
