// The frame of a plan's picture: title, headings, legend and footnotes around the rows.
#include "compiler/picture/DrawRows.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <iterator>
#include <span>

using Columns = moec::PictureColumns;

namespace moec {

namespace {

// The colours are distinguishable with red-green colour blindness. The background is part of the
// picture, so that a page's dark mode does not change it. Fonts are the viewer's.
constexpr const char *kStyleSheet =
    R"(text{font-family:"Helvetica Neue",Arial,"Liberation Sans",sans-serif;font-size:11px;fill:#1f2328}
.ground{fill:#ffffff}
.title{font-size:17px;font-weight:bold}
.value{font-size:18px;font-weight:bold}
.heading{font-size:12.5px;font-weight:bold}
.small{font-size:10px}
.strong{font-weight:bold}
.pale{fill:#656d76}
.end{text-anchor:end}
.middle{text-anchor:middle}
.tile{fill:#f3f5f7}
.band{fill:#f6f8fa}
.rule{stroke:#8c959f;stroke-width:0.5}
.grid{stroke:#d0d7de;stroke-width:0.5}
.room{fill:#fdf0cf}
.edge{stroke:#1f2328;stroke-width:1}
.wanted{fill:#e8871e}
.found{fill:#1f5f99}
.pin{fill:#b3261e}
.before{fill:#b6bec8}
.compute{fill:#5a6b7d}
.wait{fill:#e8871e}
.held{fill:#1f5f99}
.arrived{fill:#3aa17e}
.late{fill:#ffffff;stroke:#3aa17e;stroke-width:1.5}
.asked{fill:#e8871e}
.unused{fill:none;stroke:#8c959f;stroke-width:0.8}
)";

constexpr double kMargin = 16, kTextLine = 15;
constexpr double kTitleY = 28, kSubtitleLine = 17, kFigureHeight = 46;
constexpr size_t kLegendLines = 5;
// Number of characters that fit, in a wide font (DejaVu Sans).
constexpr size_t kMostInTitle = 74, kMostInLine = 124;

/// Truncates to `most` characters: names of files and devices may have any length.
std::string shortened(const std::string &words, size_t most) {
  std::string valid;
  moert::appendLossyUtf8(words, true, valid);
  size_t end = 0;
  for (size_t characters = 0; end < valid.size(); ++characters) {
    if (characters == most)
      return valid.substr(0, end) + "\u2026";
    end += moert::utf8Length(valid[end]);
  }
  return valid;
}

void drawTitle(SvgWriter &svg, const PlanPicture &picture) {
  double y = kTitleY;
  svg.text(kMargin, y, shortened(picture.title, kMostInTitle), "title");
  for (const std::string &line : picture.lines)
    svg.text(kMargin, y += kSubtitleLine, shortened(line, kMostInLine), "pale");
}

void drawFigures(SvgWriter &svg, const PlanPicture &picture, double y) {
  constexpr double kGap = 8;
  const double count = static_cast<double>(picture.figures.size());
  const double width = (kPictureWidth - 2 * kMargin + kGap) / count;
  double x = kMargin;
  for (const PicturedFigure &figure : picture.figures) {
    svg.rect(x, y, width - kGap, kFigureHeight, "tile");
    svg.text(x + 8, y + 22, figure.value, "value");
    svg.text(x + 8, y + 38, figure.caption, "small pale");
    x += width;
  }
}

void drawHeadings(SvgWriter &svg, const PlanPicture &picture, double y) {
  svg.text(kMargin, y, "Experts of each layer, the most used first", "heading");
  svg.text(Columns::kTime, y, "One token, from layer to layer", "heading");
  svg.text(Columns::kTime, y + kTextLine, picture.tokenText, "small pale");
  y += 2 * kTextLine;
  svg.text(Columns::kLabelEnd, y, "layer", "small end pale");
  svg.text(Columns::kBars, y, "tokens that use it", "small pale");
  svg.text(Columns::kRoomEnd, y, "keeps", "small end pale");
  svg.text(Columns::kHitsEnd, y, "hits", "small end pale");
  svg.text(Columns::kPrefetches, y, "prefetch", "small pale");
  svg.text(Columns::kTime, y, "time", "small pale");
  svg.text(Columns::kDots, y, "its experts", "small pale");
}

struct LegendEntry {
  const char *className;
  bool isDot;
  const char *words;
};

constexpr LegendEntry kExpertLegend[] = {
    {"found", false, "fraction of tokens that use the expert and find it resident"},
    {"wanted", false, "fraction of tokens that use it and for which it is read"},
};
// Shown only if the plan has them.
constexpr LegendEntry kRoomLegend[] = {
    {"room", false, "up to the line: experts that the layer keeps between steps"},
};
constexpr LegendEntry kPinLegend[] = {
    {"pin", false, "below a bar: pinned, never leaves memory"},
};
constexpr LegendEntry kTimeLegend[] = {
    {"before", false, "attention, router, predictor, head"},
    {"compute", false, "computing experts"},
    {"wait", false, "waiting for reads"},
};
constexpr LegendEntry kDotLegend[kLegendLines] = {
    {"held", true, "resident"},
    {"arrived", true, "prefetched, read in time"},
    {"late", true, "prefetched, still being read"},
    {"asked", true, "read on demand"},
    {"unused", true, "prefetch wasted"},
};

/// Draws the entries and returns the y of the next one.
double drawEntries(SvgWriter &svg, std::span<const LegendEntry> entries, double x, double y) {
  for (const LegendEntry &entry : entries) {
    if (entry.isDot)
      svg.circle(x + 5, y - 4, 3.5, entry.className);
    else
      svg.rect(x, y - 9, 10, 10, entry.className);
    svg.text(x + 16, y, entry.words, "small");
    y += kTextLine;
  }
  return y;
}

bool hasRoomOfLayers(const PlanPicture &picture) {
  return std::ranges::any_of(picture.layers,
                             [](const PicturedLayer &layer) { return layer.keptExperts > 0; });
}

bool hasPins(const PlanPicture &picture) {
  return std::ranges::any_of(picture.layers, [](const PicturedLayer &layer) {
    return std::ranges::any_of(layer.experts, &PicturedExpert::isPinned);
  });
}

constexpr const char *kFootnotes[] = {
    "bars: each layer has its own scale; waiting: drawn after the compute that it overlaps",
    "prefetch: a layer's predictor, how many layers ahead, and how many of its candidates are "
    "read",
    "resident in time: hits, and prefetches that were read in time",
    "Belady: bytes read by the best cache of this size that knows the future; bound: the time to "
    "compute, or to read those bytes",
};

void drawLegend(SvgWriter &svg, const PlanPicture &picture, double y) {
  double expertsY = drawEntries(svg, kExpertLegend, kMargin, y);
  if (hasRoomOfLayers(picture))
    expertsY = drawEntries(svg, kRoomLegend, kMargin, expertsY);
  if (hasPins(picture))
    drawEntries(svg, kPinLegend, kMargin, expertsY);
  drawEntries(svg, kTimeLegend, Columns::kTime, y);
  drawEntries(svg, kDotLegend, Columns::kTime + 230, y);
  y += kLegendLines * kTextLine + 4;
  for (const char *words : kFootnotes) {
    svg.text(kMargin, y, words, "small pale");
    y += kTextLine;
  }
}

} // namespace

std::string drawPlan(const PlanPicture &picture) {
  const double figuresY = kTitleY + static_cast<double>(picture.lines.size()) * kSubtitleLine + 12;
  const double headingsY = figuresY + kFigureHeight + 26;
  const PictureRows rows(headingsY + 2 * kTextLine + 8, picture.layers.size());
  const double legendY = rows.bottom() + 46;
  const double height = legendY + (kLegendLines + std::size(kFootnotes)) * kTextLine + 8;

  SvgWriter svg(kPictureWidth, height, picture.title, kStyleSheet);
  svg.rect(0, 0, kPictureWidth, height, "ground");
  drawTitle(svg, picture);
  drawFigures(svg, picture, figuresY);
  drawHeadings(svg, picture, headingsY);
  // Every other row has a background, as a guide for the eye.
  for (size_t i = 1; i < picture.layers.size(); i += 2)
    svg.rect(kMargin, rows.top(i), kPictureWidth - 2 * kMargin, rows.height(), "band");
  drawExperts(svg, picture, rows);
  drawToken(svg, picture, rows);
  drawLegend(svg, picture, legendY);
  return std::move(svg).finish();
}

} // namespace moec
