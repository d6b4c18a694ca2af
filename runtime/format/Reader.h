// Reads the description of a .moe file. Only the prefix page and the manifest are read; weights,
// records and the other sections stay on the disk.
//
// The file is not trusted: what readArtifact() returns has passed every rule of docs/format.md
// (Validate.h), so its indices, offsets and sizes can be used without further checks. Checksums
// find accidents, not intent; the rules do not rely on them.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// Bytes that can be read at any offset: a file, or memory in tests.
class ByteSource {
public:
  virtual ~ByteSource() = default;
  virtual const std::string &name() const = 0; // For messages.
  virtual uint64_t bytes() const = 0;
  /// Fills `into` from `offset` on; a source that ends earlier is an error. Errors do not include
  /// the source's name: the caller adds it together with what was read.
  virtual Status read(uint64_t offset, std::span<std::byte> into) const = 0;
};

/// Borrows the bytes.
class MemorySource : public ByteSource {
public:
  MemorySource(std::string name, std::span<const std::byte> bytes)
      : sourceName(std::move(name)), content(bytes) {}
  const std::string &name() const override { return sourceName; }
  uint64_t bytes() const override { return content.size(); }
  Status read(uint64_t offset, std::span<std::byte> into) const override;

private:
  std::string sourceName;
  std::span<const std::byte> content;
};

/// Owns an open file. Bypasses the page cache where the file system allows, so that inspecting a
/// large artifact does not evict other pages from a container's memory; any thread may read.
class FileSource : public ByteSource {
public:
  static Result<FileSource> open(const std::string &path);
  /// For a regular file that someone else has open: its descriptor with direct I/O, or -1, and the
  /// buffered one.
  static Result<FileSource> fromOpen(const std::string &path, int direct, int buffered);
  FileSource(FileSource &&other) noexcept;
  FileSource &operator=(FileSource &&) = delete;
  ~FileSource() override;

  const std::string &name() const override { return path; }
  uint64_t bytes() const override { return fileBytes; }
  Status read(uint64_t offset, std::span<std::byte> into) const override;

private:
  FileSource() = default;
  std::string path;
  uint64_t fileBytes = 0;
  int descriptor = -1;
};

/// Every message begins with the source's name.
Result<Artifact> readArtifact(const ByteSource &source);
Result<Artifact> readArtifact(const std::string &path);

/// Reads the tokenizer's table and checks its checksum; empty where the artifact has none.
Result<std::vector<std::byte>> readTokenizerTable(const ByteSource &source,
                                                  const Artifact &artifact);
/// The same for the activation-path tables (runtime/experts/PathTable.h).
Result<std::vector<std::byte>> readPaths(const ByteSource &source, const Artifact &artifact);
/// The same for the trace (compiler/profile/TraceSection.h), which no run reads.
Result<std::vector<std::byte>> readTrace(const ByteSource &source, const Artifact &artifact);

} // namespace moert
