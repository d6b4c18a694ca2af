// The bytes of a record from an expert's matrices on a grid, and where its slices lie.
#pragma once

#include "compiler/quantize/GridMatrix.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <span>
#include <vector>

namespace moec {

/// A record's slices as the artifact has them, without checksums: offsets and sizes follow from the
/// layer's shapes and the formats.
moert::Result<std::vector<moert::Slice>> recordSlices(const moert::MoeLayer &layer,
                                                      std::span<const moert::WeightFormat> formats);

/// The record's bytes, padding included; `slices` are recordSlices() of the same, and get their
/// checksums. Matrices are in the layer's order.
moert::Result<std::vector<std::byte>> packRecord(const moert::MoeLayer &layer,
                                                 std::span<const GridMatrix *const> matrices,
                                                 std::vector<moert::Slice> &slices);

} // namespace moec
