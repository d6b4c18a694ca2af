// Calibration: plays texts through a checkpoint, layer by layer, at its own precision and with the
// runtime's own kernels, and writes what was seen into a profile (CalibrationProfile.h). The
// checkpoint may be larger than memory: each layer's weights are read once, the tokens' hidden
// states between two layers wait on the disk.
//
// Same checkpoint, texts and options: same bytes, whatever the memory, the threads, the processor
// and the interruptions.
#pragma once

#include "compiler/calibrate/CalibrationWindows.h"
#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Progress.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/TextDocuments.h"
#include "runtime/memory/MemoryBudget.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

class Checkpoint;

/// 32 windows of 512 tokens. Estimates of a layer's error on its inputs settle with some hundred
/// tokens per expert: of 128 experts of which each token takes 8, an expert sees 1,024 on the mean.
/// 512 is what the accuracy is measured with, so that positions are as common as there.
constexpr uint64_t kCalibrationTokens = 16384;
constexpr uint32_t kCalibrationWindowTokens = 512;

struct CalibrateOptions {
  /// The checkpoint compiled at `source`, experts and resident weights alike.
  std::string referencePath;
  std::vector<std::string> textPaths; // UTF-8: documents (TextDocuments.h).
  std::string documentSeparator = std::string(moert::kDocumentSeparator);
  std::vector<int32_t> endTokens; // The model's.
  /// The profile. While it is made, OUT.partial and its journal and states stand beside it.
  std::string outputPath;
  uint64_t tokens = kCalibrationTokens; // Rounded up to whole windows.
  uint32_t windowTokens = kCalibrationWindowTokens;
  uint64_t seed = 0; // Of the places of the windows in their texts.
  /// Of the whole process. Absent: what the container's limit and the free memory allow.
  std::optional<moert::BudgetSize> memory;
  unsigned threads = 1;
  bool resume = false; // Go on with what an unfinished calibration left, if it did.
  /// What was left is damaged, or of other options: start over rather than refuse it.
  bool startsOverIfRefused = false;
};

/// What calibrate() tells while it works; all may be absent.
struct CalibrateListeners {
  Progress *progress = nullptr;
  const std::atomic<bool> *stop = nullptr;
  std::function<void(std::string_view)> say; // A line for a person.
};

/// Writes options.outputPath, whole or not at all. Interrupted, it leaves what --resume needs and
/// returns kInterrupted. An error takes nothing away that it went on from; a failure of the system
/// (kFailed) leaves what it had journaled.
moert::Status calibrate(const Checkpoint &checkpoint, const CalibrateOptions &options,
                        const CalibrateListeners &listeners);

/// The windows that calibrate() reads: refuses, before the reference is made, what it would refuse
/// after that. `say` may be absent.
moert::Result<CalibrationWindows>
calibrationWindowsOf(const Checkpoint &checkpoint, const CalibrateOptions &options,
                     const std::function<void(std::string_view)> &say = {});

/// A profile of another checkpoint is refused by it; docs/calibration-profile.md says what it
/// reads. Once *stop is set it ends soon, with kInterrupted.
moert::Result<CheckpointHash> checkpointHash(const Checkpoint &checkpoint,
                                             const std::atomic<bool> *stop = nullptr);

} // namespace moec
