// The widths of an expert's matrices, as a compilation names them: the layout of codes and scales
// follows from them (FeedbackGrids.h, compiler/quantize/PackGrid.h).
#pragma once

#include "compiler/quantize/GridMatrix.h"
#include "runtime/base/Status.h"
#include "runtime/format/WeightLayout.h"

#include <compare>
#include <cstdint>
#include <string>

namespace moec {

struct ExpertWidth {
  uint32_t bits = 0; // Gate and up.
  uint32_t downBits = 0;

  ExpertWidth() = default;
  ExpertWidth(uint32_t all) : bits(all), downBits(all) {}
  ExpertWidth(uint32_t gateAndUp, uint32_t ofDown) : bits(gateAndUp), downBits(ofDown) {}
  explicit ExpertWidth(const ExpertGrid &grid) : ExpertWidth(grid.gateUp.bits, grid.down.bits) {}

  /// The matrices have equally many weights.
  double meanBits() const { return double(2 * bits + downBits) / moert::kExpertMatrices; }
  /// "4", or "4/6" with a down projection of 6 bits.
  std::string text() const {
    return bits == downBits ? moert::strCat(bits) : moert::strCat(bits, "/", downBits);
  }

  /// By gate and up, then by down.
  friend auto operator<=>(const ExpertWidth &, const ExpertWidth &) = default;
};

} // namespace moec
