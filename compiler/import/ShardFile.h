// One open safetensors file: its descriptor and its checked header.
#pragma once

#include "compiler/import/Safetensors.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Owns the descriptor. Reading is const and may be done from several threads at once.
class ShardFile {
public:
  static moert::Result<ShardFile> open(const std::string &path);

  ShardFile(ShardFile &&other) noexcept;
  ShardFile &operator=(ShardFile &&other) noexcept;
  ~ShardFile();

  const std::string &path() const { return filePath; }
  const SafetensorsHeader &header() const { return checkedHeader; }

  /// Fills out from a position in the file; a file that ends before is an error.
  moert::Status read(uint64_t offset, std::span<std::byte> out) const;

  /// Asks the system to forget what it cached of the file. Only advice: failing is no error.
  void dropCache() const;

private:
  ShardFile(std::string path, int descriptor) : filePath(std::move(path)), fd(descriptor) {}

  std::string filePath;
  int fd = -1;
  SafetensorsHeader checkedHeader;
};

} // namespace moec
