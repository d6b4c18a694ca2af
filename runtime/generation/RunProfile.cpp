#include "runtime/generation/RunProfile.h"

#include "runtime/base/JsonWriter.h"

#include <cassert>

namespace moert {

void LayerTotals::add(const LayerProfile &layer) {
  computeNs += layer.computeNs;
  waitNs += layer.waitNs;
  bytesRead += layer.bytesRead;
  prefetchBytes += layer.prefetchBytes;
  hits += layer.hits;
  misses += layer.misses;
  useful += layer.useful;
  ready += layer.ready;
  stalled += layer.stalled;
  cancelled += layer.cancelled;
}

LayerTotals &LayerTotals::operator+=(const LayerTotals &other) {
  computeNs += other.computeNs;
  waitNs += other.waitNs;
  bytesRead += other.bytesRead;
  prefetchBytes += other.prefetchBytes;
  hits += other.hits;
  misses += other.misses;
  useful += other.useful;
  ready += other.ready;
  stalled += other.stalled;
  cancelled += other.cancelled;
  return *this;
}

uint64_t RunProfile::memoryBytes(uint64_t steps, uint32_t layers) {
  return steps * (sizeof(RunStep) + (uint64_t(layers) + 1) * sizeof(LayerProfile));
}

RunProfile::RunProfile(uint64_t stepsOfRoom, uint32_t layers)
    : entriesPerStep(uint64_t(layers) + 1), room(stepsOfRoom) {
  steps.reserve(room);
  entries.reserve(room * entriesPerStep);
}

void RunProfile::record(const RunStep &step, std::span<const LayerProfile> layers) {
  if (steps.size() == room)
    return;
  assert(layers.size() == entriesPerStep);
  steps.push_back(step);
  entries.insert(entries.end(), layers.begin(), layers.end());
}

static void writeFacts(JsonWriter &json, const RunFacts &facts, uint64_t layers) {
  json.key("version").number(uint32_t(1));
  json.key("artifact").string(facts.artifact);
  json.key("plan").string(facts.plan);
  json.key("preset").string(facts.preset);
  json.key("io").string(facts.io);
  json.key("isa").string(facts.isa);
  json.key("threads").number(facts.threads);
  json.key("prefill_chunk_tokens").number(facts.prefillChunkTokens);
  json.key("context_tokens").number(facts.contextTokens);
  json.key("prompt_tokens").number(facts.promptTokens);
  json.key("generated_tokens").number(facts.generatedTokens);
  json.key("end").string(facts.end);
  json.key("budget_bytes").number(facts.budgetBytes);
  json.key("accounted_bytes").number(facts.accountedBytes);
  json.key("peak_memory_bytes").number(facts.peakMemoryBytes);
  json.key("budget_changes").beginArray();
  for (const RunBudget &change : facts.budgets) {
    json.beginObject();
    json.key("first_token").number(change.firstToken);
    json.key("budget_bytes").number(change.budgetBytes);
    json.key("accounted_bytes").number(change.accountedBytes);
    json.key("plan").string(change.plan);
    json.key("reason").string(change.reason);
    json.key("wall_ns").number(change.wallNs);
    json.endObject();
  }
  json.endArray();
  json.key("layers").number(layers);
  json.key("parts").beginArray();
  for (std::string_view part : kPartNames)
    json.string(part);
  json.endArray();
  json.key("part_weight_bytes").numbers(facts.partWeightBytes);
  json.key("kv_bytes_per_token").number(facts.kvBytesPerToken);
}

template <typename Field>
static void writeColumn(JsonWriter &json, const char *name, std::span<const LayerProfile> layers,
                        Field LayerProfile::*field) {
  json.key(name).beginArray();
  for (const LayerProfile &layer : layers)
    json.number(layer.*field);
  json.endArray();
}

static void writeStep(JsonWriter &json, const RunStep &step, std::span<const LayerProfile> layers) {
  json.beginObject();
  json.key("phase").string(step.phase == RunPhase::kPrefill ? "prefill" : "decode");
  json.key("first_token").number(step.firstToken);
  json.key("tokens").number(step.tokens);
  json.key("wall_ns").number(step.wallNs);
  json.key("part_ns").numbers(step.partNs);
  writeColumn(json, "compute_ns", layers, &LayerProfile::computeNs);
  writeColumn(json, "wait_ns", layers, &LayerProfile::waitNs);
  writeColumn(json, "bytes_read", layers, &LayerProfile::bytesRead);
  writeColumn(json, "hits", layers, &LayerProfile::hits);
  writeColumn(json, "misses", layers, &LayerProfile::misses);
  writeColumn(json, "ready", layers, &LayerProfile::ready);
  writeColumn(json, "stalled", layers, &LayerProfile::stalled);
  writeColumn(json, "useful", layers, &LayerProfile::useful);
  writeColumn(json, "cancelled", layers, &LayerProfile::cancelled);
  writeColumn(json, "prefetch_bytes", layers, &LayerProfile::prefetchBytes);
  json.endObject();
}

Status RunProfile::write(OutputFile &file, const RunFacts &facts) const {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  writeFacts(json, facts, entriesPerStep - 1);
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
