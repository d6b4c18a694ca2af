// A log in a work directory: results that a resumed command takes instead of computing them again.
// Text, one line per result:
//
//   KIND FINGERPRINT
//   WORD... CHECKSUM                16 hexadecimal digits each
//
// A line is written when its result is done. The first line that is cut off or damaged ends the
// log, since what it held, and all after it, can be computed again.
#pragma once

#include "runtime/base/RandomFile.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Owns the open file. One thread.
class AppendLog {
public:
  using Words = std::vector<uint64_t>;

  /// Reads the lines of the file at `path`. A file of another kind (a name with its version) or
  /// fingerprint counts as absent, and the first append() replaces it.
  AppendLog(std::string path, std::string_view kind, uint64_t fingerprint);

  const std::vector<Words> &lines() const { return read; }
  /// Keeps the first `count` lines that were read; the next append() cuts off the others. Before
  /// the first append().
  void keep(size_t count) { read.resize(count); }
  /// The error names the file.
  moert::Status append(std::span<const uint64_t> words);

private:
  moert::Status startWriting();

  std::string path, header;
  std::vector<Words> read;
  std::optional<moert::RandomFile> file; // Since the first append().
  uint64_t end = 0;                      // Bytes of the file that count.
};

} // namespace moec
