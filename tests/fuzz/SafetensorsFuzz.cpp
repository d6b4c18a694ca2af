// Untrusted safetensors files: the length field and the header. If the first eight bytes are not a
// possible length, they are used as the size of the data after the header, so that headers of large
// tensors are accepted too.
#include "compiler/import/Safetensors.h"

#include <cstdlib>
#include <cstring>

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

/// What was accepted has to keep its promise: tensors are found by name and fill the data section.
void checkHeader(const moec::ShardHeader &header, uint64_t fileSize) {
  require(header.dataOffset <= fileSize);
  uint64_t total = 0;
  for (const moec::StoredTensor &tensor : header.tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= fileSize - header.dataOffset);
    require(header.find(tensor.name) == &tensor);
    total += tensor.end - tensor.begin;
  }
  require(total == fileSize - header.dataOffset);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view file(reinterpret_cast<const char *>(data), size);
  const auto length = moec::safetensorsHeaderLength("fuzz", file.substr(0, 8), size);
  if (!length.isOk() && size < 8)
    return 0;
  const std::string_view text = file.substr(8, length.isOk() ? *length : size);
  uint64_t fileSize = size;
  if (!length.isOk()) {
    std::memcpy(&fileSize, data, sizeof fileSize);
    fileSize += 8 + text.size(); // May wrap: then it is refused for its size.
  }
  const auto header = moec::parseSafetensorsHeader("fuzz", text, fileSize);
  if (header.isOk())
    checkHeader(*header, fileSize);
  return 0;
}
