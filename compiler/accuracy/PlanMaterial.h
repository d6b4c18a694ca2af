// A compilation's inputs to planning, read once: what calibration learned, and the device. They
// are used to make the artifact's plans, and to time widths before the artifact exists.
#pragma once

#include "compiler/accuracy/ArtifactPlanning.h"
#include "compiler/emit/EmitArtifact.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/profile/Learned.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moec {

struct PlanMaterial {
  Learned learned;
  std::vector<uint64_t> searchRuns;    // What the search for widths has read (SeenText::runs()).
  std::optional<DeviceProfile> device; // Absent: none was given.
};

/// Times widths for the first requested budget and preset: an artifact has one choice of widths,
/// made for the first of them. Borrows its inputs.
class ArtifactTimes {
public:
  /// Null without a device or a budget: times are unknown.
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
  ArtifactPlanning planning;
  ReplayedWidths replayed;
};

/// The rule that chose the widths, and its reason.
struct WidthsChosen {
  std::string place;   // ArtifactTimes::place(), if times have chosen.
  WidthsReason widths; // As far as the device's profile is not assumed.
};

/// outcome: one that meets the target; place: ArtifactTimes::place(), empty without times.
WidthsChosen widthsChosen(const WidthSearchOutcome &outcome, const std::string &place);

/// For the artifact's provenance: "bytes", "seconds within 25% on Raspberry Pi 5".
std::string widthsBy(const WidthsChosen &chosen);

} // namespace moec
