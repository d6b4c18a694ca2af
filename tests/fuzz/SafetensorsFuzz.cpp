// A safetensors file from a stranger: its length field and its header.
#include "compiler/import/Safetensors.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view file(reinterpret_cast<const char *>(data), size);
  moert::Result<uint64_t> length = moec::safetensorsHeaderLength("fuzz", file.substr(0, 8), size);
  if (!length.isOk())
    return 0;
  std::string_view text = file.substr(8, length.value());
  moert::Result<moec::SafetensorsHeader> header = moec::parseSafetensorsHeader("fuzz", text, size);
  if (!header.isOk())
    return 0;
  // What was accepted has to keep its promise: every tensor lies within the file.
  for (const moec::SafetensorsTensor &tensor : header.value().tensors)
    if (tensor.begin > tensor.end || tensor.end > size - header.value().dataOffset)
      std::abort();
  return 0;
}
