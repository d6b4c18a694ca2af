// The manifest's bytes (artifact.fbs) to and from an Artifact. Nothing outside of this header's
// implementation uses FlatBuffers. Decoding proves that the bytes are well formed and that every
// enumeration is known; Validate.h checks the values against each other.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Far beyond any model (a description of 100,000 experts takes some 20 MB); refuses an absurd size
/// before it is allocated.
constexpr uint64_t kMaxManifestBytes = uint64_t(1) << 28;

/// How a manifest numbers a miss rule's action: as MissAction does, and beyond that those whose low
/// slices are held alone (CacheRules::baseSlices). Their loss was measured so.
enum class StoredMissAction : uint8_t {
  kLower = 1,
  kLowerPrompts = 5,
  kLowerAlone = 6,
  kLowerPromptsAlone = 7,
};

/// The same of CacheSharing: beyond its numbers, one pool of which upper slices have a part of
/// their own (CacheRules::upperPart).
enum class StoredSharing : uint8_t { kOnePool = 1, kTwoPools = 2 };

/// Added to `refines` of an expert's first slice where down has formats of its own, so that readers
/// that do not know them refuse the expert.
constexpr uint32_t kHasDownFormats = 2;

/// Added to `has_offsets` of a format with the Hadamard transform; readers that do not know it
/// refuse the format.
constexpr uint32_t kHadamardMark = 4;

/// In the file, a KV slot's kind is added to its heads from this bit on, so that readers that do
/// not know kinds refuse the slot.
constexpr uint32_t kKvKindShift = 24;

std::vector<std::byte> encodeManifest(const Artifact &artifact);

/// Fills in every field that the manifest holds; leaves the fields of the sections unchanged.
Status decodeManifest(std::span<const std::byte> bytes, Artifact &artifact);

} // namespace moert
