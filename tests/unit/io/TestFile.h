// A temporary file in which every word contains its own offset, and memory to read it into.
#pragma once

#include "runtime/base/HostMemory.h"
#include "runtime/io/ReadQueue.h"

#include <cstdint>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace moert {

/// Owns the file and removes it. In the current directory, because /tmp may be in memory.
class TestFile {
public:
  explicit TestFile(uint64_t bytes) {
    char name[] = "read-queue-test-XXXXXX";
    int fd = mkstemp(name);
    REQUIRE(fd >= 0);
    path = name;
    std::vector<uint64_t> words((bytes + 7) / 8);
    for (uint64_t i = 0; i < words.size(); ++i)
      words[i] = wordAt(i * 8);
    REQUIRE(write(fd, words.data(), bytes) == static_cast<ssize_t>(bytes));
    close(fd);
  }
  ~TestFile() { unlink(path.c_str()); }
  TestFile(const TestFile &) = delete;
  TestFile &operator=(const TestFile &) = delete;

  static uint64_t wordAt(uint64_t offset) { return offset * 0x9e3779b97f4a7c15u + 1; }

  ArtifactFile open() const {
    Result<ArtifactFile> file = ArtifactFile::open(path);
    REQUIRE(file.isOk());
    return std::move(file).value();
  }

  std::string path;
};

/// Whether the pieces hold the file's bytes from the offset on.
inline bool holdsFile(uint64_t fileOffset, std::span<const MemoryPiece> pieces) {
  for (const MemoryPiece &piece : pieces)
    for (uint64_t i = 0; i < piece.bytes; i += 8, fileOffset += 8)
      if (*reinterpret_cast<const uint64_t *>(piece.data + i) != TestFile::wordAt(fileOffset))
        return false;
  return true;
}

/// Takes exactly `count` completions.
inline std::vector<ReadCompletion> takeAll(ReadQueue &queue, size_t count) {
  std::vector<ReadCompletion> taken;
  while (taken.size() < count) {
    ReadCompletion some[3];
    Result<size_t> got = queue.poll(some, true);
    REQUIRE(got.isOk());
    REQUIRE(*got > 0);
    taken.insert(taken.end(), some, some + *got);
  }
  CHECK(queue.readsUnderWay() == 0);
  return taken;
}

} // namespace moert
