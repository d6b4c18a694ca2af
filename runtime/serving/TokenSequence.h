// The tokens of one sequence while a model continues it: which of them its session computes next,
// and how it ends. Has neither an engine nor a sampler: Generation.h continues one sequence alone,
// Sequence.h one of many.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/serving/NgramStop.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moert {

struct GenerationRequest {
  std::vector<int32_t> prompt;         // At least one token; the session may have the first ones.
  uint32_t maxTokens = 0;              // 0: the prompt is computed, and no token follows.
  std::span<const int32_t> endTokens;  // Each ends the sequence and is not passed on.
  std::span<const int32_t> given = {}; // maxTokens tokens that replace the sampled ones; or empty.
  bool fillsContext = false;           // maxTokens is the context's remaining room.
  NgramStopOptions ngramStop = {};
  uint32_t firstPosition = 0; // The prompt's first token has it in the session.
};

/// Why a sequence ended.
enum class GenerationEnd {
  kLength,      // maxTokens were passed on.
  kContext,     // The same, and the context is full.
  kEndToken,    // The model produced an end token.
  kStop,        // A stop text, or the callback returned false.
  kRepetition,  // An n-gram was repeated too often.
  kInterrupted, // The stop flag was set.
};

/// The values in a run's JSON and profile: "length", "context", "eos", "stop", "repetition",
/// "interrupted".
const char *nameOf(GenerationEnd end);

/// Owned by what continues the sequence, used by its thread. The end tokens must outlive it.
class TokenSequence {
public:
  /// Returns false to end the sequence.
  using TakeToken = std::function<Result<bool>(int32_t token)>;

  explicit TokenSequence(GenerationRequest request)
      : limits(std::move(request)), all(std::move(limits.prompt)), promptSize(all.size()) {}

  /// Bytes of a sequence that has reserved memory for all its tokens.
  static uint64_t memoryBytes(uint64_t promptTokens, uint64_t maxTokens) {
    return (promptTokens + maxTokens) * sizeof(int32_t);
  }
  /// From then on take() allocates nothing.
  void reserve() { all.reserve(mostTokens()); }

  /// The prompt, and the tokens that were passed on.
  const std::vector<int32_t> &tokens() const { return all; }
  std::span<const int32_t> generated() const { return std::span(all).subspan(promptSize); }
  uint32_t promptTokens() const { return static_cast<uint32_t>(promptSize); }
  uint32_t generatedTokens() const { return static_cast<uint32_t>(all.size() - promptSize); }
  uint32_t maxTokens() const { return limits.maxTokens; }
  uint32_t mostTokens() const { return promptTokens() + limits.maxTokens; }

  /// Tokens that the session lacks.
  uint32_t rest(const Session &session) const {
    return limits.firstPosition + static_cast<uint32_t>(all.size()) - session.length();
  }
  /// Whether the next part is of tokens of the prompt, or of several that were lost.
  bool isPrefilling(const Session &session) const {
    return rest(session) > 1 || generatedTokens() == 0;
  }
  /// The next tokens, at most that many; the last one's logits are needed if a token follows it.
  /// Valid until take().
  SessionTokens part(Session &session, uint32_t most) const;

  bool isEndToken(int32_t token) const;
  /// Adds the next token and passes it on, unless it ends the sequence. Returns how the sequence
  /// ended, if it did.
  Result<std::optional<GenerationEnd>> take(int32_t token, const TakeToken &pass);
  /// The end of a sequence that has maxTokens.
  GenerationEnd fullEnd() const {
    return limits.fillsContext ? GenerationEnd::kContext : GenerationEnd::kLength;
  }

private:
  GenerationRequest limits; // Without the prompt.
  std::vector<int32_t> all;
  size_t promptSize;
};

} // namespace moert
