#include "compiler/driver/Inspect.h"

#include "compiler/driver/TextTable.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

using namespace moert;

namespace moec {

using Align = TextTable::Align;

constexpr const char *kIndent = "  ";

std::string nameOfFormat(const WeightFormat &format) {
  std::string name = nameOf(format.kind);
  if (isQuantized(format.kind))
    name += strCat("/", format.group);
  if (format.hasOffsets)
    name += "+offsets";
  return name;
}

static std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

static uint64_t weightsOf(const MoeLayer &layer) {
  uint64_t weights = 0;
  for (const ExpertMatrix &matrix : layer.matrices)
    weights += uint64_t(matrix.shape.rows) * matrix.shape.cols;
  return weights;
}

double bitsPerWeight(const MoeLayer &layer, const Expert &expert) {
  uint64_t bytes = 0;
  for (uint8_t slice : expert.variants.front())
    bytes += expert.slices[slice].payloadBytes;
  return double(bytes) * 8 / double(weightsOf(layer));
}

static std::string describeModel(const Artifact &artifact) {
  const ModelInfo &model = artifact.model;
  std::string text = strCat("model: ", model.modelType, "\n");
  text += strCat(kIndent, model.layers, " layers, ", artifact.moeLayers.size(),
                 " with routed experts; hidden size ", model.hiddenSize, "\n");
  text += strCat(kIndent, "vocabulary of ", model.vocabularySize, ", at most ", model.maxPositions,
                 " positions\n");
  std::string tokens = model.bosToken ? strCat("BOS ", *model.bosToken) : "no BOS";
  tokens += model.eosTokens.empty() ? ", no EOS" : ", EOS";
  for (size_t i = 0; i < model.eosTokens.size(); ++i)
    tokens += strCat(i == 0 ? " " : ", ", model.eosTokens[i]);
  return strCat(text, kIndent, tokens, "\n");
}

static std::string describeSections(const Artifact &artifact) {
  TextTable table({{"", Align::kLeft}, {"offset"}, {"bytes"}, {""}});
  auto add = [&](const char *name, uint64_t offset, uint64_t bytes) {
    if (bytes != 0)
      table.addRow({name, std::to_string(offset), std::to_string(bytes), formatBytes(bytes)});
  };
  add("resident weights", artifact.residentOffset, artifact.residentBytes);
  add("records", artifact.recordsOffset, artifact.recordsBytes);
  add("tokenizer", artifact.tokenizerOffset, artifact.tokenizerBytes);
  add("manifest", artifact.manifestOffset, artifact.manifestBytes);
  return strCat("sections:\n", table.text(kIndent));
}

static std::string describeResidents(const Artifact &artifact) {
  struct Sum {
    uint64_t matrices = 0, weights = 0, bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const ResidentWeight &weight : artifact.residents) {
    Sum &sum = sums[nameOfFormat(weight.format)];
    ++sum.matrices;
    sum.weights += uint64_t(weight.shape.rows) * weight.shape.cols;
    sum.bytes += weight.bytes;
  }
  TextTable table({{"format", Align::kLeft}, {"matrices"}, {"weights"}, {"bits/weight"}, {"size"}});
  for (const auto &[format, sum] : sums)
    table.addRow({format, std::to_string(sum.matrices), std::to_string(sum.weights),
                  fixed(double(sum.bytes) * 8 / double(sum.weights), 2), formatBytes(sum.bytes)});
  return strCat("resident weights:\n", table.text(kIndent));
}

namespace {

/// What a layer's line in the table of experts says; equal neighbours share a line.
struct LayerLine {
  uint64_t experts = 0;
  std::string shape, formats, bits, record;
  uint64_t payload = 0, padding = 0; // Of one layer.

  friend bool operator==(const LayerLine &, const LayerLine &) = default;
};

} // namespace

/// "int4/32", and in bit planes "int4/32 as 2+2".
static std::string nameOfSlices(const std::vector<Slice> &slices) {
  if (slices.size() == 1)
    return nameOfFormat(slices.front().format);
  uint32_t bits = 0;
  std::string planes;
  for (const Slice &slice : slices) {
    bits += bitsOf(slice.format.kind);
    planes += strCat(planes.empty() ? "" : "+", bitsOf(slice.format.kind));
  }
  const WeightFormat &format = slices.front().format;
  return strCat("int", bits, "/", format.group, format.hasOffsets ? "+offsets" : "", " as ",
                planes);
}

static uint32_t bitsOfSlices(const std::vector<Slice> &slices) {
  uint32_t bits = 0;
  for (const Slice &slice : slices)
    bits += bitsOf(slice.format.kind);
  return bits;
}

// "int4/32", or how many experts have which width: "bits 8: 1, 4: 3".
static std::string formatsOf(const MoeLayer &layer) {
  std::map<std::string, uint64_t> names;
  std::map<uint32_t, uint64_t, std::greater<>> widths;
  for (const Expert &expert : layer.experts) {
    ++names[nameOfSlices(expert.slices)];
    ++widths[bitsOfSlices(expert.slices)];
  }
  if (names.size() == 1)
    return names.begin()->first;
  std::string text;
  for (auto [bits, count] : widths)
    text += strCat(text.empty() ? "bits " : ", ", bits, ": ", count);
  return text;
}

static LayerLine lineOf(const MoeLayer &layer) {
  LayerLine line;
  line.experts = layer.experts.size();
  const MatrixShape &gate = layer.matrices.front().shape;
  line.shape = strCat(gate.cols, " x ", gate.rows);
  line.formats = formatsOf(layer);
  double bits = 0;
  uint64_t smallest = UINT64_MAX, largest = 0;
  for (const Expert &expert : layer.experts) {
    for (const Slice &slice : expert.slices) {
      line.payload += slice.payloadBytes;
      line.padding += slice.bytes - slice.payloadBytes;
    }
    bits += bitsPerWeight(layer, expert);
    smallest = std::min(smallest, expert.bytes);
    largest = std::max(largest, expert.bytes);
  }
  line.bits = fixed(bits / double(layer.experts.size()), 2);
  line.record = formatBytes(smallest);
  if (smallest != largest)
    line.record += strCat(" to ", formatBytes(largest));
  return line;
}

static std::string describeExperts(const Artifact &artifact) {
  TextTable table({{"layers"},
                   {"experts"},
                   {"in x width"},
                   {"format", Align::kLeft},
                   {"bits/weight"},
                   {"record"}});
  uint64_t experts = 0, payload = 0, padding = 0;
  for (size_t first = 0; first < artifact.moeLayers.size();) {
    LayerLine line = lineOf(artifact.moeLayers[first]);
    size_t end = first + 1;
    while (end < artifact.moeLayers.size() && lineOf(artifact.moeLayers[end]) == line &&
           artifact.moeLayers[end].layer == artifact.moeLayers[end - 1].layer + 1)
      ++end;
    uint32_t from = artifact.moeLayers[first].layer, to = artifact.moeLayers[end - 1].layer;
    table.addRow({from == to ? std::to_string(from) : strCat(from, "-", to),
                  std::to_string(line.experts), line.shape, line.formats, line.bits, line.record});
    experts += line.experts * (end - first);
    payload += line.payload * (end - first);
    padding += line.padding * (end - first);
    first = end;
  }
  std::string text = strCat("experts:\n", table.text(kIndent));
  double share = payload == 0 ? 0 : double(padding) / double(payload + padding) * 100;
  return strCat(text, kIndent, experts, " experts of ", formatBytes(payload), " in all, and ",
                formatBytes(padding), " of padding (", fixed(share, 1), "% of the records)\n");
}

static std::string quotaText(const Plan &plan) {
  if (plan.quotaPages.empty())
    return "-";
  auto [least, most] = std::minmax_element(plan.quotaPages.begin(), plan.quotaPages.end());
  return *least == *most ? std::to_string(*least) : strCat(*least, " to ", *most);
}

static std::string describePlans(const Artifact &artifact) {
  TextTable table({{"name", Align::kLeft},
                   {"budget"},
                   {"context"},
                   {"prefill"},
                   {"cache"},
                   {"pages"},
                   {"in transit"},
                   {"per layer"}});
  for (const Plan &plan : artifact.plans) {
    uint64_t pages = plan.transitPages;
    for (uint32_t quota : plan.quotaPages)
      pages += quota;
    table.addRow({plan.name, plan.budgetBytes == 0 ? "none" : formatBytes(plan.budgetBytes),
                  std::to_string(plan.contextTokens), std::to_string(plan.prefillChunk),
                  formatBytes(pages * artifact.pageBytes), std::to_string(pages),
                  std::to_string(plan.transitPages), quotaText(plan)});
  }
  return strCat("plans, in pages of ", formatBytes(artifact.pageBytes), ":\n", table.text(kIndent));
}

static std::string describePrograms(const Artifact &artifact) {
  TextTable table({{"", Align::kLeft}, {"instructions"}, {"buffers"}, {"arena per token"}});
  for (const Program &program : artifact.programs)
    table.addRow({program.name, std::to_string(program.instructions.size()),
                  std::to_string(program.buffers.size()), formatBytes(program.arenaBytesPerToken)});
  return strCat("programs:\n", table.text(kIndent));
}

static std::string describeProvenance(const Artifact &artifact) {
  if (artifact.provenance.empty())
    return "";
  TextTable table({{"", Align::kLeft}, {"", Align::kLeft}});
  for (const auto &[key, value] : artifact.provenance)
    table.addRow({key, value});
  return strCat("\nmade from:\n", table.text(kIndent));
}

std::string describeArtifact(const Artifact &artifact, const std::string &fileName) {
  std::string text = strCat(fileName, ": ", formatBytes(artifact.fileBytes), ", .moe v",
                            artifact.majorVersion, ".", artifact.minorVersion, "\n\n");
  text += strCat(describeModel(artifact), "\n", describeSections(artifact), "\n",
                 describeResidents(artifact));
  if (!artifact.moeLayers.empty())
    text += strCat("\n", describeExperts(artifact));
  return strCat(text, "\n", describePlans(artifact), "\n", describePrograms(artifact),
                describeProvenance(artifact));
}

} // namespace moec
