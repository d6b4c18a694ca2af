#include "compiler/inspection/InspectProfile.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "compiler/profile/ProfileHeader.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/DeterministicMath.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/format/Reader.h"

#include <algorithm>
#include <numeric>

using namespace moert;

namespace moec {

// Number of most used experts that are listed per layer.
static constexpr size_t kNamedExperts = 4;

bool beginsAsProfile(const std::string &path) {
  auto file = FileSource::open(path);
  std::vector<std::byte> page(kProfilePageBytes);
  return file.isOk() && file->bytes() >= page.size() && file->read(0, page).isOk() &&
         hasProfileMagic(page);
}

static double log2Of(double x) {
  return deterministicLog(x) / deterministicLog(2);
}

double routingEntropyBits(const CalibrationInfo::MoeLayer &layer) {
  double total = 0, entropy = 0;
  for (uint64_t count : layer.counts)
    total += static_cast<double>(count);
  for (uint64_t count : layer.counts)
    if (count != 0) {
      double probability = static_cast<double>(count) / total;
      entropy -= probability * log2Of(probability);
    }
  return entropy;
}

static std::vector<size_t> mostUsed(const CalibrationInfo::MoeLayer &layer) {
  std::vector<size_t> experts(layer.experts);
  std::iota(experts.begin(), experts.end(), size_t(0));
  std::stable_sort(experts.begin(), experts.end(),
                   [&](size_t a, size_t b) { return layer.counts[a] > layer.counts[b]; });
  experts.resize(std::min(experts.size(), kNamedExperts));
  return experts;
}

static std::string sampleText(const CheckpointHash &hash) {
  return hash.sample ? strCat(", sample ", formatChecksum(hash.sample)) : "";
}

std::string describeProfile(const CalibrationInfo &info, const std::string &fileName) {
  const double tokens = static_cast<double>(info.tokens.size());
  TextTable texts({{"text", TextTable::Align::kLeft}, {"bytes"}, {"windows"}});
  for (const CalibrationText &text : info.texts)
    texts.addRow({text.name, strCat(text.bytes), strCat(text.windows)});
  TextTable layers({{"layer"},
                    {"experts"},
                    {"chosen"},
                    {"entropy"},
                    {"unused"},
                    {"most used (% of the tokens)", TextTable::Align::kLeft}});
  for (const CalibrationInfo::MoeLayer &layer : info.moeLayers) {
    std::string best;
    for (size_t expert : mostUsed(layer))
      best += strCat(best.empty() ? "" : ", ", expert, " (",
                     fixed(static_cast<double>(layer.counts[expert]) / tokens * 100, 1), "%)");
    layers.addRow({strCat(layer.layer), strCat(layer.experts), strCat(layer.topK),
                   fixed(routingEntropyBits(layer), 2) + " of " +
                       fixed(log2Of(static_cast<double>(layer.experts)), 2),
                   strCat(std::count(layer.counts.begin(), layer.counts.end(), uint64_t(0))),
                   best});
  }
  return strCat(fileName, ": calibration profile v", kProfileMajor, ".", kProfileMinor, "\n\n",
                info.tokens.size(), " tokens in ", info.windows(), " windows of ",
                info.windowTokens, ", seed ", info.seed, "\nhidden size ", info.hiddenSize,
                ", vocabulary of ", info.vocabularySize, "\ncheckpoint ",
                formatChecksum(info.checkpointHash.first), sampleText(info.checkpointHash), "\n\n",
                texts.text("  "), "\nrouting, in bits:\n", layers.text("  "));
}

std::string profileAsJson(const CalibrationInfo &info, const std::string &fileName) {
  std::string out;
  JsonWriter json(out);
  json.beginObject();
  json.key("file").string(fileName);
  json.key("tokens").number(static_cast<uint64_t>(info.tokens.size()));
  json.key("window_tokens").number(info.windowTokens);
  json.key("seed").number(info.seed);
  json.key("hidden_size").number(info.hiddenSize);
  json.key("vocabulary_size").number(info.vocabularySize);
  json.key("checkpoint").string(formatChecksum(info.checkpointHash.first));
  if (info.checkpointHash.sample)
    json.key("checkpoint_sample").string(formatChecksum(info.checkpointHash.sample));
  json.key("texts").beginArray();
  for (const CalibrationText &text : info.texts) {
    json.beginObject();
    json.key("name").string(text.name);
    json.key("bytes").number(text.bytes);
    json.key("windows").number(text.windows);
    json.endObject();
  }
  json.endArray();
  json.key("moe_layers").beginArray();
  for (const CalibrationInfo::MoeLayer &layer : info.moeLayers) {
    json.beginObject();
    json.key("layer").number(layer.layer);
    json.key("experts").number(layer.experts);
    json.key("top_k").number(layer.topK);
    json.key("entropy_bits").number(routingEntropyBits(layer));
    json.key("counts").numbers(layer.counts);
    json.key("weight_sums").numbers(layer.weightSums);
    json.endObject();
  }
  json.endArray();
  json.endObject();
  return out + "\n";
}

} // namespace moec
