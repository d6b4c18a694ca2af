#include "runtime/engine/EngineSource.h"

#include <algorithm>

namespace moert {

/// Rows of the head at a time: its weights are read once for all of them.
constexpr uint32_t kLogitsRows = 16;
/// What the reference's rows of one step may take: a step of 55 tokens at a vocabulary of 150,000.
constexpr uint64_t kReferenceRowsBytes = 32 << 20;

namespace {

class RowObserver : public StepObserver {
public:
  RowObserver(uint32_t first, const LogitsSource::TakeRow &taker)
      : firstPosition(first), takeRow(taker) {}

  Status onLogits(Session &, uint32_t position, std::span<const float> logits) override {
    return takeRow(position - firstPosition, logits);
  }

private:
  uint32_t firstPosition;
  const LogitsSource::TakeRow &takeRow;
};

} // namespace

Result<std::unique_ptr<EngineSource>> EngineSource::create(Engine &loadedEngine) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, loadedEngine.createSession());
  return std::unique_ptr<EngineSource>(new EngineSource(loadedEngine, std::move(session)));
}

Status EngineSource::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  RowObserver observer(session->length(), takeRow);
  return engine.prefill(
      {session.get(), tokens, takeRow ? LogitsWanted::kAll : LogitsWanted::kNowhere}, observer);
}

uint32_t evaluationStepTokens(uint32_t windowTokens, uint32_t vocabularySize, bool hasReference) {
  if (!hasReference)
    return windowTokens;
  uint64_t rows = kReferenceRowsBytes / (uint64_t(vocabularySize) * sizeof(float));
  return static_cast<uint32_t>(std::clamp<uint64_t>(rows, 1, windowTokens));
}

EngineOptions evaluationEngineOptions(EngineOptions engine, const EvaluationOptions &options) {
  engine.contextTokens = options.windowTokens;
  engine.logitsRows = std::min(kLogitsRows, options.windowTokens);
  return engine;
}

} // namespace moert
