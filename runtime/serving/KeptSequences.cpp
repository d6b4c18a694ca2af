// What sequences with a common beginning share: which ones are kept, and which tokens another one
// takes over.
#include "runtime/serving/Scheduler.h"

#include <algorithm>

namespace moert {

/// A common beginning has to be at least that long: most texts share a token or two.
constexpr uint32_t kLeastPrefix = 16;

static uint32_t commonTokens(const std::vector<int32_t> &a, const std::vector<int32_t> &b) {
  return static_cast<uint32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                               a.begin());
}

// The last token of a prompt is always computed: its logits are needed. States exist for whole
// sequences only.
uint32_t Scheduler::usableTokens(const std::vector<int32_t> &computed, const Session &session,
                                 const Sequence &sequence) const {
  const auto most = static_cast<uint32_t>(sequence.tokens().size() - 1);
  const uint32_t common =
      std::min({commonTokens(computed, sequence.tokens()), most, session.length()});
  if (common < kLeastPrefix || (engine.hasStates() && common != session.length()))
    return 0;
  return common;
}

Scheduler::Prefix Scheduler::longestPrefix(const Sequence &sequence) const {
  Prefix best;
  if (sequence.request().scoresPrompt) // Needs the logits of all its tokens.
    return best;
  auto consider = [&](const std::vector<int32_t> &computed, Session &session, uint64_t keptId) {
    const uint32_t tokens = usableTokens(computed, session, sequence);
    if (tokens > best.tokens)
      best = {&session, tokens, keptId};
  };
  for (const Kept &one : kept)
    consider(one.tokens, *one.session, one.id);
  for (const auto &other : running)
    consider(other->tokens(), *other->session(), 0);
  return best;
}

bool Scheduler::waitsForPrefix(const Sequence &sequence, const Prefix &prefix) {
  if (sequence.request().scoresPrompt)
    return false;
  const auto most = static_cast<uint32_t>(sequence.tokens().size() - 1);
  for (const auto &other : running) {
    if (!other->isPrefilling())
      continue; // Its tokens come one by one: computing them at once is faster.
    const uint32_t later = std::min(commonTokens(other->tokens(), sequence.tokens()), most);
    if (later < kLeastPrefix || later <= prefix.tokens || later <= other->session()->length())
      continue;
    std::vector<Sequence::Stop> &stops = other->place.stops;
    if (engine.hasStates() && std::none_of(stops.begin(), stops.end(),
                                           [&](const auto &stop) { return stop.tokens == later; }))
      stops.push_back({later, false});
    return true;
  }
  return false;
}

// A copy within kLeastPrefix tokens of another one would save less than it takes.
std::vector<Sequence::Stop> Scheduler::stopsFor(const Sequence &sequence,
                                                const Prefix &prefix) const {
  std::vector<Sequence::Stop> stops;
  if (!engine.hasStates() || limits.kept == 0 || sequence.request().scoresPrompt)
    return stops;
  const auto most = static_cast<uint32_t>(sequence.tokens().size() - 1);
  uint32_t before = prefix.tokens;
  auto append = [&](uint32_t tokens) {
    if (tokens > most || tokens < before + kLeastPrefix)
      return;
    stops.push_back({tokens, true});
    before = tokens;
  };
  uint32_t branch = 0;
  for (const Kept &one : kept)
    branch = std::max(branch, commonTokens(one.tokens, sequence.tokens()));
  for (const auto &other : running)
    branch = std::max(branch, std::min(commonTokens(other->tokens(), sequence.tokens()),
                                       other->session()->length()));
  append(sequence.request().sharedTokens);
  append(std::min(branch, most));
  return stops;
}

void Scheduler::keepCopy(const std::vector<int32_t> &tokens, Session &session) {
  const uint32_t length = session.length(), reserved = Engine::sessionTokensFor(length);
  const bool isKept = std::any_of(kept.begin(), kept.end(), [&](const Kept &one) {
    return one.tokens.size() == length && commonTokens(one.tokens, tokens) == length;
  });
  if (isKept || reserved > freeTokens() + keptTokens())
    return;
  while (!kept.empty() && (kept.size() >= limits.kept || reserved > freeTokens()))
    kept.pop_front();
  Result<std::unique_ptr<Session>> copy = engine.createSession(length);
  if (!copy.isOk() || !engine.copyPrefix(session, **copy, length).isOk())
    return; // Its tokens are computed again where they are needed.
  kept.push_back(
      {++lastKeptId, {tokens.begin(), tokens.begin() + length}, std::move(copy).value(), true});
}

void Scheduler::takeStops(Sequence &sequence) {
  std::erase_if(sequence.place.stops, [&](const Sequence::Stop &stop) {
    if (stop.tokens == sequence.session()->length() && stop.isKept)
      keepCopy(sequence.tokens(), *sequence.session());
    return stop.tokens <= sequence.session()->length();
  });
}

void Scheduler::keep(Sequence &sequence) {
  if (limits.kept == 0)
    return;
  std::vector<int32_t> tokens = sequence.computedTokens();
  if (tokens.size() < kLeastPrefix)
    return;
  // One that the new one continues is of no more use.
  std::erase_if(kept, [&](const Kept &one) {
    return !one.isCopy && one.tokens.size() <= tokens.size() &&
           commonTokens(one.tokens, tokens) == one.tokens.size();
  });
  if (kept.size() == limits.kept)
    kept.pop_front();
  kept.push_back({++lastKeptId, std::move(tokens), sequence.releaseSession()});
}

} // namespace moert
