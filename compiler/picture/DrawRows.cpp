#include "compiler/picture/DrawRows.h"

#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>

using moert::strCat;
using Columns = moec::PictureColumns;

namespace moec {

// The picture is about as tall as wide; the lowest rows are still distinguishable.
constexpr double kRowsHeight = 560, kTallestRow = 32, kLowestRow = 7, kWordsHeight = 11;

PictureRows::PictureRows(double topY, size_t rows)
    : first(topY), each(std::clamp(kRowsHeight / static_cast<double>(std::max<size_t>(rows, 1)),
                                   kLowestRow, kTallestRow)),
      count(rows), wordsEvery(static_cast<size_t>(std::ceil(kWordsHeight / each))) {}

//===-- Experts -------------------------------------------------------------------------------===//

namespace {

/// Box of one layer's bars; boxes of different rows do not touch.
struct BarBox {
  double top, base, expertWidth, most; // `most`: fraction of tokens at the top.

  double x(size_t expert) const {
    return Columns::kBars + static_cast<double>(expert) * expertWidth;
  }
  double y(double fraction) const { return base - (base - top) * fraction / most; }
};

/// All bars of a kind as one outline: with one shape per bar, files of many experts would be large.
template <typename FractionOf>
SvgPath stairsOf(const BarBox &box, const std::vector<PicturedExpert> &experts,
                 FractionOf fractionOf) {
  SvgPath path;
  path.moveTo(box.x(0), box.base);
  for (size_t i = 0; i < experts.size(); ++i)
    path.upOrDownTo(box.y(fractionOf(experts[i]))).acrossTo(box.x(i + 1));
  path.upOrDownTo(box.base).close();
  return path;
}

constexpr double kPinHeight = 2.5;

void drawBars(SvgWriter &svg, const PicturedLayer &layer, const BarBox &box) {
  const double kept = std::min(layer.keptExperts, static_cast<double>(layer.experts.size()));
  if (kept > 0)
    svg.rect(Columns::kBars, box.top, kept * box.expertWidth, box.base - box.top, "room");
  svg.path(stairsOf(box, layer.experts, [](const PicturedExpert &e) { return e.wantedFraction; }),
           "wanted");
  svg.path(stairsOf(box, layer.experts,
                    [](const PicturedExpert &e) { return e.wantedFraction * e.foundFraction; }),
           "found");
  const double edge = Columns::kBars + kept * box.expertWidth;
  if (kept > 0) // Drawn after the bars, which may cover the background.
    svg.line(edge, box.top, edge, box.base, "edge");
  for (size_t i = 0; i < layer.experts.size(); ++i)
    if (layer.experts[i].isPinned)
      svg.rect(box.x(i), box.base + 0.5, box.expertWidth, kPinHeight, "pin");
  svg.line(Columns::kBars, box.base, Columns::kBarsEnd, box.base, "rule");
}

/// Each layer has its own scale: one expert that all tokens use would flatten all others' bars.
double largestFraction(const PicturedLayer &layer) {
  double most = 0;
  for (const PicturedExpert &expert : layer.experts)
    most = std::max(most, expert.wantedFraction);
  return most > 0 ? most : 1;
}

std::string percent(double fraction) {
  return strCat(static_cast<int64_t>(std::lround(100 * fraction)), "%");
}

void drawExpertWords(SvgWriter &svg, const PicturedLayer &layer, double y) {
  svg.text(Columns::kLabelEnd, y, strCat(layer.number), "small end");
  svg.text(Columns::kRoomEnd, y, layer.room, "small end");
  svg.text(Columns::kHitsEnd, y, percent(layer.hitRate), "small end");
  svg.text(Columns::kPrefetches, y, layer.prefetches,
           layer.prefetches == "none" ? "small pale" : "small");
}

} // namespace

void drawExperts(SvgWriter &svg, const PlanPicture &picture, const PictureRows &rows) {
  for (size_t i = 0; i < picture.layers.size(); ++i) {
    const PicturedLayer &layer = picture.layers[i];
    const double gap = std::min(3.0, rows.height() / 8);
    const double width = (Columns::kBarsEnd - Columns::kBars) /
                         static_cast<double>(std::max<size_t>(layer.experts.size(), 1));
    drawBars(
        svg, layer,
        {rows.top(i) + gap, rows.top(i + 1) - kPinHeight - gap / 2, width, largestFraction(layer)});
    if (rows.hasWords(i))
      drawExpertWords(svg, layer, rows.baseLine(i));
  }
  const double y = rows.bottom() + 16;
  svg.text(Columns::kLabelEnd, y, "all", "small end strong");
  svg.text(Columns::kRoomEnd, y, picture.roomOfAll, "small end strong");
  svg.text(Columns::kHitsEnd, y, percent(picture.hitRateOfAll), "small end strong");
}

//===-- One token -----------------------------------------------------------------------------===//

namespace {

/// The time axis.
struct TimeScale {
  double ms;
  double x(double at) const {
    return Columns::kTime + (Columns::kTimeEnd - Columns::kTime) * at / ms;
  }
};

/// The smallest of 1, 2 or 5 times a power of ten with at most six ticks.
double tickOf(double ms) {
  const double least = ms / 6;
  double power = 1; // Not by libm, whose last bits differ from version to version.
  while (power > least)
    power /= 10;
  while (power * 10 <= least)
    power *= 10;
  for (double step : {1.0, 2.0, 5.0})
    if (step * power >= least)
      return step * power;
  return 10 * power;
}

std::string tickText(double ms, double tick) {
  const double scale = tick >= 1 ? 1 : tick >= 0.1 ? 10 : 100;
  return svgNumber(std::round(ms * scale) / scale);
}

void drawAxis(SvgWriter &svg, const TimeScale &scale, const PictureRows &rows) {
  const double tick = tickOf(scale.ms);
  for (int i = 0; i * tick <= scale.ms; ++i) {
    const double x = scale.x(i * tick);
    svg.line(x, rows.top(0), x, rows.bottom() + 4, "grid");
    svg.text(x, rows.bottom() + 16, tickText(i * tick, tick) + (i == 0 ? " ms" : ""),
             "small middle");
  }
}

void drawLane(SvgWriter &svg, const PicturedTurn &turn, const TimeScale &scale, double y,
              double height) {
  auto draw = [&](double from, double to, const char *className) {
    if (to > from)
      svg.rect(scale.x(from), y, scale.x(to) - scale.x(from), height, className);
  };
  const double computedMs = std::max(turn.routedMs, turn.endMs - turn.waitMs);
  draw(turn.beginMs, turn.routedMs, "before");
  draw(turn.routedMs, computedMs, "compute");
  draw(computedMs, turn.endMs, "wait");
}

void drawDots(SvgWriter &svg, const PicturedTurn &turn, double y, double rowHeight) {
  const struct {
    uint32_t count;
    const char *className;
  } kinds[] = {{turn.held, "held"},
               {turn.arrived, "arrived"},
               {turn.late, "late"},
               {turn.asked, "asked"},
               {turn.unused, "unused"}};
  uint32_t dots = 0;
  for (const auto &kind : kinds)
    dots += kind.count;
  const double pitch =
      std::min(8.0, (Columns::kDotsEnd - Columns::kDots) / std::max<double>(1, dots));
  const double radius = std::min({3.0, 0.42 * pitch, 0.34 * rowHeight});
  double x = Columns::kDots + pitch / 2;
  for (const auto &kind : kinds)
    for (uint32_t i = 0; i < kind.count; ++i, x += pitch)
      svg.circle(x, y, radius, kind.className);
}

} // namespace

void drawToken(SvgWriter &svg, const PlanPicture &picture, const PictureRows &rows) {
  if (picture.layers.empty() || !(picture.tokenMs > 0))
    return;
  const TimeScale scale{picture.tokenMs};
  drawAxis(svg, scale, rows);
  const double laneHeight = rows.height() * 0.7;
  for (size_t i = 0; i < picture.layers.size(); ++i) {
    const PicturedTurn &turn = picture.layers[i].turn;
    const double middle = rows.top(i) + rows.height() / 2;
    drawLane(svg, turn, scale, middle - laneHeight / 2, laneHeight);
    drawDots(svg, turn, middle, rows.height());
  }
  // The time after the last MoE layer follows in that layer's lane.
  PicturedTurn rest;
  rest.beginMs = picture.layers.back().turn.endMs;
  rest.routedMs = rest.endMs = picture.tokenMs;
  const size_t last = picture.layers.size() - 1;
  drawLane(svg, rest, scale, rows.top(last) + (rows.height() - laneHeight) / 2, laneHeight);
}

} // namespace moec
