#include "tools/moert/EngineSource.h"

namespace moert::cli {

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

Status EngineSource::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  RowObserver observer(session.length(), takeRow);
  return engine.prefill({&session, tokens, takeRow ? LogitsWanted::kAll : LogitsWanted::kNowhere},
                        observer);
}

} // namespace moert::cli
