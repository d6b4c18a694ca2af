// The reference's losses or points that an artifact carries (Measured in Artifact.h), beside an
// evaluation of the same artifact: where a file is one of the texts that the artifact was accepted
// on, its loss is measured again without the reference.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/evaluation/EvaluationSet.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// Owns what it needs of the artifact. One thread.
class RecordedReference {
public:
  using TakeNote = std::function<void(const std::string &)>;

  /// Finds the request's files among the acceptance texts, by their content; texts: what they are.
  /// `note` hears, in a sentence, of each that is not there and of what the losses are of. Nothing
  /// where no file is known, or the windows or what is asked of items are others. Refuses a
  /// recorded window or item that its text does not have.
  static Result<std::optional<RecordedReference>> find(const Measured &measured,
                                                       const EvaluationRequest &request,
                                                       std::span<const EvaluatedText> texts,
                                                       const TakeNote &note);

  /// The scores of the recorded windows or items with those of the reference, in the order in which
  /// the artifact has them: sum and bound are those that it was accepted with, bit for bit, where
  /// all of its texts are there. samples: of all windows or items of all files, in their order.
  std::vector<SampleScore> beside(std::span<const SampleScore> samples) const;

  /// What it holds, and what the bound takes.
  uint64_t memoryBytes() const;

  /// Of the bound that the artifact was accepted with.
  double confidence() const { return boundConfidence; }

private:
  struct Recorded {
    uint64_t sample;
    double score; // Nats of a window, points of an item.
  };

  RecordedReference() = default;
  Status take(const MeasuredText &text, const EvaluatedText &found, uint64_t firstSample);

  double boundConfidence = 0.95;
  bool isOnItems = false;
  std::vector<Recorded> recorded;
};

} // namespace moert
