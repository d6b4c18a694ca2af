// The answers to one request as OpenAI's API writes them: whole, or as a stream of events while
// they are generated.
#pragma once

#include "runtime/serving/Answer.h"
#include "runtime/text/answer/AnswerReader.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "tools/moert-serve/ApiCall.h"
#include "tools/moert-serve/Responses.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moert::serve {

/// Names of one reply.
struct ReplyHead {
  std::string id; // Without its prefix.
  std::string model;
  int64_t created = 0; // Unix time in seconds.
};

/// Owned by the connection's thread. The tokenizer must outlive it. What has not ended by
/// the reply's end is cancelled: see Submission.
class ApiReply {
public:
  ApiReply(ReplyHead replyHead, ApiCall apiCall, const Tokenizer &tokenizer,
           // Shared with the scheduler's thread.
           std::vector<std::shared_ptr<Answer>> submitted);

  /// Waits for news, at most that long, and takes them. Returns true once all choices have ended.
  bool collect(std::chrono::milliseconds most);

  /// Bytes that the reply holds for its choices since the last call, and takes to write them.
  /// scoreBytes: of a score.
  uint64_t takeGrowth(uint64_t scoreBytes);

  /// The reply as a JSON object; call when all have ended.
  std::string whole();

  /// The events of what collect() took since the last call, with the last ones once all have ended.
  std::string takeEvents();

  /// Set if a choice failed.
  const std::optional<ApiError> &error() const { return failure; }

private:
  struct Choice {
    // Shared with the scheduler's thread.
    std::shared_ptr<Answer> answer;
    std::optional<AnswerReader> reader = {}; // Absent: all text is the answer.
    bool allowsCalls = true;                 // More than one.
    bool isStreamed = false;
    // Not streamed so far, or all.
    std::string text = {}, reasoning = {};
    std::vector<ToolCall> tools = {}; // Complete ones.
    std::vector<ToolCall> begun = {}; // Those after them that are not complete.
    /// Bytes of the arguments of each of both that were streamed; of calls that were not begun
    /// none.
    std::vector<size_t> sent = {};
    std::vector<AnswerPiece> pieces = {}; // With scores.
    std::vector<TokenScore> promptScores = {};
    std::optional<AnswerEnd> end = {};
    uint64_t tokens = 0, reasoningTokens = 0, cachedTokens = 0;
    uint64_t offset = 0;       // Characters before the next token.
    uint64_t earlierTools = 0; // Complete calls that were streamed.
    uint64_t brokenCalls = 0;  // Calls that are not complete, streamed ones too.
    bool hasBegun = false, hasFinished = false;

    bool mayCall() const { return allowsCalls || earlierTools + tools.size() == 0; }
    bool hasNewCalls() const;
    void take(std::string_view answerText);
    void finish();
    AnswerReader::Emit keep(bool isEnd);
    void followCalls();
    void breakCalls(bool isEnd);
    const char *endReason() const;
  };

  void fail(const Choice &choice, const Status &status);
  std::vector<Json> takeChunks();
  Json headOf(const char *object) const;
  Json choiceOf(size_t index, Choice &choice, bool isChunk) const;
  Json textScores(size_t index, Choice &choice) const;
  Json chatScores(const Choice &choice) const;
  Json usage() const;
  /// "tool_calls": an array, empty without any. Of a chunk: what was not sent.
  Json toolCalls(size_t index, Choice &choice) const;
  Json callDeltas(size_t index, Choice &choice) const;
  std::string callId(size_t index, uint64_t number) const;
  /// The text of a token, and the bytes that it adds to a text, which may be a part of a character.
  std::string tokenText(int32_t token) const;
  std::string tokenBytes(int32_t token) const;
  bool hasEnded() const;

  const ReplyHead head;
  const ApiCall call;
  const Tokenizer &tokenizer;
  std::vector<Choice> choices;
  std::optional<ResponseWriter> response; // Of /v1/responses.
  std::optional<ApiError> failure;
  uint64_t collectedText = 0, collectedScores = 0; // Since takeGrowth().
};

} // namespace moert::serve
