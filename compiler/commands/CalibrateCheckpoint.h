// moec calibrate without a command line: makes the reference, executes it and removes it.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/commands/Compile.h"

#include <string>

namespace moec {

/// options.referencePath, endTokens and vocabularySize are filled in here: the reference lies in
/// OUT.work, which stays where --resume can resume from it (WorkDirectory::keepAfter) and is
/// removed otherwise. Texts in there are refused.
///
/// selfTextDocuments: number of documents that the checkpoint writes (SelfText.h) in place of
/// options.textPaths; 0: none.
moert::Status calibrateCheckpoint(const std::string &checkpointDirectory, CalibrateOptions options,
                                  uint64_t selfTextDocuments, const Session &session);

} // namespace moec
