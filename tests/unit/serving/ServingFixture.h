// A scheduler of the synthetic model, and what its answers are.
#pragma once

#include "runtime/serving/Scheduler.h"
#include "tests/unit/engine/EngineFixture.h"

#include <memory>
#include <vector>

namespace moert::test {

using namespace std::chrono_literals;

struct Served {
  std::vector<int32_t> tokens;
  std::vector<TokenScore> scores, promptScores;
  std::optional<AnswerEnd> end;
  std::string message;
  uint32_t cachedTokens = 0;
};

/// What has arrived so far.
inline void takeInto(Served &served, Answer &answer) {
  AnswerNews news = answer.take(0ms);
  for (AnswerPiece &piece : news.pieces) {
    if (piece.token)
      served.tokens.push_back(*piece.token);
    if (piece.score)
      served.scores.push_back(*piece.score);
  }
  for (TokenScore &score : news.promptScores)
    served.promptScores.push_back(std::move(score));
  served.end = news.end;
  served.message = news.status.message();
  served.cachedTokens = news.cachedTokens;
}

inline std::vector<int32_t> promptOf(uint32_t seed, uint32_t tokens) {
  RandomStream random(seed);
  std::vector<int32_t> prompt;
  for (uint32_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>(random.nextBelow(kVocabulary)));
  return prompt;
}

inline std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Greedy sequences do not end by themselves.
inline AnswerRequest requestOf(std::vector<int32_t> prompt, uint32_t maxTokens) {
  AnswerRequest request;
  request.prompt = std::move(prompt);
  request.maxTokens = maxTokens;
  request.ignoresEndTokens = true;
  return request;
}

/// An engine without a session of its own.
struct ServedModel {
  TemporaryArtifact artifact;
  Loaded loaded;

  explicit ServedModel(EngineOptions options, const SyntheticOptions &model = {})
      : artifact(model), loaded(load(artifact.path, options)) {
    loaded.session.reset();
  }

  std::shared_ptr<Answer> add(Scheduler &scheduler, AnswerRequest request) const {
    auto answer = std::make_shared<Answer>();
    auto sequence = Sequence::create(*loaded.model, std::move(request), answer);
    REQUIRE_MESSAGE(sequence.isOk(), sequence.status().message());
    scheduler.add(std::move(sequence).value());
    return answer;
  }

  /// The answer to a request with nothing beside it.
  Served alone(const AnswerRequest &request) const {
    Scheduler scheduler(*loaded.engine, {1, 0, 64});
    const std::shared_ptr<Answer> answer = add(scheduler, request);
    while (scheduler.step()) {
    }
    Served served;
    takeInto(served, *answer);
    return served;
  }
};

inline EngineOptions servingOptions(uint32_t sessions) {
  EngineOptions options = baseOptions();
  options.sessions = sessions;
  options.sessionTokens = uint64_t(sessions) * 64;
  options.prefillChunk = 8;
  options.logitsRows = 2;
  return options;
}

} // namespace moert::test
