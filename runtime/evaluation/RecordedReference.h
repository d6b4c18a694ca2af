// The reference's losses or points that an artifact stores (Measured in Artifact.h). With them, an
// evaluation on a file of the acceptance texts gives the loss again without the reference.
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

/// Whether the artifact's widths or a plan's miss rule were accepted on the text. Whoever reads its
/// scores and then chooses what is accepted on it voids that acceptance (docs/accuracy.md).
bool wasAcceptedOn(const Artifact &artifact, const EvaluatedText &text);

/// Copies what it needs from the artifact. One thread.
class RecordedReference {
public:
  using TakeNote = std::function<void(const std::string &)>;

  /// Finds the request's files among the acceptance texts, by their content; texts: the files'
  /// identities. Calls `note` with a sentence for each file that is not among them and one about
  /// what the losses cover. nullopt if no file is among them, or if windows or item options differ.
  /// Refuses a recorded window or item that its text does not have.
  static Result<std::optional<RecordedReference>> find(const Measured &measured,
                                                       const EvaluationRequest &request,
                                                       std::span<const EvaluatedText> texts,
                                                       const TakeNote &note);

  /// The scores of the recorded windows or items with those of the reference, in the artifact's
  /// order: if all of its texts are given, sum and bound are those of the acceptance, bit for bit.
  /// samples: scores of all windows or items of all files, in their order.
  std::vector<SampleScore> beside(std::span<const SampleScore> samples) const;

  /// Bytes that it holds and that the bound allocates.
  uint64_t memoryBytes() const;

  /// Confidence of the bound that the artifact was accepted with.
  double confidence() const { return boundConfidence; }

private:
  struct Recorded {
    uint64_t sample;
    double score; // A window's nats, or an item's points.
  };

  RecordedReference() = default;
  Status take(const MeasuredText &text, const EvaluatedText &found, uint64_t firstSample);

  double boundConfidence = 0.95;
  bool isOnItems = false;
  std::vector<Recorded> recorded;
};

} // namespace moert
