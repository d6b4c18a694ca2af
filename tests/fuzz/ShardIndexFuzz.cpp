// A model.safetensors.index.json from a stranger: no name in it may lead out of the checkpoint's
// folder.
#include "compiler/import/ShardIndex.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  moert::Result<moec::ShardIndex> index = moec::parseShardIndex("fuzz", text);
  if (!index.isOk())
    return 0;
  for (const std::string &file : index.value().files)
    if (file.empty() || file == ".." || file.find('/') != std::string::npos)
      std::abort();
  for (const moec::ShardIndex::Entry &entry : index.value().entries)
    if (entry.file >= index.value().files.size())
      std::abort();
  return 0;
}
