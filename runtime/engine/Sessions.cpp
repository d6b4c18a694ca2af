// The sessions of an engine and their steps.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/FloatMode.h"
#include "runtime/engine/Footprint.h"

#include <algorithm>

namespace moert {

//===-- Steps ---------------------------------------------------------------------------------===//

// A foreign session is only compared by address: it may have been destroyed.
Status Engine::Impl::checkTokens(const SessionTokens &tokens) const {
  if (!tokens.session)
    return invalidInput("a session that is null, expected one of this engine");
  if (std::find(sessions.begin(), sessions.end(), tokens.session) == sessions.end())
    return invalidInput("a session that is not one of this engine, or has ended");
  if (tokens.tokens.empty())
    return invalidInput("a session with 0 tokens to compute, expected at least 1");
  const Session &session = *tokens.session;
  if (tokens.session->internals().areStatesLost)
    return invalidInput(
        "a session whose last step failed after it had updated states, which cannot "
        "be taken back; expected one that was reset since");
  if (tokens.tokens.size() > session.capacity() - session.length())
    return invalidInput("the sequence would have ", session.length() + tokens.tokens.size(),
                        " tokens, expected at most the context of ", session.capacity());
  for (int32_t token : tokens.tokens)
    if (token < 0 || static_cast<uint32_t>(token) >= artifact->model.vocabularySize)
      return invalidInput("token id ", token, ", expected 0 to ",
                          artifact->model.vocabularySize - 1);
  return {};
}

Status Engine::Impl::checkBatch(std::span<const SessionTokens> parts) const {
  uint64_t count = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    MOERT_RETURN_IF_ERROR(checkTokens(parts[i]));
    for (const SessionTokens &earlier : parts.first(i))
      if (earlier.session == parts[i].session)
        return invalidInput("a session is in the batch twice, expected once with all its tokens");
    count += parts[i].tokens.size();
  }
  if (count == 0 || count > chunk)
    return invalidInput("a batch of ", count, " tokens, expected 1 to ", chunk);
  return {};
}

Status Engine::Impl::executeBatch(std::span<const SessionTokens> parts) {
  bool isDecode = true, beginsPrompt = false; // For any session: all share one cache.
  bool hasPrompt = false;
  for (const SessionTokens &part : parts) {
    isDecode = isDecode && part.tokens.size() == 1;
    hasPrompt = hasPrompt || part.isPrompt;
    beginsPrompt = beginsPrompt || part.session->length() == 0;
  }
  if (decodedCache && hasPrompt)
    return invalidInput(
        "a prompt, expected steps of no prompt from an engine that decodes in batches");
  if (beginsPrompt)
    MOERT_RETURN_IF_ERROR(cache->beginPrompt());
  if (beginsPrompt && decodedCache)
    decodedCache->beginPrompt();
  batch.clear();
  for (const SessionTokens &part : parts) {
    uint32_t position = part.session->length();
    for (size_t i = 0; i < part.tokens.size(); ++i) {
      bool isLast = i + 1 == part.tokens.size();
      bool wantsLogits =
          part.wanted == LogitsWanted::kAll || (part.wanted == LogitsWanted::kLast && isLast);
      batch.push_back({part.session, position++, part.tokens[i], wantsLogits});
    }
  }
  program = isDecode ? decode : prefill;
  isLossy = (isDecode || decodedCache) && !hasPrompt && missRule.changesDecoding();
  // Beside other sequences, which it must not change, a prompt is computed exactly.
  lowersPrompt = hasPrompt && parts.size() == 1 && missRule.changesPrompts();
  return executeProgram();
}

Status Engine::step(std::span<const SessionTokens> batch, StepObserver &observer) {
  const DefaultFloatMode mode;
  if (impl->isStepping)
    return failed("a step within a step: an observer must not call the engine");
  MOERT_RETURN_IF_ERROR(impl->checkBatch(batch));
  impl->observer = &observer;
  // Ends the step, also where an allocation throws: the engine can make another one.
  struct Stepping {
    Engine::Impl &engine;
    std::span<const SessionTokens> batch;
    bool isDone = false;

    ~Stepping() {
      engine.isStepping = false;
      if (isDone)
        return;
      engine.cache->abandonPass();
      if (!engine.artifact->stateSlots.empty())
        for (const SessionTokens &part : batch)
          part.session->internals().areStatesLost = part.session->length() != 0;
    }
  } stepping = {*impl, batch};
  impl->isStepping = true;
  MOERT_RETURN_IF_ERROR(impl->executeBatch(batch));
  stepping.isDone = true;
  for (const SessionTokens &part : batch)
    part.session->internals().length += static_cast<uint32_t>(part.tokens.size());
  return {};
}

Status Engine::prefill(const SessionTokens &tokens, StepObserver &observer,
                       const std::atomic<bool> *stop) {
  MOERT_RETURN_IF_ERROR(impl->checkTokens(tokens));
  for (size_t begin = 0; begin < tokens.tokens.size();) {
    if (stop && stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    size_t count = std::min<size_t>(impl->chunk, tokens.tokens.size() - begin);
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

Session::Session(std::unique_ptr<Impl> created) : impl(std::move(created)) {}
Session::~Session() {
  if (impl->owner)
    std::erase(impl->owner->sessions, this);
}
uint32_t Session::length() const {
  return impl->length;
}
uint32_t Session::capacity() const {
  return impl->mostTokens;
}
void Session::reset() {
  impl->length = 0;
  impl->areStatesLost = false;
}
bool Session::rewind(uint32_t tokens) {
  if (tokens > impl->length || (tokens < impl->length && !impl->states.empty()))
    return false;
  impl->length = tokens;
  return true;
}

std::unique_ptr<Session> Engine::Impl::makeSession(const Artifact &artifact, HostRegion memory,
                                                   uint32_t contextTokens, bool slotsShareMemory) {
  auto session = std::make_unique<Session::Impl>();
  session->capacity = session->mostTokens = contextTokens;
  session->memory = std::move(memory);
  const std::byte *first = session->memory.data();
  const std::byte *next = first, *kvEnd = first;
  uint32_t blocks = contextTokens / kKvBlockTokens;
  for (const KvSlot &slot : artifact.kvSlots) {
    Session::Impl::Slot &tables = session->slots.emplace_back();
    if (slotsShareMemory)
      next = first;
    // The rows of a head are contiguous over all blocks: they are read in half the time that they
    // take where a head's blocks lie 64 KiB apart.
    const std::byte *values = next + uint64_t(contextTokens) * slot.kvHeads * slot.keyRowBytes();
    for (uint64_t block = 0; block < blocks; ++block) {
      tables.keyBlocks.push_back(next + block * kKvBlockTokens * slot.keyRowBytes());
      tables.valueBlocks.push_back(slot.valueDim == 0
                                       ? tables.keyBlocks.back()
                                       : values + block * kKvBlockTokens * slot.valueRowBytes());
    }
    next += contextTokens * slot.bytes();
    kvEnd = std::max(kvEnd, next);
  }
  std::byte *states = session->memory.data() + (kvEnd - first);
  for (uint64_t offset : placeStates(artifact, slotsShareMemory).offsets)
    session->states.push_back(reinterpret_cast<float *>(states + offset));
  return std::unique_ptr<Session>(new Session(std::move(session)));
}

Result<std::unique_ptr<Session>> Engine::Impl::createSession(uint32_t capacity, Populate populate) {
  if (sessions.size() >= mostSessions)
    return invalidInput("a session beyond the ", mostSessions,
                        " that the memory account covers; raise EngineOptions::sessions");
  uint64_t taken = 0;
  for (const Session *other : sessions)
    taken += other->impl->capacity;
  if (capacity > mostSessionTokens - taken)
    return invalidInput("a session of ", capacity, " tokens beside others of ", taken,
                        ", expected at most ", mostSessionTokens,
                        " together; raise EngineOptions::sessionTokens");
  MOERT_ASSIGN_OR_RETURN(
      HostRegion memory,
      HostRegion::create(kvBytesOf(*artifact, capacity) + placeStates(*artifact, false).bytes,
                         populate));
  std::unique_ptr<Session> session = makeSession(*artifact, std::move(memory), capacity, false);
  // Memory comes in blocks: a sequence must not grow past what its rotation is for.
  for (const Rope &rope : artifact->ropes)
    if (sequenceTokens <= rope.originalPositions)
      session->impl->mostTokens = std::min(session->impl->mostTokens, rope.originalPositions);
  session->impl->owner = this;
  sessions.push_back(session.get());
  return session;
}

Result<std::unique_ptr<Session>> Engine::createSession() {
  return impl->createSession(impl->contextTokens, Populate::kYes);
}

Result<std::unique_ptr<Session>> Engine::createSession(uint32_t tokens) {
  if (tokens == 0 || tokens > impl->contextTokens)
    return invalidInput("a session of ", tokens, " tokens, expected 1 to the context of ",
                        impl->contextTokens);
  return impl->createSession(sessionTokensFor(tokens), Populate::kNo);
}

/// Rows of a head follow each other over all blocks.
static void copyHeads(const std::byte *from, std::byte *to, uint32_t heads, uint64_t fromRows,
                      uint64_t toRows, uint64_t rows, uint64_t rowBytes) {
  for (uint64_t head = 0; head < heads; ++head)
    std::copy_n(from + head * fromRows * rowBytes, rows * rowBytes, to + head * toRows * rowBytes);
}

Status Engine::copyPrefix(Session &from, Session &to, uint32_t tokens) {
  for (const Session *session : {&from, &to})
    if (std::find(impl->sessions.begin(), impl->sessions.end(), session) == impl->sessions.end())
      return invalidInput("a session that is not one of this engine, or has ended");
  const Session::Impl &source = *from.impl;
  Session::Impl &target = *to.impl;
  if (target.length != 0 || source.areStatesLost)
    return invalidInput("a session with ", target.length,
                        " tokens that takes over a prefix, expected an empty one and a source "
                        "whose last step did not fail");
  if (tokens > source.length || tokens > to.capacity())
    return invalidInput("a prefix of ", tokens, " tokens, expected at most the source's ",
                        source.length, " and the target's ", to.capacity());
  if (hasStates() && tokens != source.length)
    return invalidInput("a prefix of ", tokens,
                        " tokens of a sequence with recurrent states, "
                        "expected all ",
                        source.length);
  for (size_t i = 0; i < source.slots.size() && tokens > 0; ++i) {
    const KvSlot &slot = impl->artifact->kvSlots[i];
    auto *keys = const_cast<std::byte *>(target.slots[i].keyBlocks[0]);
    auto *values = const_cast<std::byte *>(target.slots[i].valueBlocks[0]);
    copyHeads(source.slots[i].keyBlocks[0], keys, slot.kvHeads, source.capacity, target.capacity,
              tokens, slot.keyRowBytes());
    if (slot.valueDim != 0)
      copyHeads(source.slots[i].valueBlocks[0], values, slot.kvHeads, source.capacity,
                target.capacity, tokens, slot.valueRowBytes());
  }
  for (size_t i = 0; i < source.states.size(); ++i) {
    const StateSlot &slot = impl->artifact->stateSlots[i];
    std::copy_n(source.states[i], uint64_t(slot.rows) * slot.width, target.states[i]);
  }
  target.length = tokens;
  target.areStatesLost = false;
  return {};
}

bool Engine::hasStates() const {
  return !impl->artifact->stateSlots.empty();
}

uint32_t Engine::sessionTokensFor(uint32_t tokens) {
  return static_cast<uint32_t>(roundUp(tokens, kKvBlockTokens));
}

Engine::~Engine() {
  for (Session *session : impl->sessions)
    session->impl->owner = nullptr;
}

} // namespace moert
