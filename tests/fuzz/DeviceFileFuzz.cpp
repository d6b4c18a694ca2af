// A device profile from a stranger: what is accepted gives a time for everything that can be asked.
#include "compiler/plan/DeviceTimes.h"
#include "profiles/DeviceFile.h"

#include <cmath>
#include <cstdlib>

using namespace moec;

static void check(const Quantity &time) {
  if (!std::isfinite(time.value) || time.value <= 0)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  const moert::Result<DeviceProfile> read = parseDevice(text, "fuzz");
  if (!read.isOk())
    return 0;
  const DeviceProfile &device = *read;
  for (uint64_t bytes : {uint64_t{1}, uint64_t{5000}, uint64_t{1} << 32})
    for (double depth : {1.0, 3.5, 5000.0})
      check(readNs(plannedReads(device), bytes, depth));
  for (std::string_view weights : kProductWeights)
    for (uint32_t tokens : {1u, 7u, 5000u})
      for (uint32_t threads : {1u, 2u, 5000u})
        check(productNs(device, {weights, 1000, tokens, threads}));
  check(attentionNs(device, {1000, 500, 3}));
  return 0;
}
