// The manifest's bytes (artifact.fbs) to and from an Artifact. FlatBuffers stays behind this
// header. Decoding proves that the bytes are well formed and that every enumeration is known; what
// the values mean to each other is Validate.h's business.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <span>
#include <vector>

namespace moert {

/// Far beyond any model (a description of 100,000 experts has some 20 MB); refuses an absurd size
/// before it is allocated.
constexpr uint64_t kMaxManifestBytes = uint64_t(1) << 28;

std::vector<std::byte> encodeManifest(const Artifact &artifact);

/// Fills in everything that the manifest says; the sections' fields stay as they are.
Status decodeManifest(std::span<const std::byte> bytes, Artifact &artifact);

} // namespace moert
