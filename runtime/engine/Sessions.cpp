// The sessions of an engine and their steps.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/FloatMode.h"
#include "runtime/engine/Footprint.h"

#include <algorithm>

namespace moert {

//===-- Steps ---------------------------------------------------------------------------------===//

SequenceSession *Engine::Impl::find(const Session *session) const {
  const auto found = std::find(sessions.begin(), sessions.end(), session);
  return found == sessions.end() ? nullptr : *found;
}

Status Engine::Impl::checkTokens(const SessionTokens &tokens) const {
  if (!tokens.session)
    return invalidInput("a session that is null, expected one of this engine");
  const SequenceSession *const own = find(tokens.session);
  if (!own)
    return invalidInput("a session that is not one of this engine, or has ended");
  if (tokens.tokens.empty())
    return invalidInput("a session with 0 tokens to compute, expected at least 1");
  const Session &session = *own;
  if (own->memory.areStatesLost)
    return invalidInput(
        "a session whose last step failed after it had updated states, which cannot "
        "be taken back; expected one that was reset since");
  if (tokens.tokens.size() > session.capacity() - session.length())
    return invalidInput("the sequence would have ", session.length() + tokens.tokens.size(),
                        " tokens, expected at most the context of ", session.capacity());
  for (int32_t token : tokens.tokens)
    if (token < 0 || static_cast<uint32_t>(token) >= artifact().model.vocabularySize)
      return invalidInput("token id ", token, ", expected 0 to ",
                          artifact().model.vocabularySize - 1);
  return {};
}

Status Engine::Impl::checkBatch(std::span<const SessionTokens> parts) const {
  if (!decode)
    return invalidInput("a step of a model without the program 'decode'");
  uint64_t count = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    MOERT_RETURN_IF_ERROR(checkTokens(parts[i]));
    if (encode && find(parts[i].session)->memory.inputTokens == 0)
      return invalidInput("a step of a session without input, expected Engine::encode() before");
    for (const SessionTokens &earlier : parts.first(i))
      if (earlier.session == parts[i].session)
        return invalidInput("a session is in the batch twice, expected once with all its tokens");
    count += parts[i].tokens.size();
  }
  if (count == 0 || count > chunk())
    return invalidInput("a batch of ", count, " tokens, expected 1 to ", chunk());
  return {};
}

Status Engine::Impl::executeBatch(std::span<const SessionTokens> parts, const Program &program) {
  bool isDecode = true, beginsPrompt = false; // For any session: all share one cache.
  bool hasPrompt = false;
  for (const SessionTokens &part : parts) {
    isDecode = isDecode && part.tokens.size() == 1;
    hasPrompt = hasPrompt || part.isPrompt;
    // That of a model with an encoder begins with its input.
    beginsPrompt = beginsPrompt || (part.session->length() == 0 && (!encode || &program == encode));
  }
  CacheMachine *const decoded = misses ? misses->decoded() : nullptr;
  if (decoded && hasPrompt)
    return invalidInput(
        "a prompt, expected steps of no prompt from an engine that decodes in batches");
  if (beginsPrompt)
    MOERT_RETURN_IF_ERROR(experts->cache().beginPrompt());
  if (beginsPrompt && decoded)
    decoded->beginPrompt();
  step.batch.clear();
  for (const SessionTokens &part : parts) {
    SequenceSession *const session = find(part.session);
    uint32_t position = session->length();
    for (size_t i = 0; i < part.tokens.size(); ++i) {
      bool isLast = i + 1 == part.tokens.size();
      bool wantsLogits =
          part.wanted == LogitsWanted::kAll || (part.wanted == LogitsWanted::kLast && isLast);
      step.batch.push_back({session, position++, part.tokens[i], wantsLogits});
    }
  }
  step.program = &program;
  step.isLossy = (isDecode || decoded) && !hasPrompt && misses && misses->rule().changesDecoding();
  // Beside other sequences, which it must not change, a prompt is computed exactly.
  step.lowersPrompt = hasPrompt && parts.size() == 1 && misses && misses->rule().changesPrompts();
  step.begin(executor->kernels());
  return executor->run(step);
}

template <typename Execute>
Status Engine::Impl::inStep(std::span<const SessionTokens> batch, StepObserver &observer,
                            Execute execute) {
  step.observer = &observer;
  // Ends the step, also where an allocation throws: the engine can make another one.
  struct Stepping {
    Engine::Impl &engine;
    std::span<const SessionTokens> batch;
    bool isDone = false;

    ~Stepping() {
      engine.isStepping = false;
      if (isDone)
        return;
      engine.experts->cache().abandonPass();
      if (!engine.artifact().stateSlots.empty())
        for (const SessionTokens &part : batch)
          engine.find(part.session)->memory.areStatesLost = part.session->length() != 0;
    }
  } stepping = {*this, batch};
  isStepping = true;
  MOERT_RETURN_IF_ERROR(execute());
  stepping.isDone = true;
  return {};
}

Status Engine::step(std::span<const SessionTokens> batch, StepObserver &observer) {
  const DefaultFloatMode mode;
  if (impl->isStepping)
    return failed("a step within a step: an observer must not call the engine");
  MOERT_RETURN_IF_ERROR(impl->checkBatch(batch));
  const bool isDecode = std::all_of(batch.begin(), batch.end(), [](const SessionTokens &part) {
    return part.tokens.size() == 1;
  });
  MOERT_RETURN_IF_ERROR(impl->inStep(batch, observer, [&] {
    return impl->executeBatch(batch, isDecode ? *impl->decode : *impl->prefill);
  }));
  for (const SessionTokens &part : batch)
    impl->find(part.session)->memory.length += static_cast<uint32_t>(part.tokens.size());
  return {};
}

Status Engine::Impl::checkImages(const Session &session, std::span<const float> pixels,
                                 uint32_t images) const {
  const PatchesInstruction *of = imagesOf(artifact());
  if (!of)
    return invalidInput("images for a model of text, expected a vision model");
  if (!find(&session) || session.length() != 0)
    return invalidInput("a session that has tokens, or is not one of this engine");
  if (images == 0 || images > std::min(chunk(), session.capacity()))
    return invalidInput("a batch of ", images, " images, expected 1 to ",
                        std::min(chunk(), session.capacity()));
  if (pixels.size() != uint64_t(images) * of->channels * of->side * of->side)
    return invalidInput(pixels.size(), " values for ", images, " images of ", of->channels, " x ",
                        of->side, " x ", of->side);
  return {};
}

Status Engine::Impl::executeImages(Session &session, std::span<const float> pixels,
                                   uint32_t images) {
  MOERT_RETURN_IF_ERROR(experts->cache().beginPrompt());
  step.batch.clear();
  for (uint32_t image = 0; image < images; ++image)
    step.batch.push_back({find(&session), image, 0, true});
  step.program = classify;
  step.pixels = pixels.data();
  step.isLossy = step.lowersPrompt = false;
  step.begin(executor->kernels());
  return executor->run(step);
}

Status Engine::classify(Session &session, std::span<const float> pixels, uint32_t images,
                        StepObserver &observer) {
  const DefaultFloatMode mode;
  if (impl->isStepping)
    return failed("a step within a step: an observer must not call the engine");
  MOERT_RETURN_IF_ERROR(impl->checkImages(session, pixels, images));
  const SessionTokens batch = {&session, {}, LogitsWanted::kAll};
  return impl->inStep({&batch, 1}, observer,
                      [&] { return impl->executeImages(session, pixels, images); });
}

Status Engine::encode(Session &session, std::span<const int32_t> tokens, StepObserver &observer) {
  const DefaultFloatMode mode;
  if (impl->isStepping)
    return failed("a step within a step: an observer must not call the engine");
  if (!impl->encode)
    return invalidInput("an input to encode, but the model has no encoder");
  const SessionTokens input = {&session, tokens, LogitsWanted::kNowhere, true};
  MOERT_RETURN_IF_ERROR(impl->checkTokens(input));
  SequenceMemory &memory = impl->find(&session)->memory;
  if (memory.length != 0 || memory.inputTokens != 0)
    return invalidInput("an input of a session that has one, expected an empty session");
  if (tokens.size() > impl->chunk())
    return invalidInput("an input of ", tokens.size(), " tokens, expected at most ", impl->chunk(),
                        ": it is encoded as a whole");
  memory.inputTokens = static_cast<uint32_t>(tokens.size());
  const Status status = impl->inStep({&input, 1}, observer, [&] {
    return impl->executeBatch({&input, 1}, *impl->encode);
  });
  if (!status.isOk())
    memory.inputTokens = 0;
  return status;
}

Status Engine::setPrefix(Session &session, uint32_t tokens) {
  SequenceSession *const own = impl->find(&session);
  if (!own || own->memory.length != 0)
    return invalidInput("a prefix of a session that has tokens or is not one of this engine");
  if (impl->encode || !computesWholeCalls(impl->artifact()))
    return invalidInput("a prefix of tokens that attend to each other, which this model does not "
                        "have");
  if (tokens > session.capacity())
    return invalidInput("a prefix of ", tokens, " tokens, expected at most ", session.capacity());
  own->memory.inputTokens = tokens;
  return {};
}

Status Engine::prefill(const SessionTokens &tokens, StepObserver &observer,
                       const std::atomic<bool> *stop) {
  MOERT_RETURN_IF_ERROR(impl->checkTokens(tokens));
  for (size_t begin = 0; begin < tokens.tokens.size();) {
    if (stop && stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    size_t count = std::min<size_t>(impl->chunk(), tokens.tokens.size() - begin);
    SessionTokens part = {tokens.session, tokens.tokens.subspan(begin, count), tokens.wanted, true};
    bool isLast = begin + count == tokens.tokens.size();
    if (part.wanted == LogitsWanted::kLast && !isLast)
      part.wanted = LogitsWanted::kNowhere;
    MOERT_RETURN_IF_ERROR(step({&part, 1}, observer));
    begin += count;
  }
  return {};
}

//===-- Sessions ------------------------------------------------------------------------------===//

Result<std::unique_ptr<Session>> Engine::Impl::createSession(uint32_t capacity, Populate populate) {
  if (sessions.size() >= account.sessions)
    return invalidInput("a session beyond the ", account.sessions,
                        " that the memory account covers; raise EngineOptions::sessions");
  uint64_t taken = 0;
  for (const SequenceSession *other : sessions)
    taken += other->memory.capacity;
  if (capacity > account.sessionTokens - taken)
    return invalidInput("a session of ", capacity, " tokens beside others of ", taken,
                        ", expected at most ", account.sessionTokens,
                        " together; raise EngineOptions::sessionTokens");
  const uint64_t bytes = kvBytesOf(artifact(), capacity) + placeStates(artifact(), false).bytes;
  MOERT_ASSIGN_OR_RETURN(
      ReservedRegion region,
      ReservedRegion::create(sequences, "a session", bytes, onDevice ? Populate::kNo : populate));
  SequenceMemory sequence = SequenceMemory::create(artifact(), std::move(region), capacity, false);
  if (onDevice) {
    MOERT_ASSIGN_OR_RETURN(sequence.onDevice, onDevice->allocateSequence(capacity));
  }
  // Memory comes in blocks: a sequence must not grow past what its rotation is for.
  for (const Rope &rope : artifact().ropes)
    if (options.contextTokens <= rope.originalPositions)
      sequence.mostTokens = std::min(sequence.mostTokens, rope.originalPositions);
  return std::unique_ptr<Session>(
      std::make_unique<SequenceSession>(std::move(sequence), &sessions));
}

Result<std::unique_ptr<Session>> Engine::createSession() {
  return impl->createSession(impl->account.contextTokens, Populate::kYes);
}

Result<std::unique_ptr<Session>> Engine::createSession(uint32_t tokens) {
  if (tokens == 0 || tokens > impl->account.contextTokens)
    return invalidInput("a session of ", tokens, " tokens, expected 1 to the context of ",
                        impl->account.contextTokens);
  return impl->createSession(sessionTokensFor(tokens), Populate::kNo);
}

Status Engine::copyPrefix(Session &from, Session &to, uint32_t tokens) {
  const SequenceSession *const source = impl->find(&from);
  SequenceSession *const target = impl->find(&to);
  if (!source || !target)
    return invalidInput("a session that is not one of this engine, or has ended");
  if (to.length() != 0 || source->memory.areStatesLost)
    return invalidInput("a session with ", to.length(),
                        " tokens that takes over a prefix, expected an empty one and a source "
                        "whose last step did not fail");
  if (tokens > from.length() || tokens > to.capacity())
    return invalidInput("a prefix of ", tokens, " tokens, expected at most the source's ",
                        from.length(), " and the target's ", to.capacity());
  if (source->memory.inputTokens != 0)
    return invalidInput("a prefix of a sequence with an input, expected one without");
  if (hasStates() && tokens != from.length())
    return invalidInput("a prefix of ", tokens,
                        " tokens of a sequence with recurrent states, "
                        "expected all ",
                        from.length());
  if (impl->onDevice)
    return impl->onDevice->copyPrefix(source->memory, target->memory, tokens);
  target->memory.copyPrefix(impl->artifact(), source->memory, tokens);
  return {};
}

bool Engine::hasStates() const {
  return !impl->artifact().stateSlots.empty();
}

uint32_t Engine::sessionTokensFor(uint32_t tokens) {
  return static_cast<uint32_t>(roundUp(tokens, kKvBlockTokens));
}

Engine::~Engine() {
  for (SequenceSession *session : impl->sessions)
    session->forgetEngine();
}

} // namespace moert
