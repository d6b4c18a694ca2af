#include "runtime/serving/RunProfile.h"

#include "runtime/format/FieldJson.h"

#include <algorithm>
#include <cassert>

namespace moert {

void LayerTotals::add(const LayerProfile &layer) {
  forEachColumn([&](const char *, auto ofStep, auto ofSum) { this->*ofSum += layer.*ofStep; });
  lowHits += layer.lowHits;
  lowMisses += layer.lowMisses;
}

LayerTotals &LayerTotals::operator+=(const LayerTotals &other) {
  forEachColumn([&](const char *, auto, auto ofSum) { this->*ofSum += other.*ofSum; });
  lowHits += other.lowHits;
  lowMisses += other.lowMisses;
  return *this;
}

//===-- Steps ---------------------------------------------------------------------------------===//

static uint64_t stepBytes(uint32_t layers) {
  return sizeof(RunStep) + (uint64_t(layers) + 1) * sizeof(LayerProfile);
}

uint64_t RunProfile::roomFor(uint64_t steps, uint32_t layers) {
  const uint64_t held = std::max(kMostStepBytes / stepBytes(layers), kLeastProfiledSteps);
  return std::min({steps, held, kMostProfiledSteps});
}

uint64_t RunProfile::memoryBytes(uint64_t steps, uint32_t layers) {
  const uint64_t sums = 2 * (uint64_t(layers) + 1) * sizeof(LayerTotals);
  return steps == 0 ? 0 : sums + roomFor(steps, layers) * stepBytes(layers);
}

RunProfile::RunProfile(uint64_t stepsOfRun, uint32_t layers)
    : entriesPerStep(uint64_t(layers) + 1), room(roomFor(stepsOfRun, layers)) {
  if (room == 0)
    return;
  steps.reserve(room);
  entries.reserve(room * entriesPerStep);
  prefill.layers.resize(entriesPerStep);
  decode.layers.resize(entriesPerStep);
}

void RunProfile::addToSums(const RunStep &step, std::span<const LayerProfile> layers) {
  Sums &sums = step.phase == RunPhase::kPrefill ? prefill : decode;
  ++sums.steps;
  sums.tokens += step.tokens;
  sums.wallNs += step.wallNs;
  sums.reads.reads += step.reads.reads;
  sums.reads.busyNs += step.reads.busyNs;
  sums.reads.underWayNs += step.reads.underWayNs;
  for (size_t i = 0; i < kStepParts; ++i)
    sums.partNs[i] += step.partNs[i];
  for (size_t i = 0; i < layers.size(); ++i)
    sums.layers[i].add(layers[i]);
}

void RunProfile::dropEverySecond() {
  const size_t kept = (steps.size() + 1) / 2;
  for (size_t i = 1; i < kept; ++i) {
    steps[i] = steps[2 * i];
    const auto from = entries.begin() + static_cast<ptrdiff_t>(2 * i * entriesPerStep);
    std::copy_n(from, entriesPerStep, entries.begin() + static_cast<ptrdiff_t>(i * entriesPerStep));
  }
  steps.resize(kept);
  entries.resize(kept * entriesPerStep);
  stride *= 2;
}

void RunProfile::record(const RunStep &step, std::span<const LayerProfile> layers) {
  if (room == 0)
    return;
  assert(layers.size() == entriesPerStep);
  addToSums(step, layers);
  if (recorded % stride == 0 && steps.size() == room)
    dropEverySecond();
  if (recorded++ % stride != 0)
    return;
  steps.push_back(step);
  entries.insert(entries.end(), layers.begin(), layers.end());
}

//===-- JSON ----------------------------------------------------------------------------------===//

/// Entries are LayerProfile or LayerTotals.
template <typename Entry>
static void writeColumns(JsonWriter &json, std::span<const Entry> layers) {
  forEachColumn([&](const char *name, auto ofStep, auto ofSum) {
    json.key(name).beginArray();
    for (const Entry &layer : layers)
      json.number(layer.*fieldOf<Entry>(ofStep, ofSum));
    json.endArray();
  });
}

static void writeReads(JsonWriter &json, const StepReads &reads) {
  json.key("reads").number(reads.reads);
  json.key("reading_ns").number(reads.busyNs);
  json.key("under_way_ns").number(reads.underWayNs);
}

static void writeStep(JsonWriter &json, const RunStep &step, std::span<const LayerProfile> layers) {
  json.beginObject();
  json.key("phase").string(step.phase == RunPhase::kPrefill ? "prefill" : "decode");
  json.key("first_token").number(step.firstToken);
  json.key("tokens").number(step.tokens);
  json.key("begin_ns").number(step.beginNs);
  json.key("wall_ns").number(step.wallNs);
  json.key("resident_bytes").number(step.residentBytes);
  writeReads(json, step.reads);
  json.key("part_ns").numbers(step.partNs);
  writeColumns(json, layers);
  json.endObject();
}

void RunProfile::writeSums(JsonWriter &json, const char *phase, const Sums &sums) {
  json.key(phase).beginObject();
  json.key("steps").number(sums.steps);
  json.key("tokens").number(sums.tokens);
  json.key("wall_ns").number(sums.wallNs);
  writeReads(json, sums.reads);
  json.key("part_ns").numbers(sums.partNs);
  writeColumns(json, std::span<const LayerTotals>(sums.layers));
  json.endObject();
}

Status RunProfile::write(OutputFile &file, const RunFacts &facts, const RouteRecord &routes) const {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("version").number(uint32_t(1));
  json.key("layers").number(entriesPerStep - 1);
  json.key("parts").beginArray();
  for (std::string_view part : kPartNames)
    json.string(part);
  json.endArray();
  writeFields(json, facts);
  json.key("totals").beginObject();
  writeSums(json, "prefill", prefill);
  writeSums(json, "decode", decode);
  json.endObject();
  MOERT_RETURN_IF_ERROR(routes.write(json, text, file, facts.promptTokens));
  json.key("kept_every").number(stride);
  json.key("steps").beginArray();
  for (size_t i = 0; i < steps.size(); ++i) {
    text += '\n';
    writeStep(json, steps[i], std::span(entries).subspan(i * entriesPerStep, entriesPerStep));
    MOERT_RETURN_IF_ERROR(file.append(text));
    text.clear();
  }
  json.endArray();
  json.endObject();
  text += '\n';
  return file.append(text);
}

} // namespace moert
