#include "runtime/format/WeightsChecksum.h"

#include "runtime/base/Checksum.h"

#include <span>

namespace moert {

uint64_t weightsChecksum(const Artifact &artifact) {
  ChecksumStream sums;
  const auto add = [&](uint64_t checksum) { sums.update(std::as_bytes(std::span(&checksum, 1))); };
  add(artifact.residentChecksum);
  add(artifact.tokenizerChecksum);
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      for (const Slice &slice : expert.slices)
        add(slice.checksum);
  return sums.digest();
}

} // namespace moert
