// Runs one sequence of tokens through an artifact and, if given, its reference.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/evaluation/SampleScore.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace moert {

/// A source of logits, such as a loaded model with one session. Evaluations borrow it.
class LogitsSource {
public:
  /// Takes the logits [vocabulary] after the index-th of the appended tokens; valid in the call.
  using TakeRow = std::function<Status(uint32_t index, std::span<const float> logits)>;

  virtual ~LogitsSource() = default;
  virtual uint32_t vocabularySize() const = 0;
  /// Resets to an empty sequence.
  virtual void reset() = 0;
  /// Call before the first sequence of a unit: what follows does not depend on earlier units.
  virtual Status beginUnit() { return {}; }
  /// Appends tokens and passes the logits after each of them to takeRow, in order; without takeRow
  /// no logits are computed.
  virtual Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) = 0;
  /// Unless this is 1, results depend on how a sequence is divided: append multiples of so many
  /// tokens, except at its end.
  virtual uint32_t wholeTokens() const { return 1; }
};

/// Borrows the sources; used by one thread. Holds stepTokens rows of the reference.
class PairedPass {
public:
  /// Takes the logits of both after tokens[index]; the reference's are empty without one.
  using TakeRows = std::function<Status(uint32_t index, std::span<const float> logits,
                                        std::span<const float> reference)>;

  PairedPass(uint32_t tokensOfStep, LogitsSource &artifactSource, LogitsSource *referenceSource,
             const std::atomic<bool> *stopFlag);

  /// Call before the first sequence of a unit.
  Status beginUnit() { return artifact.beginUnit(); }

  /// Runs all tokens from an empty sequence and passes on the rows after the tokens [firstRow,
  /// size - 1), which predict the tokens from firstRow + 1 on. Ends with kInterrupted between
  /// steps once *stop is set.
  Status run(std::span<const int32_t> tokens, uint32_t firstRow, const TakeRows &takeRows);

private:
  Status step(std::span<const int32_t> tokens, uint32_t begin, uint32_t count, uint32_t firstRow,
              const TakeRows &takeRows);
  std::span<float> rowOf(uint32_t index);

  const uint32_t stepTokens;
  LogitsSource &artifact;
  LogitsSource *reference;
  const std::atomic<bool> *stop;
  std::vector<float> rows; // The reference's rows of the current step.
};

/// One pass, and the sum over the rows that predict the tokens from scoreFrom (at least 1) on.
Result<SampleScore> scoreTokens(PairedPass &pass, std::span<const int32_t> tokens,
                                uint32_t scoreFrom);

/// Refuses a reference with another vocabulary.
Status checkVocabularies(const LogitsSource &artifact, const LogitsSource *reference);

} // namespace moert
