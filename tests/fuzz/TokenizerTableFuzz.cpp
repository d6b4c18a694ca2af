// A tokenizer table as it lies in an artifact from a stranger: what loads tokenizes within bounds.
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<uint64_t> aligned(size / 8 + 1); // A table starts at a multiple of 8.
  std::memcpy(aligned.data(), data, size);
  std::span<const std::byte> table(reinterpret_cast<const std::byte *>(aligned.data()), size);
  moert::Result<moert::Tokenizer> tokenizer = moert::Tokenizer::load(table);
  if (!tokenizer.isOk())
    return 0;
  moert::Result<std::vector<int32_t>> ids =
      tokenizer.value().encode("The sea,  12 nets\nund Z\xc3\xbcge \xe2\x80\x94 \xff!", true);
  if (ids.isOk())
    (void)tokenizer.value().decode(ids.value(), false);
  return 0;
}
