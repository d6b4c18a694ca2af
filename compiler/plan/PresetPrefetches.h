// The prefetches of a preset where the routing is unknown: from the shape of the model, the pool,
// and the times of the device, if one is given. Presets.h has those for a known routing.
#pragma once

#include "compiler/plan/BudgetPlan.h"
#include "compiler/plan/ModelFacts.h"
#include "compiler/plan/PresetRules.h"

#include <optional>
#include <vector>

namespace moec {

/// Why a layer, or a whole plan, has no prefetches.
enum class PrefetchLimit : uint8_t {
  kNone,         // It has some.
  kNoPreset,     // The preset has none.
  kNoTable,      // There is no activation-path table.
  kNoPrediction, // The program predicts the layer from no layer that is so far ahead.
  kAllResident,  // All experts stay in memory.
  kNoStaging,    // The staging pages do not hold another expert.
  kNoTime,       // A read takes longer than computing until the layer's router.
};

struct DecidedPrefetch {
  moert::PrefetchRule rule;
  PrefetchLimit limit = PrefetchLimit::kNone;
  std::optional<Quantity> readsInTime; // On the device; absent: none was given, or not needed.
};

struct PresetPrefetches {
  PrefetchLimit limit = PrefetchLimit::kNone;
  std::vector<DecidedPrefetch> layers; // Per MoE layer; empty if there is a limit.
};

/// Without a device, the numbers of the preset's paper are assumed.
PresetPrefetches presetPrefetches(const ModelFacts &facts, const BudgetPlan &budget,
                                  const PlannedUse &use, const DeviceProfile *device);

} // namespace moec
