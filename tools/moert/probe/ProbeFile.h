// The file that the disk is measured with: one that is there, such as a model, or noise in a
// folder, so that no file system can compress it or leave it out.
#pragma once

#include "runtime/io/ArtifactFile.h"
#include "tools/moert/probe/ProbeRun.h"

#include <string>

namespace moert::probe {

/// Owns an open file: one that was there and is only read, or one that has no name any more (or
/// never had one), so that it is gone however the process ends.
class ProbeFile {
public:
  /// In a folder a new file, as large as the time allows on a slow disk, but at least `leastBytes`;
  /// both are multiples of 4 MiB. Of a file all of them. Refuses a folder that cannot be written
  /// to, a disk without the room, and a file that is smaller or mostly holes.
  static Result<ProbeFile> create(ProbeRun &run, const std::string &path, uint64_t leastBytes,
                                  uint64_t mostBytes, uint64_t plannedNs);

  ProbeFile(ProbeFile &&other) noexcept;
  ProbeFile &operator=(ProbeFile &&other) = delete;
  ~ProbeFile();

  uint64_t bytes() const { return usedBytes; }

  /// The file as the runtime opens one. It stays readable when this is gone.
  Result<ArtifactFile> open() const;

  /// Leaves nothing of it in the page cache.
  Status dropFromCache() const;

private:
  explicit ProbeFile(int opened) : file(opened) {}
  static Result<ProbeFile> openFile(const std::string &path, uint64_t leastBytes);

  int file;
  uint64_t usedBytes = 0;
};

} // namespace moert::probe
