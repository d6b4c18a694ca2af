// Writes a .moe file from a plan and a checkpoint. Weights are read, packed and written piece by
// piece, so that neither the checkpoint nor the artifact has to fit in memory.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/emit/StoredArtifact.h"
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
  /// Resume an unfinished emission, if there is one.
  bool resume = false;
  bool isResumable = true; // Otherwise an unfinished emission leaves nothing.
  /// If the unfinished emission is damaged, or of another plan or program: start over instead of
  /// refusing it.
  bool startsOverIfRefused = false;
  /// Set by the caller, for instance in a signal handler: the emission stops soon and can be
  /// resumed.
  const std::atomic<bool> *stop = nullptr;
  Progress *progress = nullptr;
  /// Bytes that a crash may lose; a journal has some KB, and writing it waits for the disk.
  uint64_t journalIntervalBytes = uint64_t(512) << 20;
};

/// A summary for a message.
struct EmitResult {
  uint64_t fileBytes = 0;
  uint64_t resumedBytes = 0;   // Bytes of them that an earlier emission had written.
  bool hasStartedOver = false; // The unfinished emission was refused.
};

/// Writes options.outputPath atomically; the bytes do not depend on the number of
/// threads. If interrupted, it leaves OUT.partial and its journal and returns kInterrupted. An
/// error removes nothing of the emission that was resumed; a failure of the system (kFailed) leaves
/// the parts in the journal. Fills in the plan's offsets and checksums.
moert::Result<EmitResult> emitArtifact(EmitPlan &plan, const Checkpoint &checkpoint,
                                       const EmitOptions &options);

/// Writes the plan with the weights and the tokenizer of an artifact. Refuses a plan of other
/// weights.
moert::Result<EmitResult> emitArtifact(EmitPlan &plan, const StoredArtifact &stored,
                                       const EmitOptions &options);

} // namespace moec
