#include "runtime/experts/PathTable.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/policy/Eviction.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace moert {

static_assert(std::endian::native == std::endian::little, "the section is read in place");

// Checks the header and the expert counts, which identify the table's model.
static Status checkHeader(std::span<const std::byte> section,
                          std::span<const uint32_t> layerExperts) {
  PathTableHeader header;
  if (section.size() < sizeof(header))
    return invalidInput("the activation-path table has ", section.size(),
                        " bytes, expected at least ", sizeof(header));
  std::memcpy(&header, section.data(), sizeof(header));
  if (header.magic != PathTableHeader::kMagic || header.zero != 0)
    return invalidInput(
        "this is not an activation-path table: it does not begin with its magic number");
  if (header.version != PathTableHeader::kVersion)
    return invalidInput("the activation-path table has version ", header.version, ", expected ",
                        PathTableHeader::kVersion);
  if (header.layers != layerExperts.size())
    return invalidInput("the activation-path table has ", header.layers, " MoE layers, expected ",
                        layerExperts.size());
  if ((section.size() - sizeof(header)) / sizeof(uint32_t) < layerExperts.size())
    return invalidInput("the activation-path table has ", section.size(), " bytes, too few for ",
                        layerExperts.size(), " MoE layers");
  for (size_t i = 0; i < layerExperts.size(); ++i) {
    uint32_t experts = 0;
    std::memcpy(&experts, section.data() + sizeof(header) + i * sizeof(experts), sizeof(experts));
    if (experts != layerExperts[i])
      return invalidInput("the activation-path table has ", experts, " experts in MoE layer ", i,
                          ", expected ", layerExperts[i]);
  }
  return {};
}

uint64_t pathTableBytes(std::span<const uint32_t> layerExperts) {
  uint64_t bytes = sizeof(PathTableHeader) + layerExperts.size_bytes();
  for (size_t t = 0; t < layerExperts.size(); ++t)
    for (size_t back = 1; back <= 2 && back <= t; ++back)
      bytes += uint64_t(layerExperts[t - back]) * layerExperts[t];
  return bytes;
}

Result<PathTable> PathTable::create(std::span<const std::byte> section,
                                    std::span<const uint32_t> layerExperts) {
  MOERT_RETURN_IF_ERROR(checkHeader(section, layerExperts));
  std::span<const std::byte> left =
      section.subspan(sizeof(PathTableHeader) + layerExperts.size_bytes());
  PathTable table;
  table.layers.resize(layerExperts.size());
  for (size_t t = 0; t < layerExperts.size(); ++t) {
    table.layers[t].experts = layerExperts[t];
    for (size_t back = 1; back <= 2 && back <= t; ++back) {
      uint64_t bytes = uint64_t(layerExperts[t - back]) * layerExperts[t];
      if (bytes > left.size())
        return invalidInput("the activation-path table ends in the rows of MoE layer ", t);
      table.layers[t].rows[back - 1] = left.data();
      left = left.subspan(bytes);
    }
  }
  if (!left.empty())
    return invalidInput("the activation-path table is followed by ", left.size(), " bytes");
  return table;
}

void PathTable::predict(uint32_t layer, std::span<const int32_t> oneBefore,
                        std::span<const int32_t> twoBefore,
                        std::span<uint32_t> probabilities) const {
  const Layer &prefetched = layers[layer];
  assert(probabilities.size() == prefetched.experts);
  std::fill(probabilities.begin(), probabilities.end(), 0);
  uint64_t whole = 0;
  for (size_t back = 0; back < 2 && prefetched.rows[back]; ++back)
    for (int32_t expert : back == 0 ? oneBefore : twoBefore) {
      assert(static_cast<uint32_t>(expert) < layers[layer - back - 1].experts);
      const std::byte *row =
          prefetched.rows[back] + static_cast<uint64_t>(expert) * prefetched.experts;
      for (size_t i = 0; i < probabilities.size(); ++i) {
        probabilities[i] += static_cast<uint32_t>(row[i]);
        whole += static_cast<uint32_t>(row[i]);
      }
    }
  if (whole == 0)
    return;
  for (uint32_t &probability : probabilities)
    probability = static_cast<uint32_t>(uint64_t(probability) * kFixedPointOne / whole);
}

} // namespace moert
