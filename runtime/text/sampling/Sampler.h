// Samples the next token from a row of logits. Deterministic to the bit: the same options, seed,
// tokens and logits give the same tokens on every machine.
//
//   1. logit bias    logit += bias, for the tokens that have one
//   2. penalties     of a token that the prompt or the generated tokens have: a positive logit is
//                    divided by the repetition penalty, another one multiplied by it; of a token
//                    that was generated n > 0 times: logit -= n * frequency + presence penalty
//   3. temperature   weight of a token = exp((logit - largest logit) / temperature), by
//                    deterministicExp32
//   4. top-k         keep the k largest logits
//   5. top-p         of these, in descending order, keep the fewest whose weights sum to at least
//                    p times the sum of all that top-k kept
//   6. min-p         of these, keep those whose weight is at least p times the largest one
//   7. sampling      u * sum of the kept weights, u from RandomStream; the first token whose
//                    running sum exceeds it
//
// This is the order of Hugging Face transformers, whose repetition penalty counts prompt and answer
// as here. llama.cpp and vLLM also begin with bias and penalties; llama.cpp applies the temperature
// last, so that its top-p and min-p do not depend on it. That presence and frequency count
// generated tokens alone is OpenAI's and vLLM's rule.
//
// Equal logits are ordered by index, lowest first, which also decides a cut through a tie. A
// penalized logit is computed in double and rounded to float. Sums are in double: over all tokens
// by ascending index, over the tokens kept by a cut in descending order of logits. Temperature 0 is
// greedy: the lowest index among the largest logits after step 2, without a random number.
#pragma once

#include "runtime/base/RandomStream.h"
#include "runtime/base/Status.h"
#include "runtime/text/sampling/LogitAdjustments.h"
#include "runtime/text/sampling/SamplingOptions.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Whether a token may be sampled; absent: not known yet.
using TokenVerdict = std::function<std::optional<bool>(int32_t token)>;

/// The lowest index among the largest logits. Refuses NaN, +infinity, and rows of only -infinity.
Result<int32_t> greedyToken(std::span<const float> logits);

/// Owned by one sequence, used by one thread. create() allocates all memory.
class Sampler {
public:
  /// Refuses options outside their ranges and names them.
  static Result<Sampler> create(const SamplingOptions &options, uint32_t vocabularySize);

  /// Bytes that create() allocates.
  static uint64_t memoryBytes(const SamplingOptions &options, uint32_t vocabularySize);

  /// Begins another sequence: forgets the tokens that penalties count. The random numbers continue.
  void beginSequence() {
    adjustments.reset();
    choice.reset();
  }
  /// Tokens of the prompt, in any number of calls.
  void addPrompt(std::span<const int32_t> tokens) { adjustments.addPrompt(tokens); }
  /// A token that was generated: the one that sample() returned, or one that replaces it.
  void addGenerated(int32_t token) { adjustments.addGenerated(token); }

  /// The next token. logits has vocabularySize elements.
  Result<int32_t> sample(std::span<const float> logits);
  /// The token that sample() would return if the logits of all tokens that are not allowed were
  /// -infinity, for few verdicts: only the most likely tokens matter. At a temperature without
  /// cuts, where all matter, one of the allowed tokens with the same probabilities: a token that is
  /// not allowed is left out, and another one drawn.
  ///
  /// No value without a verdict that is needed: call again with equal logits, which continues with
  /// that verdict, and does not rank or draw again. No value either where kMostRanked verdicts
  /// leave it open: then it is sampleFrom() that decides. scratch: for a row of logits, during a
  /// call.
  Result<std::optional<int32_t>> sampleAllowed(std::span<const float> logits,
                                               std::vector<float> &scratch,
                                               const TokenVerdict &isAllowed);
  /// The token that sample() would return if the logits of all tokens but these, which are sorted,
  /// were -infinity. scratch: for their logits.
  Result<int32_t> sampleFrom(std::span<const int32_t> tokens, std::span<const float> logits,
                             std::vector<float> &scratch);
  /// Most likely tokens that are looked at, and tokens that are drawn.
  static constexpr size_t kMostRanked = 512, kMostDraws = 4;

private:
  struct Candidate {
    float logit;
    int32_t token;
  };

  /// The best candidates, and the sum of their weights.
  struct Kept {
    size_t count;
    double weight;
  };

  Sampler(const SamplingOptions &samplingOptions, uint32_t vocabularySize);
  static bool cuts(const SamplingOptions &options, uint32_t vocabularySize);
  static bool isBefore(const Candidate &a, const Candidate &b);
  bool cutsByRank() const { return options.topK > 0 && options.topK < vocabulary; }
  float weightOf(float logit, float largest) const;
  /// Adds the weights that min-p keeps to `sum`, one by one, as long as it is at most `target`, and
  /// returns the index of the last that was added and is not 0; `none` if there is none.
  size_t addWeights(std::span<const float> logits, float largest, double target, size_t none,
                    double &sum) const;
  double weightAtRank(size_t rank, float largest) const;
  double weightOfAll(std::span<const float> logits, float largest) const;
  double weightOfBest(size_t count, float largest) const;
  /// The index of the next token, of those that have these adjusted logits.
  Result<int32_t> draw(std::span<const float> logits);
  Kept keepBest(std::span<const float> logits, float largest);
  /// Top-p keeps so many of the best candidates. popUpTo: makes so many the last ones.
  template <class PopUpTo> Kept keepMass(Kept all, float largest, const PopUpTo &popUpTo) const;
  int32_t drawFromAll(std::span<const float> logits, float largest);
  int32_t drawFromKept(Kept kept, float largest);

  /// A choice among allowed tokens, while it waits for verdicts.
  struct Choice {
    size_t next = 0;              // ranked[next] is looked at next.
    double all = 0;               // Weights by the best logit, where top-p cuts them.
    double sum = 0, open = 0;     // Weights of allowed tokens, and of those from `next` on.
    size_t draws = 0;             // Without cuts: tokens drawn that are not allowed.
    std::optional<int32_t> drawn; // The last one, while there is no verdict on it.
  };

  bool cutsByMass() const { return options.temperature > 0 && !cutsByRank() && options.topP < 1; }
  /// Whether all tokens matter, so that one is drawn before it is known whether it is allowed.
  bool drawsAllowed() const {
    return options.temperature > 0 && !cuts(options, vocabulary) && options.minP == 0;
  }
  Status beginChoice(std::span<const float> rawLogits);
  /// The best tokens of a row in `ranked`, kMostRanked or all that are above -infinity.
  void rank(std::span<const float> logits);
  /// Takes the ranked tokens that are allowed and may matter to `candidates`, the best one last,
  /// and returns their part that is kept. No value: that is open.
  std::optional<Kept> keepAllowed(const TokenVerdict &isAllowed);
  /// At least the sum of the weights after ranked[index], and hardly more.
  double openWeight(size_t index, float largest) const;
  /// What top-p keeps of the best `candidates`, the best one first, whose weights sum to `sum`,
  /// whatever part of the weight `open` is allowed beside them. No value: that matters.
  std::optional<Kept> keepMassBeside(double sum, double open) const;
  int32_t drawFromAllowed(Kept kept, std::vector<float> &scratch);
  /// Draws among all tokens but `candidates`. No value: there are no others.
  std::optional<int32_t> drawRest(std::span<const float> rawLogits, std::vector<float> &scratch);
  std::optional<int32_t> drawAllowed(std::span<const float> rawLogits, std::vector<float> &scratch,
                                     const TokenVerdict &isAllowed);

  SamplingOptions options;
  uint32_t vocabulary;
  LogitAdjustments adjustments;
  RandomStream random;
  /// All of sample() if top-k or top-p cuts, or few: in a choice the allowed ones, and where
  /// drawsAllowed() those that are not.
  std::vector<Candidate> candidates;
  std::vector<Candidate> ranked;
  std::optional<Choice> choice;
};

} // namespace moert
