// One answer, passed from the scheduler to the client that waits for it: the request, the text and
// tokens so far, and how it ended.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/sampling/Sampler.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moert {

class Grammar;
class TokenTexts;

/// One sequence to generate. Without maxTokens only the prompt is computed, for its scores.
struct AnswerRequest {
  std::vector<int32_t> prompt; // At least one token.
  uint32_t maxTokens = 0;
  SamplingOptions sampling = {};
  std::vector<std::string> stopTexts = {};
  std::vector<int32_t> shownTokens = {}; // Special tokens that are text.
  bool ignoresEndTokens = false;
  std::optional<uint32_t> topScores = {}; // Best tokens listed with each score; absent: no scores.
  bool scoresPrompt = false;              // Scores the prompt's tokens too.
  /// The grammar that the text has to match, with the tokens' texts; absent: any text.
  std::shared_ptr<const Grammar> grammar = {}; // Shared by a request's sequences.
  const TokenTexts *tokenTexts = nullptr;
  /// So many of the prompt's first tokens are likely to begin other prompts too, such as those of a
  /// system message: with recurrent states a copy of the sequence is kept there. 0: unknown.
  uint32_t sharedTokens = 0;
};

/// The log probability (natural) of a token at its position, before temperature and cuts, with the
/// most probable tokens at that position.
struct TokenScore {
  int32_t token = 0;
  double logProbability = 0;
  std::vector<std::pair<int32_t, double>> top = {};
};

/// A generated token and the text that it completed, which is often empty; or held-back text that
/// became final at the end, without a token.
struct AnswerPiece {
  std::optional<int32_t> token = {};
  std::string text = {};
  std::optional<TokenScore> score = {};
};

enum class AnswerEnd {
  kLength,    // maxTokens were generated.
  kStop,      // A stop text, or a token that ends a text.
  kCancelled, // By the client, or by the end of the program.
  kRejected,  // The request's grammar cannot be followed; see the status.
  kNoMemory,  // See the status; it may work later.
  kFailed,    // See the status.
};

/// What was added since the last take(), in order.
struct AnswerNews {
  std::vector<TokenScore> promptScores = {}; // From the prompt's second token on.
  std::vector<AnswerPiece> pieces = {};
  std::optional<AnswerEnd> end = {};
  Status status = {};        // An error after kRejected, kNoMemory and kFailed.
  uint32_t cachedTokens = 0; // Prompt tokens taken from an earlier sequence.
};

/// Shared by the client's thread, which takes, and the scheduler's thread, which adds; whichever
/// releases it last destroys it.
class Answer {
public:
  /// Bytes of pieces and scores from which on isFull(). One step adds a piece, those of
  /// the text that a grammar forces, or the scores of a chunk of the prompt.
  static constexpr uint64_t kFullBytes = 32 * 1024;

  /// Waits for a piece, the end, or scores of the prompt that make it full, at most that long.
  /// Takes all that was added.
  AnswerNews take(std::chrono::milliseconds most);
  /// Ends the sequence before its next token.
  void cancel() { cancelled.store(true, std::memory_order_relaxed); }
  bool isCancelled() const { return cancelled.load(std::memory_order_relaxed); }

  /// Whether so much was not taken that no more is to be added: the sequence pauses.
  bool isFull() const { return unreadBytes.load(std::memory_order_relaxed) >= kFullBytes; }

  void addPromptScore(TokenScore score);
  void addPiece(AnswerPiece piece);
  void setCachedTokens(uint32_t tokens);
  void end(AnswerEnd end, Status status = {});

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> cancelled = false;
  std::atomic<uint64_t> unreadBytes = 0; // In the news.
  AnswerNews news;                       // Guarded by the mutex.
};

} // namespace moert
