// Other plans for an existing artifact: nothing is quantized again, the weights are copied
// unchanged, and only the sections after them are new.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/plan/ModelFacts.h"
#include "compiler/planning/LearnedSections.h"
#include "compiler/planning/MissPlans.h"
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
  std::string devicePath;           // A device profile; empty: none.
  std::string profilePath;  // A calibration profile, whose trace the new artifact keeps; empty: the
                            // artifact's own trace, if any.
  uint32_t context = 0;     // In tokens; 0: the context of the artifact's plans.
  uint32_t hobbitDepth = 0; // MoE layers that preset hobbit predicts ahead; 0: fitted to the trace.
  MissRequest miss;         // Without rules every missing expert is waited for.
  bool resume = false;      // Takes losses that an interrupted replan measured; needs rules.
  bool restart = false;     // Removes what an interrupted replan left; not with resume.
};

/// An artifact's description with other plans, and the inputs they were made from.
struct PlannedArtifact {
  moert::Artifact artifact;
  ModelFacts facts;        // From the artifact.
  LearnedSections learned; // To be written after the weights.
  std::optional<PlanTrace> trace;
  std::optional<std::vector<uint64_t>> readRuns; // keptRuns() of the unchanged artifact.
  std::optional<DeviceProfile> device;
};

/// Makes the requested plans without writing a file or reading weights. Ignores outputPath and
/// miss.
moert::Result<PlannedArtifact> planArtifact(const ReplanRequest &request, const Session &session);

/// Writes outputPath atomically; the input artifact does not change. Refuses budgets that
/// are too small, with the smallest that works, and presets that lack their trace or device.
moert::Status replanArtifact(const ReplanRequest &request, const Session &session);

} // namespace moec
