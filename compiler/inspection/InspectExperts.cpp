// An artifact's experts as a table, layer by layer, and the names of their widths.
#include "compiler/inspection/Inspect.h"
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"

#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

using namespace moert;

namespace moec {

// How the name of a format ends. The transform is no part of it: describeTransform() counts experts
// with it.
static const char *additionsOf(const WeightFormat &format) {
  return format.hasOffsets ? "+offsets" : format.hasByteScales ? "+bytescales" : "";
}

std::string nameOfFormat(const WeightFormat &format) {
  std::string name = nameOf(format.kind);
  if (isQuantized(format.kind))
    name += strCat("/", format.group);
  return name + additionsOf(format);
}

static uint64_t weightsOf(const MoeLayer &layer) {
  uint64_t weights = 0;
  for (const ExpertMatrix &matrix : layer.matrices)
    weights += uint64_t(matrix.shape.rows) * matrix.shape.cols;
  return weights;
}

double bitsPerWeight(const MoeLayer &layer, const Expert &expert) {
  uint64_t bytes = 0;
  for (const Slice &slice : fullSlicesOf(expert))
    bytes += slice.payloadBytes;
  return double(bytes) * 8 / double(weightsOf(layer));
}

static uint32_t widthOf(std::span<const Slice> copy, ExpertPart part) {
  uint32_t bits = 0;
  for (const Slice &slice : copy)
    bits += bitsOf(formatOf(slice.format, part).kind);
  return bits;
}

ExpertWidth widthOf(const Expert &expert) {
  const std::span<const Slice> full = fullSlicesOf(expert);
  return {widthOf(full, ExpertPart::kGate), widthOf(full, ExpertPart::kDown)};
}

static std::string nameOfCopy(std::span<const Slice> copy, ExpertPart part) {
  const WeightFormat &format = formatOf(copy.front().format, part);
  std::string sliceBits;
  size_t slices = 0;
  for (const Slice &slice : copy)
    if (const WeightKind kind = formatOf(slice.format, part).kind; kind != WeightKind::kInt0)
      sliceBits += strCat(slices++ == 0 ? "" : "+", bitsOf(kind));
  if (slices == 1)
    return nameOfFormat(format);
  return strCat(hasLevels(format.kind) ? "nl" : "int", widthOf(copy, part), "/", format.group,
                additionsOf(format), " as ", sliceBits);
}

std::string nameOfSlices(const Expert &expert, ExpertPart part) {
  const std::string name = nameOfCopy(fullSlicesOf(expert), part);
  const size_t low = lowCopySlicesOf(expert);
  if (low == 0)
    return name;
  return strCat(name, " + ", nameOfCopy(std::span(expert.slices).first(low), part), " copy");
}

std::string nameOfSlices(const Expert &expert) {
  const std::string gateUp = nameOfSlices(expert, ExpertPart::kGate);
  const std::string down = nameOfSlices(expert, ExpertPart::kDown);
  return down == gateUp ? gateUp : strCat(gateUp, ", down ", down);
}

namespace {

/// A line of the table of experts; consecutive equal layers share one.
struct LayerLine {
  uint64_t experts = 0;
  std::string shape, bits;
  std::map<ExpertWidth, uint64_t> counts;           // Experts of each width.
  uint64_t payload = 0, lowCopies = 0, padding = 0; // Bytes of one layer.

  friend bool operator==(const LayerLine &, const LayerLine &) = default;
};

} // namespace

static LayerLine lineOf(const MoeLayer &layer) {
  LayerLine line;
  line.experts = layer.experts.size();
  const MatrixShape &gate = layer.matrices.front().shape;
  line.shape = strCat(gate.cols, " x ", gate.rows);
  double bits = 0;
  for (const Expert &expert : layer.experts) {
    const size_t low = lowCopySlicesOf(expert);
    for (size_t s = 0; s < expert.slices.size(); ++s) {
      const Slice &slice = expert.slices[s];
      (s < low ? line.lowCopies : line.payload) += slice.payloadBytes;
      line.padding += slice.bytes - slice.payloadBytes;
    }
    ++line.counts[widthOf(expert)];
    bits += bitsPerWeight(layer, expert);
  }
  line.bits = fixed(bits / double(layer.experts.size()), 2);
  return line;
}

// One column of counts per width, in descending order.
static TextTable tableOf(const std::set<ExpertWidth, std::greater<>> &widths) {
  std::vector<TextTable::Column> columns = {
      {"layers"}, {"experts"}, {"in x width"}, {"bits/weight"}};
  for (const ExpertWidth &width : widths)
    columns.push_back({width.text() + "b"});
  columns.push_back({"size"});
  return TextTable(std::move(columns));
}

static std::vector<std::string> rowOf(const LayerLine &line, uint32_t from, uint32_t to,
                                      const std::set<ExpertWidth, std::greater<>> &widths) {
  std::vector<std::string> row = {from == to ? std::to_string(from) : strCat(from, "-", to),
                                  std::to_string(line.experts), line.shape, line.bits};
  for (const ExpertWidth &width : widths) {
    auto found = line.counts.find(width);
    row.push_back(found == line.counts.end() ? "-" : std::to_string(found->second));
  }
  row.push_back(formatBytes(line.payload));
  return row;
}

/// A line about the experts that are stored as a transform; none if none is.
static std::string describeTransform(const Artifact &artifact) {
  uint64_t all = 0, transformed = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts) {
      ++all;
      transformed += expert.slices.back().format.gateUp.hasHadamard;
    }
  if (transformed == 0)
    return "";
  return strCat(kIndent, transformed == all ? "all" : std::to_string(transformed),
                " experts hold the Hadamard transform of their matrices' rows\n");
}

std::string describeExperts(const Artifact &artifact) {
  std::set<ExpertWidth, std::greater<>> widths;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      widths.insert(widthOf(expert));
  TextTable table = tableOf(widths);
  uint64_t experts = 0, payload = 0, lowCopies = 0, padding = 0;
  for (size_t first = 0; first < artifact.moeLayers.size();) {
    LayerLine line = lineOf(artifact.moeLayers[first]);
    size_t end = first + 1;
    while (end < artifact.moeLayers.size() && lineOf(artifact.moeLayers[end]) == line &&
           artifact.moeLayers[end].layer == artifact.moeLayers[end - 1].layer + 1)
      ++end;
    table.addRow(
        rowOf(line, artifact.moeLayers[first].layer, artifact.moeLayers[end - 1].layer, widths));
    experts += line.experts * (end - first);
    payload += line.payload * (end - first);
    lowCopies += line.lowCopies * (end - first);
    padding += line.padding * (end - first);
    first = end;
  }
  const uint64_t all = payload + lowCopies + padding;
  double percent = all == 0 ? 0 : double(padding) / double(all) * 100;
  const std::string low =
      lowCopies == 0 ? "" : strCat(formatBytes(lowCopies), " of low copies and ");
  const bool isMixed = std::ranges::any_of(
      widths, [](const ExpertWidth &width) { return width.bits != width.downBits; });
  return strCat("experts, counted by width (4b: 4 bits",
                isMixed ? "; 4/6b: gate and up 4, down 6" : "", "):\n", table.text(kIndent),
                kIndent, experts, " experts: ", formatBytes(payload), ", plus ", low,
                formatBytes(padding), " of padding (", fixed(percent, 1), "% of the records)\n",
                describeTransform(artifact));
}

} // namespace moec
