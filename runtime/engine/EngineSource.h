// A loaded model as a source of logits for an evaluation, and what its engine has to be loaded
// with.
#pragma once

#include "moert/Engine.h"
#include "runtime/engine/Evaluation.h"

#include <memory>

namespace moert {

/// Borrows the engine, owns a session of it: the source goes before the engine.
class EngineSource : public LogitsSource {
public:
  static Result<std::unique_ptr<EngineSource>> create(Engine &loadedEngine);

  uint32_t vocabularySize() const override {
    return engine.model().artifact().model.vocabularySize;
  }
  void reset() override { session->reset(); }
  Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  EngineSource(Engine &loadedEngine, std::unique_ptr<Session> ownSession)
      : engine(loadedEngine), session(std::move(ownSession)) {}

  Engine &engine;
  std::unique_ptr<Session> session;
};

/// Tokens to append at a time (EvaluationOptions::stepTokens): whole windows, unless a reference's
/// rows of logits would take more than 32 MiB.
uint32_t evaluationStepTokens(uint32_t windowTokens, uint32_t vocabularySize, bool hasReference);

/// The given options with the context and the rows of logits that an evaluation needs.
EngineOptions evaluationEngineOptions(EngineOptions engine, const EvaluationOptions &options);

} // namespace moert
