// The trace section of an artifact from a stranger; the layers are the artifact's.
#include "compiler/profile/TraceSection.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr uint32_t kExperts[] = {6, 6, 300};
  const auto *bytes = reinterpret_cast<const std::byte *>(data);
  (void)moec::decodeTrace({bytes, size}, kExperts).isOk();
  return 0;
}
