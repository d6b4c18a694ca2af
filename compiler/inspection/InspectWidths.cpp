// Draws the widths of an artifact's experts: a line per layer with a digit per expert. The digits
// are complete without colours.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"

#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

using namespace moert;

namespace moec {

using Align = TextTable::Align;

// With a label and gaps between groups, 64 cells fit into 80 columns; 128 experts take two lines.
constexpr size_t kCellsPerLine = 64, kCellsPerGroup = 16;

namespace {

/// How a width is drawn. The colours are from a terminal's 256, brighter for larger widths
/// (viridis), so that brightness orders them too.
struct CellStyle {
  uint32_t width;
  char cell;
  int background, foreground;
};

/// Sums over the experts of one width and format.
struct WidthTotal {
  uint64_t experts = 0, payload = 0, padding = 0;
};

} // namespace

constexpr CellStyle kCells[] = {{2, '2', 53, 15},   {3, '3', 60, 15},  {4, '4', 30, 15},
                                {5, '5', 36, 16},   {6, '6', 35, 16},  {8, '8', 113, 16},
                                {16, 'H', 220, 16}, {32, 'F', 231, 16}};

static const CellStyle &styleOf(uint32_t width) {
  static constexpr CellStyle kOther = {0, '?', 8, 15};
  for (const CellStyle &style : kCells)
    if (style.width == width)
      return style;
  return kOther;
}

// Adjacent cells of one colour share a pair of escape sequences.
static std::string drawCells(const std::vector<uint32_t> &widths, size_t begin, size_t end,
                             bool hasColour) {
  std::string text;
  uint32_t coloured = 0; // The width whose colours are on; 0: off.
  for (size_t i = begin; i < end; ++i) {
    const CellStyle &style = styleOf(widths[i]);
    const bool startsGroup = i > begin && (i - begin) % kCellsPerGroup == 0;
    if (coloured != 0 && (startsGroup || coloured != widths[i])) {
      text += "\x1b[0m";
      coloured = 0;
    }
    text += startsGroup ? " " : "";
    if (hasColour && coloured == 0) {
      text += strCat("\x1b[48;5;", style.background, ";38;5;", style.foreground, "m");
      coloured = widths[i];
    }
    text += style.cell;
  }
  return coloured == 0 ? text : text + "\x1b[0m";
}

static std::vector<uint32_t> widthsOf(const MoeLayer &layer) {
  std::vector<uint32_t> widths;
  for (const Expert &expert : layer.experts)
    widths.push_back(widthOf(expert));
  return widths;
}

static bool isUniform(const std::vector<uint32_t> &widths) {
  return std::all_of(widths.begin(), widths.end(),
                     [&](uint32_t width) { return width == widths.front(); });
}

// Draws one layer, or several equal ones: "0-3  4484 ...", with continuation lines "+64  4444 ...".
static void drawLayer(const std::vector<uint32_t> &widths, const std::string &label,
                      size_t labelColumns, bool hasColour, std::string &text) {
  auto begin = [&](const std::string &name) {
    text += strCat(kIndent, std::string(labelColumns - name.size(), ' '), name, kIndent);
  };
  if (widths.size() > kCellsPerLine && isUniform(widths)) {
    begin(label);
    text += strCat(drawCells(widths, 0, 1, hasColour), ", as are all ", widths.size(), "\n");
    return;
  }
  for (size_t at = 0; at < widths.size(); at += kCellsPerLine) {
    begin(at == 0 ? label : strCat("+", at));
    text += drawCells(widths, at, std::min(at + kCellsPerLine, widths.size()), hasColour) + "\n";
  }
}

static std::string drawLayers(const Artifact &artifact, bool hasColour) {
  struct Rows {
    std::string label;
    std::vector<uint32_t> widths;
  };
  std::vector<Rows> layers;
  size_t columns = 0;
  const std::vector<MoeLayer> &all = artifact.moeLayers;
  for (size_t first = 0; first < all.size();) {
    Rows rows = {std::to_string(all[first].layer), widthsOf(all[first])};
    size_t end = first + 1;
    while (end < all.size() && all[end].layer == all[end - 1].layer + 1 &&
           widthsOf(all[end]) == rows.widths)
      ++end;
    if (end - first > 1)
      rows.label += strCat("-", all[end - 1].layer);
    columns = std::max(columns, rows.label.size());
    if (rows.widths.size() > kCellsPerLine)
      columns = std::max(columns, strCat("+", rows.widths.size()).size());
    layers.push_back(std::move(rows));
    first = end;
  }
  std::string text;
  for (const Rows &rows : layers)
    drawLayer(rows.widths, rows.label, columns, hasColour, text);
  return text;
}

// In descending order of width; a width may be stored in several formats.
using TotalKey = std::pair<uint32_t, std::string>;
static std::map<TotalKey, WidthTotal, std::greater<>> totalsOf(const Artifact &artifact) {
  std::map<TotalKey, WidthTotal, std::greater<>> totals;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts) {
      WidthTotal &total = totals[{widthOf(expert), nameOfSlices(expert)}];
      ++total.experts;
      for (const Slice &slice : fullSlicesOf(expert)) {
        total.payload += slice.payloadBytes;
        total.padding += slice.bytes - slice.payloadBytes;
      }
    }
  return totals;
}

// The legend; its first column is drawn like the cells.
static std::string describeTotals(const Artifact &artifact, bool hasColour) {
  TextTable table({{"cell", Align::kLeft},
                   {"bits"},
                   {"format", Align::kLeft},
                   {"experts"},
                   {"bytes"},
                   {""},
                   {"fraction"}});
  auto totals = totalsOf(artifact);
  uint64_t experts = 0, payload = 0;
  for (const auto &[key, total] : totals) {
    experts += total.experts;
    payload += total.payload;
  }
  auto addRow = [&](const std::string &cell, const std::string &bits, const std::string &format,
                    const WidthTotal &total) {
    double percent = payload == 0 ? 0 : double(total.payload) / double(payload) * 100;
    table.addRow({cell, bits, format, std::to_string(total.experts), std::to_string(total.payload),
                  formatBytes(total.payload), fixed(percent, 1) + "%"});
  };
  for (const auto &[key, total] : totals)
    addRow(std::string(1, styleOf(key.first).cell), std::to_string(key.first), key.second, total);
  if (totals.size() > 1)
    addRow("all", "", "", {experts, payload, 0});
  const std::string plain = table.text(kIndent);
  const size_t indent = std::string_view(kIndent).size();
  size_t line = plain.find('\n') + 1; // After the headings.
  std::string text = plain.substr(0, line);
  for (const auto &[key, total] : totals) {
    const size_t end = plain.find('\n', line) + 1;
    text += kIndent + drawCells({key.first}, 0, 1, hasColour);
    text += plain.substr(line + indent + 1, end - line - indent - 1);
    line = end;
  }
  return text + plain.substr(line);
}

std::string describeWidths(const Artifact &artifact, bool hasColour) {
  return strCat("widths, one cell for each expert of a layer:\n", drawLayers(artifact, hasColour),
                "\n", describeTotals(artifact, hasColour));
}

void writeWidths(JsonWriter &json, const Artifact &artifact) {
  json.key("width_totals").beginArray();
  for (const auto &[key, total] : totalsOf(artifact)) {
    json.beginObject();
    json.key("bits").number(key.first);
    json.key("format").string(key.second);
    json.key("experts").number(total.experts);
    json.key("payload_bytes").number(total.payload);
    json.key("padding_bytes").number(total.padding);
    json.endObject();
  }
  json.endArray();
  json.key("widths").beginArray();
  for (const MoeLayer &layer : artifact.moeLayers) {
    json.beginObject();
    json.key("layer").number(layer.layer);
    json.key("bits").numbers(widthsOf(layer));
    json.endObject();
  }
  json.endArray();
}

} // namespace moec
