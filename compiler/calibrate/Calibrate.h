// Calibration: executes a checkpoint on texts, layer by layer, at its own precision and with the
// runtime's own kernels, and writes the observations to a profile (CalibrationProfile.h). The
// checkpoint may be larger than memory: each layer's weights are read once, and the tokens' hidden
// states between two layers are on the disk.
//
// The same checkpoint, texts and options give the same bytes, for any memory, number of threads,
// processor and interruptions.
#pragma once

#include "compiler/calibrate/CalibrationWindows.h"
#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Progress.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/TextDocuments.h"
#include "runtime/images/LabelledImages.h"
#include "runtime/memory/MemoryBudget.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

class CalibrationProfile;
class Checkpoint;

/// 32 windows of 512 tokens. Estimates of a layer's error converge with some hundred tokens per
/// expert: with 128 experts, 8 of them per token, an expert gets 1,024 tokens on average. The
/// accuracy is measured with windows of 512, so that positions have the same frequency.
constexpr uint64_t kCalibrationTokens = 16384;
constexpr uint32_t kCalibrationWindowTokens = 512;

/// What calibration reads of the images of a vision model.
struct CalibrationImages {
  const moert::LabelledImages *all = nullptr;
  std::vector<uint32_t> chosen;       // In the order of the folders; ascending.
  std::vector<CalibrationText> texts; // The folders.
};

struct CalibrateOptions {
  /// The checkpoint compiled with `source` for experts and resident weights.
  std::string referencePath;
  std::vector<std::string> textPaths; // UTF-8: documents (TextDocuments.h).
  /// In place of texts, for a vision model: each is a window of windowTokens rows.
  std::optional<CalibrationImages> images;
  std::string documentSeparator = std::string(moert::kDocumentSeparator);
  std::vector<int32_t> endTokens;       // End-of-text tokens of the model.
  uint32_t vocabularySize = UINT32_MAX; // Token ids of the model are below it.
  /// The profile. Until it is finished, OUT.partial, its journal and its states are beside it.
  std::string outputPath;
  uint64_t tokens = kCalibrationTokens; // Rounded up to whole windows.
  uint32_t windowTokens = kCalibrationWindowTokens;
  uint64_t seed = 0; // For the positions of the windows in their texts.
  /// For the whole process. Absent: as much as the container's limit and the free memory allow.
  std::optional<moert::BudgetSize> memory;
  unsigned threads = 1;
  bool resume = false;  // Resume an unfinished calibration, if there is one.
  bool restart = false; // For the command: remove an unfinished one; not with resume.
  /// If the unfinished calibration is damaged, or has other options: start over instead of
  /// refusing.
  bool startsOverIfRefused = false;
};

/// Callbacks of calibrate(); all may be absent.
struct CalibrateListeners {
  Progress *progress = nullptr;
  const std::atomic<bool> *stop = nullptr;
  std::function<void(std::string_view)> say; // One line of text for the user.
  /// Takes a MoE layer's inputs once all tokens have executed it, and those of a resumed
  /// calibration again. Afterwards the profile does not have them any more: they are most of it. A
  /// refusal of what was resumed refuses the resumed calibration. `advance`: the part that is done.
  std::function<moert::Status(const CalibrationProfile &, size_t moeLayer,
                              const std::function<void(double)> &advance)>
      onLayer = {};
  uint64_t layerBytes = 0; // Memory that onLayer takes.
};

/// The step's label, without and with onLayer.
constexpr const char *kCalibrating = "calibrating",
                     *kCalibratingExperts = "calibrating and quantizing experts";

/// Writes options.outputPath atomically. If interrupted, it leaves everything that --resume needs
/// and returns kInterrupted. An error removes nothing of the calibration that was resumed; a
/// failure of the system (kFailed) leaves the parts in the journal.
moert::Status calibrate(const Checkpoint &checkpoint, const CalibrateOptions &options,
                        const CalibrateListeners &listeners);

/// The windows that calibrate() reads. Refuses, before the reference is made, what calibrate()
/// would refuse later. `say` may be absent.
moert::Result<CalibrationWindows>
calibrationWindowsOf(const Checkpoint &checkpoint, const CalibrateOptions &options,
                     const std::function<void(std::string_view)> &say = {});

/// Identifies a checkpoint, so that the profile of another one is refused;
/// docs/calibration-profile.md defines it. Once *stop is set it ends soon, with kInterrupted.
moert::Result<CheckpointHash> checkpointHash(const Checkpoint &checkpoint,
                                             const std::atomic<bool> *stop = nullptr);

} // namespace moec
