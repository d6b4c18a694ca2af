#include "runtime/evaluation/EngineSource.h"

#include <algorithm>

namespace moert {

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

Result<std::unique_ptr<EngineSource>> EngineSource::create(Engine &loadedEngine,
                                                           const LabelledImages *images) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, loadedEngine.createSession());
  return std::unique_ptr<EngineSource>(new EngineSource(loadedEngine, std::move(session), images));
}

uint32_t EngineSource::wholeTokens() const {
  return engine.isLossy() && !engine.losesDecoding() ? engine.prefillChunk() : 1;
}

Status EngineSource::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  RowObserver observer(session->length(), takeRow);
  if (images) {
    if (!takeRow)
      return {};
    MOERT_RETURN_IF_ERROR(images->read(static_cast<uint64_t>(tokens.front()), pixels));
    return engine.classify(*session, pixels, 1, observer);
  }
  const LogitsWanted wanted = takeRow ? LogitsWanted::kAll : LogitsWanted::kNowhere;
  if (!engine.losesDecoding())
    return engine.prefill({session.get(), tokens, wanted}, observer);
  const size_t most = engine.decodesInBatches() ? engine.prefillChunk() : 1;
  for (size_t i = 0; i < tokens.size(); i += most) {
    const SessionTokens batch = {session.get(),
                                 tokens.subspan(i, std::min(most, tokens.size() - i)), wanted};
    MOERT_RETURN_IF_ERROR(engine.step({&batch, 1}, observer));
  }
  return {};
}

} // namespace moert
