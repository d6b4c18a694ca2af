// Untrusted calibration profiles. Checksums detect accidents, not intent: they are corrected before
// reading, so that the rules that are checked after them are reached. Sections have checksums in
// the header, which a fuzzer cannot find by chance; their rules have unit tests.
#include "compiler/profile/ProfileHeader.h"
#include "runtime/format/Reader.h"
#include "tests/unit/profile/TinyProfile.h"

static void readAll(const std::vector<std::byte> &file) {
  moert::MemorySource source("fuzz", file);
  auto profile = moec::CalibrationProfile::open(source);
  if (!profile.isOk())
    return;
  for (size_t i = 0; i < (*profile)->info().moeLayers.size(); ++i)
    (void)(*profile)->layerInputs(i).isOk();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto *bytes = reinterpret_cast<const std::byte *>(data);
  std::vector<std::byte> file(bytes, bytes + size);
  readAll(file);
  if (size < moec::kProfilePageBytes)
    return 0;
  repairProfileChecksums(file);
  readAll(file);
  return 0;
}
