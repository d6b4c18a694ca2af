// Activation paths: which experts a layer chose where the two MoE layers before it had chosen
// certain others. What a predictor by table is made from.
#pragma once

#include "compiler/profile/CalibrationProfile.h"

#include <cstdint>
#include <vector>

namespace moec {

/// How many tokens took `expert` after `twoBefore` and `oneBefore`.
struct ActivationPath {
  uint16_t twoBefore = 0, oneBefore = 0, expert = 0;
  uint32_t tokens = 0;
  friend bool operator==(const ActivationPath &, const ActivationPath &) = default;
};

/// Of three MoE layers that follow each other, traced on the same tokens: ascending by twoBefore,
/// oneBefore and expert, without paths that no token took. A token counts once for each pair of
/// its `ranks` best experts of the earlier layers and each of its experts of the last one: more
/// ranks say more of rare pairs, and their number grows with the square.
std::vector<ActivationPath> activationPaths(const LayerTrace &twoBefore,
                                            const LayerTrace &oneBefore, const LayerTrace &layer,
                                            uint32_t ranks);

} // namespace moec
