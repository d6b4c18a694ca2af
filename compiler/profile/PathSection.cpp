#include "compiler/profile/PathSection.h"

#include "runtime/experts/PathTable.h"

#include <algorithm>
#include <array>
#include <span>

using namespace moert;

namespace moec {

std::vector<uint8_t> followingFrequencies(const LayerTrace &before, uint32_t expertsBefore,
                                          const LayerTrace &layer, uint32_t experts) {
  const size_t tokens = layer.experts.size() / layer.topK;
  std::vector<uint64_t> chosen(expertsBefore), followed(size_t(expertsBefore) * experts);
  for (size_t token = 0; token < tokens; ++token)
    for (size_t i = 0; i < before.topK; ++i) {
      const size_t earlier = before.experts[token * before.topK + i];
      ++chosen[earlier];
      for (size_t j = 0; j < layer.topK; ++j)
        ++followed[earlier * experts + layer.experts[token * layer.topK + j]];
    }
  std::vector<uint8_t> frequencies(followed.size());
  for (size_t i = 0; i < frequencies.size(); ++i)
    if (uint64_t all = chosen[i / experts])
      frequencies[i] = static_cast<uint8_t>((followed[i] * 255 * 2 + all) / (all * 2));
  return frequencies;
}

template <typename T> static void append(std::vector<std::byte> &bytes, std::span<const T> values) {
  std::span<const std::byte> raw = std::as_bytes(values);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

/// Removes the experts of held-out tokens; the rest of the trace is not used here.
static void holdOut(std::span<const TokenRange> heldOut, LayerTrace &trace) {
  std::vector<bool> isHeldOut(trace.experts.size() / trace.topK);
  for (const TokenRange &range : heldOut)
    std::fill(isHeldOut.begin() + static_cast<ptrdiff_t>(range.begin),
              isHeldOut.begin() + static_cast<ptrdiff_t>(range.end), true);
  size_t kept = 0;
  for (size_t i = 0; i < trace.experts.size(); ++i)
    if (!isHeldOut[i / trace.topK])
      trace.experts[kept++] = trace.experts[i];
  trace.experts.resize(kept);
}

Result<std::vector<std::byte>> makePathSection(const CalibrationProfile &profile,
                                               std::span<const TokenRange> heldOut) {
  const std::vector<CalibrationInfo::MoeLayer> &layers = profile.info().moeLayers;
  PathTableHeader header;
  header.layers = static_cast<uint32_t>(layers.size());
  std::vector<std::byte> section;
  append(section, std::span<const PathTableHeader>(&header, 1));
  for (const CalibrationInfo::MoeLayer &layer : layers)
    append(section, std::span<const uint32_t>(&layer.experts, 1));

  std::array<LayerTrace, 3> traces; // Layer t is at index t % 3.
  for (size_t t = 0; t < layers.size(); ++t) {
    MOERT_ASSIGN_OR_RETURN(traces[t % 3], profile.layerTrace(t));
    holdOut(heldOut, traces[t % 3]);
    for (size_t back = 1; back <= 2 && back <= t; ++back) {
      const std::vector<uint8_t> frequencies = followingFrequencies(
          traces[(t - back) % 3], layers[t - back].experts, traces[t % 3], layers[t].experts);
      append(section, std::span<const uint8_t>(frequencies));
    }
  }
  return section;
}

} // namespace moec
