#include "compiler/import/WholeInputs.h"

#include <algorithm>

namespace moec {

moert::Status requireDecoder(const ModelDescription &model, const std::string &path) {
  const auto isWhole = [](const LayerDescription &layer) {
    return layer.attention.range != moert::AttendedRange::kEarlier ||
           (layer.moe && layer.moe->capacity);
  };
  if (std::none_of(model.layers.begin(), model.layers.end(), isWhole))
    return {};
  return moert::invalidInput(
      path, ": ", model.modelType,
      " computes an input as a whole (an encoder, a prefix, or the capacity of experts), which "
      "calibration and accuracy targets do not cover; expected --bits source, or a width with "
      "--no-calibration");
}

} // namespace moec
