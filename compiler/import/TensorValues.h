// Predicates on the values of stored tensors that can mostly be decided from their first bytes.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Whether both tensors have this shape and equal values, whatever their stored types. Reads both
/// up to the first difference.
moert::Result<bool> areEqualMatrices(const Checkpoint &checkpoint, const WeightSource &a,
                                     const WeightSource &b);

/// True if all bytes of the tensor are zero; for a quantized weight, all bytes of its codes.
moert::Result<bool> isAllZero(const Checkpoint &checkpoint, const std::string &name);

/// The tensors that the description uses and that hold only zero bytes (for a quantized weight, the
/// codes), in the order of the forward pass: an interrupted download that reserved its file leaves
/// such tensors. Biases are left out, since training may leave them at zero.
///
/// Costs one small read per tensor; a whole tensor is read only if it is zero.
moert::Result<std::vector<std::string>> allZeroTensors(const Checkpoint &checkpoint,
                                                       const ModelDescription &description);

/// The elements of a tensor of I64.
moert::Result<std::vector<int64_t>> readIntegers(const Checkpoint &checkpoint,
                                                 std::string_view name);

} // namespace moec
