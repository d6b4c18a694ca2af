#include "compiler/inspection/Inspect.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Size.h"
#include "runtime/base/Status.h"
#include "runtime/format/Quality.h"

#include <cstdio>
#include <map>

using namespace moert;

namespace moec {

using Align = TextTable::Align;

std::string fixed(double value, int decimals) {
  char text[400]; // Longer than any double's digits before the point.
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
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
  add("activation paths", artifact.pathsOffset, artifact.pathsBytes);
  add("trace", artifact.traceOffset, artifact.traceBytes);
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

/// By width, since a model may have more than one.
static std::string describeKv(const Artifact &artifact) {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> sums; // Slots and bytes.
  for (const KvSlot &slot : artifact.kvSlots) {
    auto &[slots, bytes] = sums[bitsOf(slot.kind)];
    ++slots;
    bytes += slot.bytes();
  }
  TextTable table({{"bits", Align::kLeft}, {"attentions"}, {"size per token"}});
  for (const auto &[bits, sum] : sums)
    table.addRow({std::to_string(bits), std::to_string(sum.first), formatBytes(sum.second)});
  return strCat("keys and values:\n", table.text(kIndent));
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

std::string describeArtifact(const Artifact &artifact, const std::string &fileName,
                             bool hasColour) {
  std::string text = strCat(fileName, ": ", formatBytes(artifact.fileBytes), ", .moe v",
                            artifact.majorVersion, ".", artifact.minorVersion, "\n\n");
  text += strCat(describeModel(artifact), "\n");
  text += describeChat(artifact);
  if (artifact.measured)
    text += strCat(describeMeasured(*artifact.measured), "\n");
  if (artifact.quickLoss)
    text += strCat("quick loss: ", quickLossText(*artifact.quickLoss), "\n\n");
  text += strCat(describeSections(artifact), "\n", describeResidents(artifact));
  if (!artifact.kvSlots.empty())
    text += strCat("\n", describeKv(artifact));
  if (!artifact.moeLayers.empty())
    text += strCat("\n", describeExperts(artifact), "\n", describeWidths(artifact, hasColour));
  return strCat(text, "\n", describePlans(artifact), "\n", describePrograms(artifact),
                describeProvenance(artifact));
}

} // namespace moec
