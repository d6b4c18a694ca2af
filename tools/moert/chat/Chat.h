// A conversation at the command line: reads messages and commands, generates answers, and keeps the
// session's context within its size.
#pragma once

#include "runtime/serving/Generation.h"
#include "tools/moert/BudgetFollower.h"
#include "tools/moert/LoadedModel.h"
#include "tools/moert/chat/AnswerText.h"
#include "tools/moert/chat/ChatScreen.h"
#include "tools/moert/chat/ChatSignals.h"
#include "tools/moert/chat/Conversation.h"
#include "tools/moert/chat/LineReader.h"
#include "tools/moert/chat/MessageInput.h"
#include "tools/moert/chat/SessionText.h"

#include <cstdint>
#include <optional>
#include <string>

namespace moert::cli {

/// What happens when the context has no room for an answer.
enum class OnFull {
  kShift, // The oldest turns are dropped, and the rest is computed again.
  kStop,  // The answer ends; a further message is refused.
};

struct ChatSettings {
  uint32_t maxTokens = 0; // An answer's.
  bool followsMemory = false;
  OnFull onFull = OnFull::kShift;
  bool isGreedy = false; // The same messages have the same answer.
  NgramStopOptions ngramStop;
  TemplateLimits templateLimits;
  AnswerFormat answers = AnswerFormat(""); // The template's.
};

/// Borrows everything but the conversation; used by the engine's thread.
class Chat {
public:
  Chat(LoadedModel &loadedModel, Session &emptySession, Sampler &tokenSampler,
       Conversation startedConversation, const ChatSettings &chatSettings, ChatScreen &chatScreen,
       ChatSignals caughtSignals, uint64_t smallestBudgetBytes);

  /// Answers messages until the input ends or /quit.
  Status run(LineReader &reader);
  /// Answers one message.
  Status answerOnce(const std::string &message);

private:
  /// A rendered conversation that fits into the context, and the answer so far.
  struct Prompt {
    std::string text;
    PromptTokens tokens;
  };
  enum class Next { kContinue, kQuit };

  Result<Next> take(const InputMessage &message);
  Result<Next> execute(std::string_view command);
  void setSystem(std::string_view text);
  void save(const std::string &path);
  void changeMemory(std::string_view wanted);
  void showStats();
  void showHelp();

  void undo();
  Status regenerate();

  Status answer(const std::string &message);
  /// Answers the last message of the conversation.
  Status respond();
  Result<std::optional<Prompt>> fit(std::span<const int32_t> answerSoFar);
  Result<GenerationEnd> generateAnswer(Prompt prompt, AnswerText &text);
  Result<GenerationEnd> continueFrom(const Prompt &prompt, AnswerText &text);
  void noticeEnd(GenerationEnd end);
  void noticeRoom();

  LoadedModel &loaded;
  Session &session;
  Sampler &sampler;
  Conversation conversation;
  ChatSettings settings;
  ChatScreen &screen;
  ChatSignals signals;
  BudgetFollower budget;
  SessionText sessionText;
  bool hasWarnedOfRoom = false;
  std::vector<int32_t> answerIds;           // The current answer's.
  std::optional<GenerationNumbers> numbers; // The last answer's, or its last part's.
};

} // namespace moert::cli
