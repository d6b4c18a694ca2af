// A file that is there whole or not at all: written beside its place under another name and renamed
// when it is complete. Until then a file that was there before stays untouched, and a failure
// leaves nothing behind, unless the writer keeps what it has for a later run.
//
// Written pages leave the page cache on the way, since in a container they count as its memory.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moert {

/// Refuses a place where one of the given files stands, by whatever name: what is written, or the
/// partial file on the way to it, would replace what it is made from. Names of no file are passed
/// over.
Status checkReplacesNone(const std::string &path, std::span<const std::string> inputs);

/// Owns the partial file, and the lock on it, which keeps a second writer of the same output away.
/// Movable; one thread uses it. What becomes of the partial file in the end: commit() gives it its
/// name, keep() leaves it for a later resume(), otherwise it is removed.
class OutputFile {
public:
  /// An empty one. Refuses a place that is not a regular file, such as a directory or a device, and
  /// one whose disk has no room for `expectedBytes`. What an earlier run kept is emptied, but not
  /// before everything else is in order. A symbolic link is followed, to a file that is missing
  /// too.
  static Result<OutputFile> create(const std::string &path, uint64_t expectedBytes = 0);

  /// One that keep() left, cut to its first `bytes` bytes; refuses one that has fewer, and leaves
  /// it as it is then.
  static Result<OutputFile> resume(const std::string &path, uint64_t bytes, uint64_t expectedBytes);

  /// Whether the file has its name and nothing partial stands beside it: what a writer leaves that
  /// was killed behind commit(), before it removed what it kept to go on with.
  static bool isCommitted(const std::string &path);

  /// Where the file grows: beside its place, behind a symbolic link.
  static std::string partialPathOf(const std::string &path);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) = delete;
  ~OutputFile();

  /// Behind everything that append() and padTo() have written so far.
  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text);
  /// Zeros up to an offset that has not been passed.
  Status padTo(uint64_t offset);
  uint64_t position() const { return appendedBytes; }

  /// Anywhere; what was never written reads as zeros.
  Status writeAt(uint64_t offset, std::span<const std::byte> bytes);

  /// Everything written so far is on the disk when this returns.
  Status sync();

  /// Flushes, gives the file its name and flushes that too. Nothing may be written afterwards.
  Status commit();

  /// The partial file stays, whatever comes.
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
