// Stages of a compilation to an accuracy target that execute the reference before the search: the
// checkpoint writes missing texts, and is calibrated. Results are kept in the work directory.
#pragma once

#include "compiler/accuracy/CompileInputs.h"
#include "compiler/accuracy/PooledArtifacts.h"
#include "compiler/commands/SelfText.h"
#include "compiler/session/WorkDirectory.h"

#include <memory>
#include <string>

namespace moec {

/// Has the checkpoint write documents of one window of the request each, for one use, as a step
/// with that label. Returns their path in the work directory; an interrupted run's documents there
/// are reused.
moert::Result<std::string> writeSelfText(const AccurateCompileRequest &request, SelfTextUse use,
                                         const char *label, uint64_t documents,
                                         const CheckpointHash &checkpoint,
                                         const std::string &referencePath,
                                         const WorkDirectory &work, const Session &session);

/// The texts of the compilation: those of the inputs, or read anew where the checkpoint writes
/// documents for calibration or for the acceptance. Refuses too few windows or units of written
/// texts.
moert::Result<CompileTexts> completeTexts(const AccurateCompileRequest &request,
                                          CompileInputs &inputs, const std::string &referencePath,
                                          const WorkDirectory &work, const Session &session);

/// Path of the given profile, or of the one that calibrateForSearch() makes.
std::string profilePathOf(const AccurateCompileRequest &request, const WorkDirectory &work);

/// The given profile, or that of a calibration on the texts, which fills the artifacts' pool layer
/// by layer and has no rows afterwards; without artifacts the profile keeps its rows. An earlier
/// run's profile of the same checkpoint, texts and options is reused with its pool; a damaged one
/// is replaced, and one whose pool lacks an expert.
moert::Result<std::unique_ptr<CalibrationProfile>>
calibrateForSearch(const AccurateCompileRequest &request, CompileInputs &inputs,
                   const CompileTexts &texts, const std::string &referencePath,
                   PooledArtifacts *artifacts, const WorkDirectory &work, const Session &session);

} // namespace moec
