// The widths that a search has chosen, as a file of text that moe-assign-bits takes:
//
//   moe-widths 1
//   nested                       optional: widths above 2 bits are bit planes
//   group INPUTS                 optional: inputs of an expert's row that share a scale
//   expert LAYER EXPERT BITS     of every expert; LAYER is the model's, from 0; `offsets` may
//   follow weight NAME BITS             of resident matrices by their symbol: 16, 8 or 4
//
// Resident matrices that are not named get what the pass's own option says.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace mlir::moe {

struct ChosenWidth {
  uint32_t bits = 0;
  bool hasOffsets = false;
};

struct ChosenWidths {
  bool isNested = false;
  uint32_t group = 0; // Of experts; 0: what the pass's own option says.
  std::map<std::pair<uint32_t, uint32_t>, ChosenWidth> experts; // (layer, expert)
  std::map<std::string, uint32_t> weights;
};

std::string writeWidths(const ChosenWidths &widths);

/// Refuses lines that are none of the above or say the same twice; `name` is for messages.
moert::Result<ChosenWidths> parseWidths(const std::string &text, const std::string &name);

moert::Result<ChosenWidths> readWidthFile(const std::string &path);

} // namespace mlir::moe
