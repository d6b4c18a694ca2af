// The quick loss of an artifact without an accuracy target: how far it is from its reference on a
// few windows that the checkpoint writes, for people and without a bound.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/accuracy/CompileInputs.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <functional>
#include <optional>
#include <string>

namespace moec {

/// 5,100 scored tokens: few, so that the measurement takes less time than the calibration.
constexpr uint32_t kQuickWindows = 20, kQuickWindowTokens = 256;

/// The relative increase of perplexity above which a default compile takes wider experts
/// (docs/accuracy.md, "The quick loss").
constexpr double kQuickLossAim = 0.03;

/// The width that the default tries after one that misses the aim: 5 after 4, 6 after 5. nullopt
/// after 6, and for a loss within the aim.
std::optional<uint32_t> widthAfter(uint32_t bits, const moert::QuickLoss &quick);
/// How likely the default's first width misses the aim: SmolLM2-135M's does, the bundled model's
/// does not.
constexpr double kChanceOfWider = 0.5;
/// The chance of a wider width, once some windows were measured.
double chanceOfWider(uint32_t bits, const moert::QuickLoss &quick);
/// The line for the user where the width missed the aim.
std::string missedAimText(uint32_t bits, uint32_t wider, const moert::QuickLoss &quick);

/// The label of the measurement's step.
constexpr const char *kMeasuringLoss = "measuring the loss";

using OnQuickLoss = std::function<void(const moert::QuickLoss &quick)>;

/// On documents that calibration has not read: what the checkpoint writes for acceptance tests, of
/// which a compile with a quick loss has none. onFirst is called with the loss on the first quarter
/// of the windows.
moert::Result<moert::QuickLoss>
measureQuickLoss(const AccurateCompileRequest &request, const ImportedModel &model,
                 const CheckpointHash &checkpoint, const std::string &referencePath,
                 const std::string &artifactPath, const WorkDirectory &work, const Session &session,
                 const OnQuickLoss &onFirst);

/// Writes it into an artifact that no one reads yet: replaces the manifest, which ends the file.
moert::Status addQuickLoss(const std::string &artifactPath, const moert::QuickLoss &quick);

} // namespace moec
