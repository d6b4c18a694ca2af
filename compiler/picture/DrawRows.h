// The rows of a plan's picture, one per MoE layer: its experts on the left, its layer pass of one
// token on the right. Internal to the picture.
#pragma once

#include "compiler/picture/PlanPicture.h"
#include "compiler/picture/SvgWriter.h"

#include <cstddef>

namespace moec {

constexpr double kPictureWidth = 900;

/// Columns of text begin here; columns of numbers end here.
struct PictureColumns {
  static constexpr double kLabelEnd = 40, kBars = 48, kBarsEnd = 214, kRoomEnd = 280,
                          kHitsEnd = 320, kPrefetches = 330, kTime = 468, kTimeEnd = 814,
                          kDots = 824, kDotsEnd = 886;
};

/// Rows of equal height, one below the other. With few layers rows are tall; with many they are
/// low, and only every n-th has text.
class PictureRows {
public:
  PictureRows(double topY, size_t rows);
  double top(size_t row) const { return first + static_cast<double>(row) * each; }
  double bottom() const { return top(count); }
  double height() const { return each; }
  double baseLine(size_t row) const { return top(row) + each / 2 + kTextHeight / 2; }
  bool hasWords(size_t row) const { return row % wordsEvery == 0; }

private:
  static constexpr double kTextHeight = 7; // Height of digits in the small font size.
  double first, each;
  size_t count, wordsEvery;
};

/// Draws the bars, the most used expert first, and each layer's text.
void drawExperts(SvgWriter &svg, const PlanPicture &picture, const PictureRows &rows);

/// Draws the lanes on a common time axis, and one dot per expert of the token.
void drawToken(SvgWriter &svg, const PlanPicture &picture, const PictureRows &rows);

} // namespace moec
