#include "runtime/serving/TokenSequence.h"

#include <algorithm>

namespace moert {

const char *nameOf(GenerationEnd end) {
  switch (end) {
  case GenerationEnd::kLength:
    return "length";
  case GenerationEnd::kContext:
    return "context";
  case GenerationEnd::kEndToken:
    return "eos";
  case GenerationEnd::kStop:
    return "stop";
  case GenerationEnd::kRepetition:
    return "repetition";
  case GenerationEnd::kInterrupted:
    return "interrupted";
  }
  return "";
}

SessionTokens TokenSequence::part(Session &session, uint32_t most) const {
  const uint32_t left = rest(session), count = std::min(most, left);
  const bool isFollowed = count == left && limits.maxTokens > 0;
  return {&session, std::span(all).subspan(all.size() - left, count),
          isFollowed ? LogitsWanted::kLast : LogitsWanted::kNowhere, isPrefilling(session)};
}

bool TokenSequence::isEndToken(int32_t token) const {
  return std::find(limits.endTokens.begin(), limits.endTokens.end(), token) !=
         limits.endTokens.end();
}

Result<std::optional<GenerationEnd>> TokenSequence::take(int32_t token, const TakeToken &pass) {
  using End = std::optional<GenerationEnd>;
  if (isEndToken(token))
    return End(GenerationEnd::kEndToken);
  all.push_back(token);
  MOERT_ASSIGN_OR_RETURN(const bool goesOn, pass(token));
  if (!goesOn)
    return End(GenerationEnd::kStop);
  if (repeatsItself(limits.ngramStop, generated()))
    return End(GenerationEnd::kRepetition);
  return generatedTokens() == limits.maxTokens ? End(fullEnd()) : End();
}

} // namespace moert
