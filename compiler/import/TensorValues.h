// Questions about the values of stored tensors that can mostly be answered from their first bytes.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Whether both tensors have this shape and equal values, whatever types they are stored in. Reads
/// both up to the first difference.
moert::Result<bool> areEqualMatrices(const Checkpoint &checkpoint, const WeightSource &a,
                                     const WeightSource &b);

/// The tensors that the description uses and that hold nothing but zero bytes, in the order of the
/// forward pass: what a download leaves that reserved its file and did not fill it. Biases are left
/// out, since training may leave them at zero. Costs one small read per tensor, and a tensor's
/// whole length only where it is zero.
moert::Result<std::vector<std::string>> allZeroTensors(const Checkpoint &checkpoint,
                                                       const ModelDescription &description);

} // namespace moec
