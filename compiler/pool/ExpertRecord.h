// Packs an expert's matrices on a grid into a record, and computes the layout of its slices.
#pragma once

#include "compiler/quantize/GridMatrix.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <span>
#include <vector>

namespace moec {

/// A record's slices as in the artifact, without checksums: offsets and sizes follow from the
/// layer's shapes and the formats.
moert::Result<std::vector<moert::Slice>> recordSlices(const moert::MoeLayer &layer,
                                                      std::span<const moert::ExpertFormat> formats);

/// The record's bytes, padding included. `slices` must be the result of recordSlices() for the same
/// layer and formats; their checksums are filled in. Matrices are in the layer's order.
moert::Result<std::vector<std::byte>> packRecord(const moert::MoeLayer &layer,
                                                 std::span<const GridMatrix *const> matrices,
                                                 std::vector<moert::Slice> &slices);

} // namespace moec
