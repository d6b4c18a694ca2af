// The record of compiles that tested a checkpoint's loss on documents. Every test of a document
// uses up some of the error probability that all tests of it may have together, whichever output,
// target or --resume it belongs to, so the record outlives the work directory. The level
// that follows from it is that of AcceptanceTurn.h; docs/accuracy.md derives the levels.
//
// A JSONL file, one line for each compile:
//
//   {"checkpoint":"HASH","compile":"HASH","texts":["HASH",...],"documents":["HASH",...]}
//
// Hashes have 16 hexadecimal digits. Lines of earlier versions have no documents: only their files
// are known.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/evaluation/TextDocuments.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

/// One compile that will test on documents.
struct AcceptanceRecord {
  uint64_t checkpoint = 0;     // Hash of the checkpoint.
  uint64_t compile = 0;        // Hash of all that decides its tests: an equal compile repeats them.
  std::vector<uint64_t> files; // XXH3-64 of each acceptance file.
  std::vector<moert::DocumentId> documents; // That are tested.
};

/// Where the record is if no --acceptance-log names another file:
/// $XDG_STATE_HOME/moec/acceptance-tests.jsonl, in ~/.local/state if that is not set. Refuses if
/// HOME is not set either.
moert::Result<std::string> defaultAcceptanceLog();

/// The compile's number on its documents, from 1: one more than the different compiles of the
/// checkpoint that were added before with any of the documents, or from any of the files. A compile
/// that is already recorded keeps its number. Refuses a file with a damaged line.
moert::Result<uint32_t> numberInAcceptanceLog(const std::string &path,
                                              const AcceptanceRecord &record);

/// Adds a compile and returns its number. Creates file and folder; locks the file during the call.
moert::Result<uint32_t> addToAcceptanceLog(const std::string &path, const AcceptanceRecord &record);

} // namespace moec
