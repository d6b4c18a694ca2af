// A size as a person types it: whatever is accepted and not a fraction prints as a size again.
#include "runtime/base/Size.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  moert::Result<moert::Size> parsed = moert::parseSize(text);
  if (!parsed.isOk())
    return 0;
  if (parsed.value().fraction && (*parsed.value().fraction <= 0 || *parsed.value().fraction > 1))
    std::abort();
  if (!parsed.value().fraction && parsed.value().bytes == 0)
    std::abort();
  if (moert::formatBytes(parsed.value().bytes).empty())
    std::abort();
  return 0;
}
