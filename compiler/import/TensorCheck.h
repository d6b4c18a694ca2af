// Checks a description against the tensors of a checkpoint, before any weights are read.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ModelDescription.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace moec {

/// Calls visit for every weight that the description names, in the order of the forward pass; a
/// tied head's weight is visited twice.
void forEachWeight(const ModelDescription &description,
                   const std::function<void(const WeightSource &)> &visit);

/// The same, for changing them.
void changeEachWeight(ModelDescription &description,
                      const std::function<void(WeightSource &)> &change);

/// The tensors that a checkpoint of the description has, by name, each with its shape; a single row
/// has the shape of a vector. A tied head is no tensor of its own.
std::map<std::string, std::vector<uint64_t>> tensorShapes(const ModelDescription &description);

/// Checks that every described tensor is in the checkpoint, with exactly the shape that its parts
/// add up to and a supported type, and that there are no unusedTensors(), which would mean another
/// model than the description's. Biases and zero points of used weights may be there if they are
/// all zero, since they change nothing.
moert::Status checkTensors(const Checkpoint &checkpoint, const ModelDescription &description);

/// The tensors that the description does not name and that may matter to its model, in ascending
/// order: not those of its otherParts, and, of every family, not the buffers of rotations and not
/// the layers past the last one for multi-token prediction (DeepSeek-V3, GLM).
std::vector<std::string_view> unusedTensors(const Checkpoint &checkpoint,
                                            const ModelDescription &description);

} // namespace moec
