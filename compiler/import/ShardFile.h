// One open file of weights: its descriptor and its checked header.
#pragma once

#include "compiler/import/StoredTensor.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Owns the descriptor. Reading is const and thread-safe.
class ShardFile {
public:
  /// Opens a safetensors file.
  static moert::Result<ShardFile> open(const std::string &path);
  /// Opens a regular file of another format; setHeader() completes it.
  static moert::Result<ShardFile> openWithoutHeader(const std::string &path);

  ShardFile(ShardFile &&other) noexcept;
  ShardFile &operator=(ShardFile &&other) noexcept;
  ~ShardFile();

  const std::string &path() const { return filePath; }
  uint64_t bytes() const { return size; }
  const ShardHeader &header() const { return checkedHeader; }
  void setHeader(ShardHeader header) { checkedHeader = std::move(header); }

  /// Fills `out` from a file offset; an error if the file ends before.
  moert::Status read(uint64_t offset, std::span<std::byte> out) const;

  /// Asks the system to drop the file from the page cache. Only advice: failures are ignored.
  void dropCache() const;

private:
  ShardFile(std::string path, int descriptor) : filePath(std::move(path)), fd(descriptor) {}

  std::string filePath;
  int fd = -1;
  uint64_t size = 0;
  ShardHeader checkedHeader;
};

} // namespace moec
