// What a compilation knows for planning, read once: what calibration learned, and the device. With
// it plans are made for the artifact, and widths are timed before there is one.
#pragma once

#include "compiler/accuracy/ArtifactPlanning.h"
#include "compiler/emit/EmitArtifact.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/planning/LearnedSections.h"

#include <memory>
#include <optional>
#include <string>

namespace moec {

struct PlanMaterial {
  Learned learned;
  std::optional<DeviceProfile> device; // Absent: none was given.

  PlanBasis basis() const {
    return {&learned.trace, learned.sections.paths, device ? &*device : nullptr};
  }
};

/// Times widths for the first budget and the first preset that were asked for: an artifact has one
/// choice of widths, and the first is what it is made for. Borrows what it is made of.
class ArtifactTimes {
public:
  /// Null: without a device and a budget nothing is known of times.
  static moert::Result<std::unique_ptr<ArtifactTimes>> create(const PlanMaterial &material,
                                                              const PooledArtifacts &artifacts,
                                                              const mlir::moe::CompileOptions &of,
                                                              const std::atomic<bool> *stop);
  WidthTimes &times() { return replayed; }
  /// "within 25% on Raspberry Pi 5"
  std::string place() const;

private:
  ArtifactTimes(const PlanMaterial &material, const PooledArtifacts &artifacts, std::string given,
                Preset preset, const std::atomic<bool> *stop);

  std::string device, budget;
  PlanBasis basis;
  ArtifactPlanning planning;
  ReplayedWidths replayed;
};

/// Which rule has chosen the widths, and what it went by.
struct WidthsChosen {
  bool isBySeconds = false;
  std::string place;        // ArtifactTimes::place()
  moert::PlanReason reason; // As far as the device's profile is not assumed.
};

/// Of an outcome that is met; place: that of its times, empty where none were known.
WidthsChosen widthsChosen(const WidthSearchOutcome &outcome, const std::string &place);

/// Adds the sections. The passes have made plans by rules; where the device is known, the trace
/// says more.
moert::Status addPlans(EmitPlan &plan, const PlanMaterial &material, const Session &session);

/// Says in the artifact who chose its widths.
void addWidthsChosen(const WidthsChosen &chosen, moert::Artifact &artifact);

} // namespace moec
