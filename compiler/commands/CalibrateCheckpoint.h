// moec calibrate without a command line: the reference is made, executed and removed.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/commands/Compile.h"

#include <string>

namespace moec {

/// options.referencePath, endTokens and vocabularySize are filled in here: the reference lies in
/// OUT.work, which stays where --resume can resume from it (WorkDirectory::keepAfter) and is
/// removed otherwise. Texts in there are refused.
///
/// selfTextDocuments: instead of options.textPaths, as many documents that the checkpoint writes
/// (SelfText.h); 0: none.
moert::Status calibrateCheckpoint(const std::string &checkpointDirectory, CalibrateOptions options,
                                  uint64_t selfTextDocuments, const Session &session);

} // namespace moec
