// The rows of a plan's picture: one for each MoE layer, its experts on the left, its turn in one
// token on the right. Internal to the picture.
#pragma once

#include "compiler/picture/PlanPicture.h"
#include "compiler/picture/SvgWriter.h"

#include <cstddef>

namespace moec {

constexpr double kPictureWidth = 900;

/// Where columns begin; numbers end there.
struct PictureColumns {
  static constexpr double kLabelEnd = 40, kBars = 48, kBarsEnd = 214, kRoomEnd = 280,
                          kHitsEnd = 320, kGuesses = 330, kTime = 468, kTimeEnd = 814, kDots = 824,
                          kDotsEnd = 886;
};

/// Rows of one height, below each other. Few layers have tall rows; many have low ones, of which
/// only every n-th has words beside it.
class PictureRows {
public:
  PictureRows(double topY, size_t rows);
  double top(size_t row) const { return first + static_cast<double>(row) * each; }
  double bottom() const { return top(count); }
  double height() const { return each; }
  double baseLine(size_t row) const { return top(row) + each / 2 + kTextHeight / 2; }
  bool hasWords(size_t row) const { return row % wordsEvery == 0; }

private:
  static constexpr double kTextHeight = 7; // Of digits, in the small size of letters.
  double first, each;
  size_t count, wordsEvery;
};

/// Bars of the most wanted expert first, and what is said of the layer.
void drawExperts(SvgWriter &svg, const PlanPicture &picture, const PictureRows &rows);

/// Lanes on one axis of time, and a dot for each of the token's experts.
void drawToken(SvgWriter &svg, const PlanPicture &picture, const PictureRows &rows);

} // namespace moec
