#include "tools/moert/chat/Chat.h"

#include "runtime/base/InputText.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/text/answer/ToolTypes.h"
#include "tools/moert/Numbers.h"
#include "tools/moert/chat/HeldKeys.h"

#include <algorithm>

namespace moert::cli {

/// A context with less room than this fraction of its size is worth a warning, and what a shift
/// frees for the answer.
constexpr uint32_t kRoomFraction = 4;

static constexpr std::string_view kSpace = " \t\r\n";

Chat::Chat(LoadedModel &loadedModel, Session &emptySession, Sampler &tokenSampler,
           Conversation startedConversation, const ChatSettings &chatSettings,
           ChatScreen &chatScreen, ChatSignals caughtSignals, uint64_t smallestBudgetBytes)
    : loaded(loadedModel), session(emptySession), sampler(tokenSampler),
      conversation(std::move(startedConversation)), settings(chatSettings), screen(chatScreen),
      signals(caughtSignals), budget(*loadedModel.engine, smallestBudgetBytes),
      sessionText(*loadedModel.model->tokenizer()) {}

//===-- Input ---------------------------------------------------------------------------------===//

Status Chat::run(LineReader &reader) {
  MessageInput input;
  bool hasInput = true;
  while (hasInput) {
    MOERT_ASSIGN_OR_RETURN(const InputLine line, reader.read(input.isContinued()));
    const bool isInterrupted = line.end == LineEnd::kInterrupted;
    if (signals.endsProgram || (isInterrupted && !reader.isTerminal()))
      return Status(StatusCode::kInterrupted, "interrupted");
    signals.stopsAnswer = false;
    if (isInterrupted) {
      input.clear();
      screen.notice("/quit or Ctrl-D ends the conversation");
      continue;
    }
    hasInput = line.end == LineEnd::kLine;
    std::optional<InputMessage> message = input.addLine(line.text);
    if (!message && !hasInput)
      message = input.finish();
    if (!message)
      continue;
    if (Status status = checkUtf8(message->text, "the message"); !status.isOk()) {
      if (!reader.isTerminal())
        return std::move(status).withContext("standard input");
      screen.notice(status.message());
      continue;
    }
    reader.addHistory(message->text);
    MOERT_ASSIGN_OR_RETURN(const Next next, take(*message));
    if (next == Next::kQuit)
      return {};
  }
  return {};
}

Result<Chat::Next> Chat::take(const InputMessage &message) {
  if (message.isCommand)
    return execute(message.text);
  MOERT_RETURN_IF_ERROR(answer(message.text));
  if (signals.endsProgram)
    return Status(StatusCode::kInterrupted, "interrupted");
  return Next::kContinue;
}

//===-- Commands ------------------------------------------------------------------------------===//

Result<Chat::Next> Chat::execute(std::string_view command) {
  const size_t end = std::min(command.find_first_of(kSpace), command.size());
  const std::string_view name = command.substr(0, end);
  const std::string_view argument = trimmed(command.substr(end));

  const bool takesArgument = name == "/system" || name == "/save" || name == "/memory";
  if (!takesArgument && !argument.empty()) {
    screen.notice(
        strCat(name, " takes no text; a message that begins with / is put between \"\"\""));
  } else if (name == "/quit" || name == "/exit" || name == "/bye") {
    return Next::kQuit;
  } else if (name == "/system") {
    setSystem(argument);
  } else if (name == "/reset") {
    conversation.reset();
    screen.notice("the conversation begins anew");
  } else if (name == "/save") {
    save(std::string(argument));
  } else if (name == "/memory") {
    changeMemory(argument);
  } else if (name == "/stats") {
    showStats();
  } else if (name == "/undo") {
    undo();
  } else if (name == "/regen") {
    MOERT_RETURN_IF_ERROR(regenerate());
    if (signals.endsProgram)
      return Status(StatusCode::kInterrupted, "interrupted");
  } else if (name == "/help" || name == "/?") {
    showHelp();
  } else {
    screen.notice(strCat("unknown command ", name,
                         "; /help lists them, and a message that begins "
                         "with / is put between \"\"\""));
  }
  return Next::kContinue;
}

void Chat::undo() {
  const bool hadTurn = conversation.removeLastTurn();
  screen.notice(hadTurn ? "the last message and its answer are taken back"
                        : "there is no message to take back");
}

Status Chat::regenerate() {
  if (!conversation.removeAnswer()) {
    screen.notice("there is no message to answer again");
    return {};
  }
  if (settings.isGreedy)
    screen.notice("the most likely tokens are the same again; --temp draws others");
  return respond();
}

void Chat::setSystem(std::string_view text) {
  conversation.setSystem(std::string(text));
  screen.notice(text.empty() ? "no system message from now on" : "the system message is set");
}

void Chat::save(const std::string &path) {
  if (path.empty()) {
    screen.notice("/save takes the name of a file, in which the messages are written as JSON");
    return;
  }
  auto write = [&]() -> Status {
    MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
    MOERT_RETURN_IF_ERROR(file.append(conversation.asJson()));
    return file.commit();
  };
  const Status status = write();
  screen.notice(status.isOk() ? strCat("saved ", path) : status.message());
}

void Chat::changeMemory(std::string_view wanted) {
  Status refusal;
  if (wanted == "follow") {
    settings.followsMemory = true;
  } else if (!wanted.empty()) {
    const Result<Size> size = parseSize(wanted);
    refusal = size.isOk() ? budget.set({size->bytes, size->fraction}) : size.status();
    if (refusal.isOk())
      settings.followsMemory = false;
  }
  loaded.account = budget.largestAccount();
  if (!refusal.isOk()) {
    screen.notice(refusal.message());
    return;
  }
  const MemoryAccount &account = loaded.engine->account();
  screen.notice(strCat("budget     ", formatBytes(account.budgetBytes), ", accounted ",
                       formatBytes(account.totalBytes()), ", plan ",
                       loaded.model->artifact().plans[account.plan].name,
                       settings.followsMemory ? "; follows what the system has room for" : ""));
}

void Chat::showStats() {
  if (numbers)
    printNumbers(*numbers, loaded);
  screen.notice(strCat("context    ", session.length(), " of ", session.capacity(), " tokens, ",
                       conversation.turns(), conversation.turns() == 1 ? " turn" : " turns"));
}

void Chat::showHelp() {
  screen.notice("/system TEXT   set the system message; without TEXT remove it\n"
                "/regen         answer the last message again\n"
                "/undo          take back the last message and its answer\n"
                "/reset         forget the conversation, but not the system message\n"
                "/save FILE     write the messages as JSON\n"
                "/memory SIZE   continue with another budget, such as 4GiB, 25% or follow; without "
                "SIZE show it\n"
                "/stats         speed, hit rate and memory of the last answer; the context's use\n"
                "/quit          end, as do /bye, /exit and Ctrl-D; Ctrl-C ends an answer\n"
                "A line that ends in \\ continues; \"\"\" begins and ends a message of any lines.");
}

//===-- Answers -------------------------------------------------------------------------------===//

/// Renders the conversation, drops turns where the settings have it, and appends the answer so far.
/// nullopt, after a notice, if it has no room or cannot be rendered.
Result<std::optional<Chat::Prompt>> Chat::fit(std::span<const int32_t> answerSoFar) {
  const size_t capacity = session.capacity();
  const size_t room = settings.onFull == OnFull::kStop
                          ? 1
                          : std::clamp<size_t>(settings.maxTokens - answerSoFar.size(), 1,
                                               std::max<size_t>(capacity / kRoomFraction, 1));
  for (size_t dropped = 0;; ++dropped) {
    Result<std::string> text = conversation.render(settings.templateLimits);
    if (!text.isOk()) {
      screen.notice(text.status().message());
      return std::optional<Prompt>();
    }
    MOERT_ASSIGN_OR_RETURN(PromptTokens tokens, sessionText.tokensOf(*text));
    tokens.tokens.insert(tokens.tokens.end(), answerSoFar.begin(), answerSoFar.end());
    const size_t size = tokens.tokens.size();
    const bool hasRoom = size + room <= capacity;
    if (!hasRoom && settings.onFull == OnFull::kShift && conversation.dropOldestTurn())
      continue;
    if (dropped > 0)
      screen.notice(
          strCat("context full: dropped the oldest ", dropped, dropped == 1 ? " turn" : " turns"));
    if (!hasRoom && size >= capacity) {
      screen.notice(strCat("the conversation would have ", size, " tokens, the context has ",
                           capacity, ": /reset begins anew",
                           settings.onFull == OnFull::kStop
                               ? ", and without --on-full stop the oldest turns are dropped"
                               : ", and --context takes more"));
      return std::optional<Prompt>();
    }
    return std::optional(Prompt{std::move(*text), std::move(tokens)});
  }
}

/// Generates until the answer ends or the context is full.
Result<GenerationEnd> Chat::continueFrom(const Prompt &prompt, AnswerText &text) {
  const std::vector<int32_t> &tokens = prompt.tokens.tokens;
  // The last token is always computed: its logits are needed.
  const size_t kept = std::min<size_t>({prompt.tokens.kept, session.length(), tokens.size() - 1});
  if (!session.rewind(static_cast<uint32_t>(kept)))
    session.reset();
  const size_t room = session.capacity() - tokens.size();
  const size_t wanted = settings.maxTokens - answerIds.size();
  const ModelInfo &info = loaded.model->artifact().model;
  Generation::PrepareStep follow;
  if (settings.followsMemory)
    follow = [&] { return budget.follow(); };
  Generation generation(*loaded.engine, session, sampler, {}, signals.stopsAnswer, monotonicNs,
                        follow);
  GenerationRequest request = {.prompt = tokens,
                               .maxTokens = static_cast<uint32_t>(std::min(room, wanted)),
                               .endTokens = info.eosTokens,
                               .fillsContext = room < wanted,
                               .ngramStop = settings.ngramStop};
  auto end = generation.run(std::move(request), [&](int32_t token) -> Result<bool> {
    answerIds.push_back(token);
    text.add(token);
    MOERT_RETURN_IF_ERROR(screen.status());
    return true;
  });
  numbers = generation.numbers();
  loaded.account = budget.largestAccount();
  // The caller has the text once the answer has ended.
  sessionText.set({}, generation.tokens().tokens());
  return end;
}

Result<GenerationEnd> Chat::generateAnswer(Prompt prompt, AnswerText &text) {
  while (true) {
    MOERT_ASSIGN_OR_RETURN(const GenerationEnd end, continueFrom(prompt, text));
    std::optional<Prompt> next;
    if (end == GenerationEnd::kContext && settings.onFull == OnFull::kShift &&
        conversation.turns() > 1) {
      MOERT_ASSIGN_OR_RETURN(next, fit(answerIds));
    }
    if (!next) {
      text.finish();
      sessionText.set(prompt.text + text.whole(), sessionText.ids());
      return end;
    }
    prompt = std::move(*next);
  }
}

Status Chat::answer(const std::string &message) {
  conversation.addUser(message);
  return respond();
}

Status Chat::answerOnce(const std::string &message) {
  MOERT_RETURN_IF_ERROR(checkUtf8(message, "--prompt"));
  MOERT_RETURN_IF_ERROR(answer(message));
  if (signals.stopsAnswer)
    return Status(StatusCode::kInterrupted, "interrupted");
  return conversation.turns() > 0 ? Status() : invalidInput("the message was not answered");
}

Status Chat::respond() {
  const HeldKeys held;
  MOERT_ASSIGN_OR_RETURN(std::optional<Prompt> prompt, fit({}));
  if (!prompt) {
    conversation.removeLast();
    return {};
  }
  answerIds.clear();
  AnswerText text(*loaded.model->tokenizer(), settings.answers, prompt->text,
                  [this](AnswerPart part, std::string_view piece) { screen.show(part, piece); });
  Result<GenerationEnd> end = generateAnswer(std::move(*prompt), text);
  if (end.status().code() == StatusCode::kInvalidInput) {
    // Such as a token that the model lacks: another message may do.
    screen.endAnswer();
    screen.notice(end.status().message());
    conversation.removeLast();
    session.reset();
    sessionText.clear();
    return {};
  }
  MOERT_RETURN_IF_ERROR(end.status());
  screen.endAnswer();
  MOERT_RETURN_IF_ERROR(screen.status());
  noticeEnd(*end);
  if (*end == GenerationEnd::kInterrupted && answerIds.empty())
    conversation.removeLast();
  else
    conversation.addAnswer(text.answer(), text.reasoning());
  noticeRoom();
  return screen.status();
}

void Chat::noticeEnd(GenerationEnd end) {
  switch (end) {
  case GenerationEnd::kLength:
    screen.notice(strCat("ended after ", answerIds.size(), " tokens (-n)"));
    break;
  case GenerationEnd::kContext:
    screen.notice(strCat("ended: the context of ", session.capacity(),
                         " tokens is full; /reset begins anew"));
    break;
  case GenerationEnd::kRepetition:
    screen.notice("ended: it repeats itself (--ngram-stop)");
    break;
  case GenerationEnd::kInterrupted:
    screen.notice(answerIds.empty() ? "stopped; the message was taken back" : "stopped");
    break;
  case GenerationEnd::kEndToken:
  case GenerationEnd::kStop:
    break;
  }
}

/// Warns before the context is full.
void Chat::noticeRoom() {
  const uint32_t used = static_cast<uint32_t>(sessionText.ids().size());
  const uint32_t room = session.capacity() - std::min(used, session.capacity());
  if (room == 0 || room >= session.capacity() / kRoomFraction ||
      (hasWarnedOfRoom && settings.onFull == OnFull::kShift))
    return;
  hasWarnedOfRoom = true;
  screen.notice(strCat("context: ", used, " of ", session.capacity(), " tokens used; ",
                       settings.onFull == OnFull::kStop
                           ? "when it is full, the answer ends; /reset begins anew"
                           : "when it is full, the oldest turns are dropped"));
}

} // namespace moert::cli
