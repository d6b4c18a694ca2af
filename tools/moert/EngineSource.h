// A loaded model as a source of logits for an evaluation.
#pragma once

#include "moert/Engine.h"
#include "runtime/engine/Evaluation.h"

namespace moert::cli {

/// Borrows the engine and its session.
class EngineSource : public LogitsSource {
public:
  EngineSource(Engine &loadedEngine, Session &ownSession)
      : engine(loadedEngine), session(ownSession) {}

  uint32_t vocabularySize() const override {
    return engine.model().artifact().model.vocabularySize;
  }
  void reset() override { session.reset(); }
  Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  Engine &engine;
  Session &session;
};

} // namespace moert::cli
