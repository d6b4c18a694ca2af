#include "compiler/report/ScaledCosts.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

/// Slices in proportion to an expert that has another size now, at full precision; a low copy
/// before its other slices fills whole pages.
static void scaleSlices(uint64_t bytes, uint16_t lowCopySlices, uint64_t page,
                        std::vector<uint64_t> &ends) {
  const uint64_t lowBefore = lowCopySlices == 0 ? 0 : ends[lowCopySlices - 1u];
  const double factor = double(bytes) / double(ends.back() - lowBefore);
  auto scaled = [factor](uint64_t end) {
    return static_cast<uint64_t>(std::llround(double(end) * factor));
  };
  const uint64_t low = roundUp(scaled(lowBefore), page);
  for (size_t i = 0; i < ends.size(); ++i)
    ends[i] = i < lowCopySlices ? std::min(low, scaled(ends[i]))
                                : low + std::min(bytes, scaled(ends[i] - lowBefore));
  if (lowCopySlices > 0)
    ends[lowCopySlices - 1u] = low;
  ends.back() = low + bytes;
}

void scaleExperts(double factor, const ModelFacts &facts, StepCosts &costs,
                  ScaledRecords &scaledRecords) {
  scaledRecords = {facts.recordBytes, facts.sliceEnds};
  const uint64_t page = facts.footprint.pageBytes;
  double wantedPages = 0;
  uint64_t pages = 0; // So far.
  for (std::vector<uint64_t> &layer : scaledRecords.bytes)
    for (uint64_t &bytes : layer) {
      wantedPages += factor * static_cast<double>(divideUp(bytes, page));
      const auto own = static_cast<uint64_t>(
          std::max<int64_t>(1, std::llround(wantedPages) - static_cast<int64_t>(pages)));
      pages += own;
      const auto scaled = static_cast<uint64_t>(std::llround(double(bytes) * factor));
      bytes = std::clamp(scaled, (own - 1) * page + 1, own * page);
    }
  for (size_t l = 0; l < scaledRecords.sliceEnds.size(); ++l)
    for (size_t e = 0; e < scaledRecords.sliceEnds[l].size(); ++e)
      scaleSlices(scaledRecords.bytes[l][e],
                  facts.lowCopySlices.empty() ? uint16_t(0) : facts.lowCopySlices[l][e], page,
                  scaledRecords.sliceEnds[l][e]);
  for (StepCosts::Layer &layer : costs.layers) {
    layer.expert.firstNs *= factor;
    layer.expert.furtherNs *= factor;
    layer.checks.sliceNs[0] *= factor;
  }
}

void scaleComputing(double factor, StepCosts &costs) {
  for (StepCosts::Layer &layer : costs.layers) {
    for (TokenCost *cost : {&layer.before, &layer.beside, &layer.expert}) {
      cost->firstNs *= factor;
      cost->furtherNs *= factor;
    }
    layer.checks.sliceNs[0] *= factor;
  }
  costs.after.firstNs *= factor;
}

ReadTable changedReads(const ReadTable &reads, double rate, double latency) {
  ReadTable changed = reads;
  const double latencyNs =
      0.9 * static_cast<double>(reads.sizes[0]) / reads.bytesPerSecond[0].value * 1e9;
  for (size_t i = 0; i < changed.bytesPerSecond.size(); ++i) {
    Quantity &each = changed.bytesPerSecond[i];
    const double bytes = static_cast<double>(reads.sizes[i / reads.depths.size()]) *
                         reads.depths[i % reads.depths.size()];
    const double ns = bytes / each.value * 1e9, ofLatency = std::min(latencyNs, ns);
    each.value = bytes / ((ns - ofLatency) / rate + ofLatency * latency) * 1e9;
  }
  return changed;
}

} // namespace moec
