// Any bytes as a request's body: what is taken is what the JSON library reads, in the same order.
#include "tools/moert-serve/Fields.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace moert::serve;
  const std::string_view body(reinterpret_cast<const char *>(data), size);
  const JsonLimits limits = {16, 2000, 200}; // Small, so that inputs reach them.
  Json parsed;
  if (parseBody(body, limits, parsed))
    return 0;
  if (parsed.dump() != Json::parse(body).dump())
    std::abort();
  return 0;
}
