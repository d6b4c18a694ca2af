// The file that the disk is measured with: noise, so that no file system can compress it or leave
// it out, in the folder in question.
#pragma once

#include "runtime/io/ArtifactFile.h"
#include "tools/moert/probe/ProbeRun.h"

#include <string>

namespace moert::probe {

/// Owns a file that has no name any more (or never had one), so that it is gone however the process
/// ends.
class ProbeFile {
public:
  /// As large as the time allows on a slow disk, but at least `leastBytes`; both are multiples of 4
  /// MiB. Refuses a folder that cannot be written to, and a disk without the room.
  static Result<ProbeFile> create(ProbeRun &run, const std::string &folder, uint64_t leastBytes,
                                  uint64_t mostBytes, uint64_t plannedNs);

  ProbeFile(ProbeFile &&other) noexcept;
  ProbeFile &operator=(ProbeFile &&other) = delete;
  ~ProbeFile();

  uint64_t bytes() const { return writtenBytes; }

  /// The file as the runtime opens one. It stays readable when this is gone.
  Result<ArtifactFile> open() const;

  /// Leaves nothing of it in the page cache.
  Status dropFromCache() const;

private:
  explicit ProbeFile(int openFile) : file(openFile) {}

  int file;
  uint64_t writtenBytes = 0;
};

} // namespace moert::probe
