// The quick loss of an artifact without an accuracy target: how far it is from its reference on a
// few windows that the checkpoint writes, for people and without a bound.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/accuracy/CompileInputs.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <string>

namespace moec {

/// 5,100 scored tokens: few, so that the measurement takes less time than the calibration.
constexpr uint32_t kQuickWindows = 20, kQuickWindowTokens = 256;

/// The label of the measurement's step.
constexpr const char *kMeasuringLoss = "measuring the loss";

/// On documents that calibration has not read: what the checkpoint writes for acceptance tests, of
/// which a compile with a quick loss has none.
moert::Result<moert::QuickLoss> measureQuickLoss(const AccurateCompileRequest &request,
                                                 const ImportedModel &model,
                                                 const CheckpointHash &checkpoint,
                                                 const std::string &referencePath,
                                                 const std::string &artifactPath,
                                                 const WorkDirectory &work, const Session &session);

/// Writes it into an artifact that no one reads yet: replaces the manifest, which ends the file.
moert::Status addQuickLoss(const std::string &artifactPath, const moert::QuickLoss &quick);

} // namespace moec
