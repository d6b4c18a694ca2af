// One open safetensors file: its descriptor and its checked header.
#pragma once

#include "compiler/import/Safetensors.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Owns the descriptor. Reading is const and thread-safe.
class ShardFile {
public:
  static moert::Result<ShardFile> open(const std::string &path);

  ShardFile(ShardFile &&other) noexcept;
  ShardFile &operator=(ShardFile &&other) noexcept;
  ~ShardFile();

  const std::string &path() const { return filePath; }
  const SafetensorsHeader &header() const { return checkedHeader; }

  /// Fills `out` from a file offset; an error if the file ends before.
  moert::Status read(uint64_t offset, std::span<std::byte> out) const;

  /// Asks the system to drop the file from the page cache. Only advice: failures are ignored.
  void dropCache() const;

private:
  ShardFile(std::string path, int descriptor) : filePath(std::move(path)), fd(descriptor) {}

  std::string filePath;
  int fd = -1;
  SafetensorsHeader checkedHeader;
};

} // namespace moec
