// Models that compute an input as a whole, which calibration and accuracy targets do not cover.
#pragma once

#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

/// Refuses a model with an encoder, with a prefix whose tokens attend to each other, or with a
/// capacity of experts, for commands that calibrate or measure on texts. path: the checkpoint's.
moert::Status requireDecoder(const ModelDescription &model, const std::string &path);

} // namespace moec
