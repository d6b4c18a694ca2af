// An output file that appears only when complete: it is written beside its place under another name
// and renamed at the end. Until then an earlier file of that name stays untouched, and a failure
// leaves nothing behind, unless the writer keeps the partial file for a later run.
//
// Written pages leave the page cache on the way, because a container counts them as its memory.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moert {

/// Refuses an output path that would overwrite one of the given files, by whatever name: the output
/// itself or its partial file. Names without a file are ignored.
Status checkReplacesNone(const std::string &path, std::span<const std::string> inputs);

/// Owns the partial file and the lock on it, which excludes a second writer of the same output.
/// Movable; used by one thread. At the end, commit() gives the partial file its name, keep() leaves
/// it for a later resume(), and otherwise it is removed.
class OutputFile {
public:
  /// An empty file. Refuses a place that is not a regular file, such as a directory or a device,
  /// and a disk without room for `expectedBytes`. A partial file that an earlier run kept is
  /// emptied, but only after all other checks. Symbolic links are followed, also to a missing file.
  static Result<OutputFile> create(const std::string &path, uint64_t expectedBytes = 0);

  /// A file that keep() left, cut to its first `bytes` bytes. Refuses a shorter one and leaves it
  /// unchanged.
  static Result<OutputFile> resume(const std::string &path, uint64_t bytes, uint64_t expectedBytes);

  /// Whether the file has its name and there is no partial file beside it. True for a writer that
  /// was killed after commit(), before it removed its data for resuming.
  static bool isCommitted(const std::string &path);

  /// The path of the partial file: beside the place, after following symbolic links.
  static std::string partialPathOf(const std::string &path);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) = delete;
  ~OutputFile();

  /// Writes after everything that append() and padTo() have written.
  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text);
  /// Writes zeros up to `offset`; no effect if position() is past it.
  Status padTo(uint64_t offset);
  uint64_t position() const { return appendedBytes; }
  /// Where the content is until commit().
  const std::string &partial() const { return partialPath; }

  /// Writes at any offset; gaps read as zeros.
  Status writeAt(uint64_t offset, std::span<const std::byte> bytes);

  /// Gives the disk of a written range back: it then reads as zeros, or as before on file systems
  /// without holes. A hint that cannot fail.
  void drop(uint64_t offset, uint64_t bytes);

  /// Everything written so far is on the disk when this returns.
  Status sync();

  /// Flushes, gives the file its name and flushes that too. Nothing may be written afterwards.
  Status commit();

  /// The partial file stays, even after an error.
  void keep() { isRemovedAtEnd = false; }

private:
  OutputFile(int openFile, std::string finalPath, std::string temporaryPath);
  static Result<OutputFile> open(const std::string &path, int flags);
  Status dropFromCache();

  int file = -1;
  std::string path;
  std::string partialPath;
  bool isRemovedAtEnd = true;
  uint64_t appendedBytes = 0;
  uint64_t unflushedBytes = 0;
};

} // namespace moert
