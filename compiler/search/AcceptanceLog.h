// The record of compiles that tested a checkpoint's loss on texts. Every test of a text uses up
// some of the error probability that all tests of it may have together, whichever output, target or
// --resume it belongs to, so the record outlives the work directory. docs/accuracy.md derives the
// levels (AcceptanceTests.h) that follow from it.
//
// A JSONL file, one line for each compile:
//
//   {"checkpoint":"HASH","compile":"HASH","texts":["HASH",...]}     hashes as 16 hexadecimal digits
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// One compile that will test on texts.
struct AcceptanceRecord {
  uint64_t checkpoint = 0; // Hash of the checkpoint.
  uint64_t compile = 0;    // Hash of all that decides its tests: an equal compile repeats them.
  std::span<const uint64_t> texts; // XXH3-64 of each acceptance file.
};

/// Where the record is if no --acceptance-log names another file:
/// $XDG_STATE_HOME/moec/acceptance-tests.jsonl, in ~/.local/state if that is not set. Refuses if
/// HOME is not set either.
moert::Result<std::string> defaultAcceptanceLog();

/// Adds a compile and returns its number for these texts, from 1: one more than the different
/// compiles of the checkpoint that were added before with any of the texts. A compile that is
/// already recorded keeps its number. Creates file and folder; locks the file during the call.
/// Refuses a file with a damaged line.
moert::Result<uint32_t> addToAcceptanceLog(const std::string &path, const AcceptanceRecord &record);

} // namespace moec
