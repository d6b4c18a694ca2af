// Draws the widths of an artifact's experts: a line per layer with a digit per expert. The digits
// are complete without colours.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"

#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
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

/// The letters of an artifact's widths whose down differs: a for the largest.
using MixedCells = std::map<ExpertWidth, char>;

/// Sums over the experts of one width and format.
struct WidthTotal {
  uint64_t experts = 0, payload = 0, padding = 0;
  const Expert *first = nullptr; // One of them.
};

/// In descending order of width; a width may be stored in several formats, here by name.
using WidthTotals = std::map<std::pair<ExpertWidth, std::string>, WidthTotal, std::greater<>>;

} // namespace

constexpr CellStyle kCells[] = {{2, '2', 53, 15},   {3, '3', 60, 15},  {4, '4', 30, 15},
                                {5, '5', 36, 16},   {6, '6', 35, 16},  {8, '8', 113, 16},
                                {16, 'H', 220, 16}, {32, 'F', 231, 16}};

static MixedCells mixedCellsOf(const Artifact &artifact) {
  std::set<ExpertWidth, std::greater<>> mixed;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      if (const ExpertWidth width = widthOf(expert); width.bits != width.downBits)
        mixed.insert(width);
  MixedCells cells;
  for (const ExpertWidth &width : mixed)
    cells.emplace(width, cells.size() < 26 ? char('a' + cells.size()) : '?');
  return cells;
}

/// A mixed width has the colours of its mean, rounded up.
static CellStyle styleOf(const ExpertWidth &width, const MixedCells &mixed) {
  static constexpr CellStyle kOther = {0, '?', 8, 15};
  const auto own = mixed.find(width);
  for (CellStyle style : kCells) {
    if (own == mixed.end() ? style.width != width.bits : style.width < width.meanBits())
      continue;
    if (own != mixed.end())
      style.cell = own->second;
    return style;
  }
  return kOther;
}

// Adjacent cells of one colour share a pair of escape sequences.
static std::string drawCells(std::span<const ExpertWidth> widths, const MixedCells &mixed,
                             bool hasColour) {
  std::string text;
  const ExpertWidth *coloured = nullptr; // The width whose colours are on, if they are.
  for (size_t i = 0; i < widths.size(); ++i) {
    const CellStyle style = styleOf(widths[i], mixed);
    const bool startsGroup = i > 0 && i % kCellsPerGroup == 0;
    if (coloured && (startsGroup || *coloured != widths[i])) {
      text += "\x1b[0m";
      coloured = nullptr;
    }
    text += startsGroup ? " " : "";
    if (hasColour && !coloured) {
      text += strCat("\x1b[48;5;", style.background, ";38;5;", style.foreground, "m");
      coloured = &widths[i];
    }
    text += style.cell;
  }
  return coloured ? text + "\x1b[0m" : text;
}

static std::vector<ExpertWidth> widthsOf(const MoeLayer &layer) {
  std::vector<ExpertWidth> widths;
  for (const Expert &expert : layer.experts)
    widths.push_back(widthOf(expert));
  return widths;
}

static bool isUniform(std::span<const ExpertWidth> widths) {
  return std::ranges::all_of(widths,
                             [&](const ExpertWidth &width) { return width == widths.front(); });
}

// Draws one layer, or several equal ones: "0-3  4484 ...", with continuation lines "+64  4444 ...".
static void drawLayer(std::span<const ExpertWidth> widths, const MixedCells &mixed,
                      const std::string &label, size_t labelColumns, bool hasColour,
                      std::string &text) {
  auto begin = [&](const std::string &name) {
    text += strCat(kIndent, std::string(labelColumns - name.size(), ' '), name, kIndent);
  };
  if (widths.size() > kCellsPerLine && isUniform(widths)) {
    begin(label);
    text +=
        strCat(drawCells(widths.first(1), mixed, hasColour), ", as are all ", widths.size(), "\n");
    return;
  }
  for (size_t at = 0; at < widths.size(); at += kCellsPerLine) {
    begin(at == 0 ? label : strCat("+", at));
    const size_t cells = std::min(kCellsPerLine, widths.size() - at);
    text += drawCells(widths.subspan(at, cells), mixed, hasColour) + "\n";
  }
}

static std::string drawLayers(const Artifact &artifact, const MixedCells &mixed, bool hasColour) {
  struct Rows {
    std::string label;
    std::vector<ExpertWidth> widths;
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
    drawLayer(rows.widths, mixed, rows.label, columns, hasColour, text);
  return text;
}

static WidthTotals totalsOf(const Artifact &artifact) {
  WidthTotals totals;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts) {
      WidthTotal &total = totals[{widthOf(expert), nameOfSlices(expert)}];
      ++total.experts;
      total.first = &expert;
      for (const Slice &slice : fullSlicesOf(expert)) {
        total.payload += slice.payloadBytes;
        total.padding += slice.bytes - slice.payloadBytes;
      }
    }
  return totals;
}

// The legend; its first column is drawn like the cells.
static std::string describeTotals(const Artifact &artifact, const MixedCells &mixed,
                                  bool hasColour) {
  TextTable table({{"cell", Align::kLeft},
                   {"bits"},
                   {"format", Align::kLeft},
                   {"experts"},
                   {"bytes"},
                   {""},
                   {"fraction"}});
  const WidthTotals totals = totalsOf(artifact);
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
  std::vector<std::optional<ExpertWidth>> cells; // One for each row.
  for (const auto &[key, total] : totals) {
    const std::string gateUp = nameOfSlices(*total.first, ExpertPart::kGate);
    const std::string down = nameOfSlices(*total.first, ExpertPart::kDown);
    addRow(std::string(1, styleOf(key.first, mixed).cell), key.first.text(), gateUp, total);
    cells.emplace_back(key.first);
    if (down == gateUp)
      continue;
    table.addRow({"", "down", down, "", "", "", ""});
    cells.emplace_back();
  }
  if (totals.size() > 1)
    addRow("all", "", "", {experts, payload, 0});
  const std::string plain = table.text(kIndent);
  const size_t indent = std::string_view(kIndent).size();
  size_t line = plain.find('\n') + 1; // After the headings.
  std::string text = plain.substr(0, line);
  for (const std::optional<ExpertWidth> &cell : cells) {
    const size_t end = plain.find('\n', line) + 1;
    const std::string drawn = cell ? drawCells(std::span(&*cell, 1), mixed, hasColour) : " ";
    text += kIndent + drawn + plain.substr(line + indent + 1, end - line - indent - 1);
    line = end;
  }
  return text + plain.substr(line);
}

std::string describeWidths(const Artifact &artifact, bool hasColour) {
  const MixedCells mixed = mixedCellsOf(artifact);
  return strCat("widths, one cell for each expert of a layer:\n",
                drawLayers(artifact, mixed, hasColour), "\n",
                describeTotals(artifact, mixed, hasColour));
}

void writeWidths(JsonWriter &json, const Artifact &artifact) {
  json.key("width_totals").beginArray();
  for (const auto &[key, total] : totalsOf(artifact)) {
    json.beginObject();
    json.key("bits").number(key.first.bits);
    json.key("down_bits").number(key.first.downBits);
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
    std::vector<uint32_t> bits, downBits;
    for (const ExpertWidth &width : widthsOf(layer)) {
      bits.push_back(width.bits);
      downBits.push_back(width.downBits);
    }
    json.key("bits").numbers(bits);
    json.key("down_bits").numbers(downBits);
    json.endObject();
  }
  json.endArray();
}

} // namespace moec
