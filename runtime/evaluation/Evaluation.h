// Measures an artifact on windows of texts (TextWindows.h), alone or beside a reference.
//
// In each window every token from index `scoreFrom` on (1: all but the first) is scored with its
// predecessors in the window. Perplexity is exp of the mean loss over all scored tokens, KL the
// mean of KL(reference || artifact) in nats per token, agreement the fraction of tokens for which
// both have the same most likely next token.
//
// llama.cpp's llama-perplexity scores the second half of its windows without that half's first
// token: in windows of n tokens, scoreFrom n / 2 + 1 scores the same ones.
#pragma once

#include "runtime/evaluation/PairedPass.h"
#include "runtime/evaluation/TextWindows.h"

#include <functional>

namespace moert {

struct EvaluationOptions {
  uint32_t windowTokens = 512;
  uint32_t scoreFrom = 1;  // Below windowTokens, at least 1.
  uint32_t stepTokens = 1; // Tokens of a step, and rows of the reference that are held.
};

/// Refuses windows of fewer than 2 tokens and a first scored token outside of them.
Status checkEvaluation(const EvaluationOptions &options);

using EvaluationProgress = std::function<void(uint64_t doneSamples, uint64_t samples)>;

/// A score for each of `count` samples, which messages call `name`. Ends at the first error.
Result<std::vector<SampleScore>>
evaluateEach(uint64_t count, const char *name, uint32_t stepTokens, LogitsSource &artifact,
             LogitsSource *reference, const EvaluationProgress &progress,
             const std::atomic<bool> *stop,
             const std::function<Result<SampleScore>(uint64_t sample, PairedPass &pass)> &score);

/// The scores of all windows, text after text; the texts' windows have options.windowTokens. Both
/// sources get the same tokens in steps, so at most stepTokens rows are held. Ends with
/// kInterrupted between steps once *stop is set.
Result<std::vector<SampleScore>> evaluate(std::span<const TextWindows> texts,
                                          const EvaluationOptions &options, LogitsSource &artifact,
                                          LogitsSource *reference,
                                          const EvaluationProgress &progress = {},
                                          const std::atomic<bool> *stop = nullptr);

} // namespace moert
