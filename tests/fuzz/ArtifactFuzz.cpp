// Untrusted .moe files. Checksums detect accidents, not intent: they are corrected before reading,
// so that the rules that are checked after them are reached.
#include "runtime/format/FilePrefix.h"
#include "runtime/format/Reader.h"
#include "runtime/format/Verify.h"
#include "tests/unit/format/TinyArtifact.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto *bytes = reinterpret_cast<const std::byte *>(data);
  std::vector<std::byte> file(bytes, bytes + size);
  (void)moert::readArtifact(moert::MemorySource("fuzz", file)).isOk();
  if (size < moert::kPrefixBytes)
    return 0;
  repairChecksums(file);
  moert::MemorySource source("fuzz", file);
  if (moert::readArtifact(source).isOk())
    (void)moert::verifyArtifact(source).isOk();
  return 0;
}
