// The widths that a search has chosen, as a text file that moe-assign-bits reads:
//
//   moe-widths 1
//   nested                                 optional: widths above 2 bits are nested slices
//   group INPUTS                           optional: inputs of an expert's row that share a scale
//   expert LAYER EXPERT BITS [offsets]     for every expert; LAYER is the model's, from 0
//   weight NAME BITS                       optional: a resident matrix by its symbol: 16, 8 or 4
//
// Resident matrices without an entry use the pass's option.
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
  uint32_t group = 0; // Group of the experts; 0: the pass's option.
  std::map<std::pair<uint32_t, uint32_t>, ChosenWidth> experts; // (layer, expert)
  std::map<std::string, uint32_t> weights;
};

std::string writeWidths(const ChosenWidths &widths);

/// Refuses lines of another form and repeated entries; `name` is for messages.
moert::Result<ChosenWidths> parseWidths(const std::string &text, const std::string &name);

moert::Result<ChosenWidths> readWidthFile(const std::string &path);

} // namespace mlir::moe
