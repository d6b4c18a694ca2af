// Other plans for an artifact that is there: nothing is quantized again, the weights are copied as
// they are, and only what stands behind them is new.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/planning/LearnedSections.h"
#include "compiler/profile/TraceSection.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moec {

struct ReplanRequest {
  std::string artifactPath;
  std::string outputPath;
  std::vector<std::string> budgets; // "512MiB", "6GiB", "25%"; at least one.
  std::vector<std::string> presets; // Empty: auto.
  std::string devicePath;           // A device profile; empty: none is known.
  std::string profilePath; // A calibration profile, whose trace the new artifact keeps; empty: the
                           // artifact's own trace, if it has one.
  uint32_t context = 0;    // Tokens; 0: what the artifact was planned for.
};

/// An artifact's description with other plans, and what they were made from.
struct PlannedArtifact {
  moert::Artifact artifact;
  LearnedSections learned; // Those that are to stand behind its weights.
  std::optional<PlanTrace> trace;
  std::optional<DeviceProfile> device;
};

/// Makes the plans that were asked for; nothing is written, and of the weights nothing is read.
/// outputPath means nothing.
moert::Result<PlannedArtifact> planArtifact(const ReplanRequest &request, const Session &session);

/// Writes outputPath, whole or not at all; the artifact stays as it is. Refuses budgets that cannot
/// work, with the smallest that would, and presets that need a trace or a device that is not there.
moert::Status replanArtifact(const ReplanRequest &request, const Session &session);

} // namespace moec
