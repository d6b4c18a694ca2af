// The file that the disk is measured with: an existing one, such as a model, or random data in a
// folder, which no file system can compress or leave out.
#pragma once

#include "runtime/io/ArtifactFile.h"
#include "tools/moert/probe/ProbeRun.h"

#include <string>

namespace moert::probe {

/// Owns an open file: an existing one that is only read, or a nameless temporary one, which
/// disappears however the process ends.
class ProbeFile {
public:
  /// For a folder, writes a new file, as large as the time allows on a slow disk, but at least
  /// `leastBytes`; both sizes are multiples of 4 MiB. For a file, uses all of it. Refuses a folder
  /// that cannot be written to, a disk without enough room, and a file that is too small or mostly
  /// holes.
  static Result<ProbeFile> create(ProbeRun &run, const std::string &path, uint64_t leastBytes,
                                  uint64_t mostBytes, uint64_t plannedNs);

  ProbeFile(ProbeFile &&other) noexcept;
  ProbeFile &operator=(ProbeFile &&other) = delete;
  ~ProbeFile();

  uint64_t bytes() const { return usedBytes; }

  /// Opens the file as the runtime does. The result outlives this object.
  Result<ArtifactFile> open() const;

  /// Drops the file from the page cache.
  Status dropFromCache() const;

private:
  explicit ProbeFile(int opened) : file(opened) {}
  static Result<ProbeFile> openFile(const std::string &path, uint64_t leastBytes);

  int file;
  uint64_t usedBytes = 0;
};

} // namespace moert::probe
