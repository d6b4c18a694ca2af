// Holds a description against the tensors that a checkpoint really has, before anything is read.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ModelDescription.h"

#include <functional>

namespace moec {

/// Calls visit for every weight that the description names, in the order of the forward pass; a
/// tied head's weight is visited twice.
void forEachWeight(const ModelDescription &description,
                   const std::function<void(const WeightSource &)> &visit);

/// Every tensor that the description names is in the checkpoint, has exactly the shape that all
/// parts taken from it add up to, and a type that can be read. A tensor that stands beside a
/// described one in the same module (a bias that the config does not speak of) is refused too:
/// ignoring it would change the result.
moert::Status checkTensors(const Checkpoint &checkpoint, const ModelDescription &description);

/// The tensors that the description does not name, ascending: of layers beyond the last, say.
std::vector<std::string_view> unusedTensors(const Checkpoint &checkpoint,
                                            const ModelDescription &description);

} // namespace moec
