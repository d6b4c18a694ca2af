// The last arrow: a plan and a checkpoint become a .moe file. Weights are read, packed and written
// piece by piece, so that neither the checkpoint nor the artifact has to fit in memory.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/session/Progress.h"
#include "runtime/base/Status.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace moec {

struct EmitOptions {
  std::string outputPath;
  unsigned threads = 1;
  /// Go on with what an unfinished emission left, if it did.
  bool resume = false;
  /// What was left is damaged, or of another plan or program: start over rather than refuse it.
  bool startsOverIfRefused = false;
  /// Set from outside, for instance by a signal: the emission stops soon and can be resumed.
  const std::atomic<bool> *stop = nullptr;
  Progress *progress = nullptr;
  /// What a crash may cost; a journal is some KB and a wait for the disk.
  uint64_t journalIntervalBytes = uint64_t(512) << 20;
};

/// What was done, for a message.
struct EmitResult {
  uint64_t fileBytes = 0;
  uint64_t resumedBytes = 0;   // Of them, those that an earlier emission had written.
  bool hasStartedOver = false; // What was left was refused.
};

/// Writes options.outputPath, whole or not at all, the same bytes whatever the number of threads.
/// Interrupted, it leaves OUT.partial and its journal and returns kInterrupted. An error takes
/// nothing away that it went on from; a failure of the system (kFailed) leaves what it had
/// journaled. Fills in the plan's offsets and checksums.
moert::Result<EmitResult> emitArtifact(EmitPlan &plan, const Checkpoint &checkpoint,
                                       const EmitOptions &options);

} // namespace moec
