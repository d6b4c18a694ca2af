// A config.json from a stranger, through to the description of the model.
#include "compiler/import/Architecture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  moert::Result<moec::Config> config = moec::Config::parse("fuzz", text);
  if (!config.isOk())
    return 0;
  moec::ArchitectureInput input{config.value().root(), std::nullopt,
                                [](std::string_view) { return true; }};
  (void)moec::describeModel(input).isOk();
  return 0;
}
