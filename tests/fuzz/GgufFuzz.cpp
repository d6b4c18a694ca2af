// Untrusted GGUF files: the header, and the tokenizer in its keys.
#include "compiler/import/gguf/GgufHeader.h"
#include "compiler/import/gguf/GgufTokenizer.h"

#include <cstdlib>
#include <cstring>

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

/// What was accepted has to keep its promise: tensors are found by name and lie in the data.
void checkHeader(const moec::ShardHeader &header, uint64_t fileSize) {
  require(header.dataOffset <= fileSize);
  for (const moec::StoredTensor &tensor : header.tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= fileSize - header.dataOffset);
    require(header.find(tensor.name) == &tensor);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto read = [&](uint64_t offset, std::span<std::byte> out) {
    require(offset <= size && out.size() <= size - offset);
    std::memcpy(out.data(), data + offset, out.size());
    return moert::Status();
  };
  const auto header = moec::parseGgufHeader("fuzz", read, size);
  if (!header.isOk())
    return 0;
  checkHeader(header->shard, size);
  (void)moec::makeGgufTokenizerConfig(header->keys);
  if (const auto made = moec::makeGgufTokenizer(header->keys); made.isOk())
    require(made->is_object());
  return 0;
}
