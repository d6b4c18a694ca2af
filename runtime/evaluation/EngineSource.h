// A loaded model as a source of logits for an evaluation.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/evaluation/PairedPass.h"

#include <memory>

namespace moert {

/// Borrows the engine and owns a session of it: the engine must outlive the source. An engine whose
/// miss rule changes decoding decodes every token alone, as it would generate it, with the cache
/// that the tokens before it left. With a miss rule each unit begins with the cache as it was
/// loaded, so that units are independent of each other. Where Engine::decodesInBatches() is true,
/// many tokens are computed at once, with the same results. An engine that lowers experts of
/// prompts reads every sequence as a prompt.
class EngineSource : public LogitsSource {
public:
  static Result<std::unique_ptr<EngineSource>> create(Engine &loadedEngine);

  uint32_t vocabularySize() const override {
    return engine.model().artifact().model.vocabularySize;
  }
  void reset() override { session->reset(); }
  Status beginUnit() override { return engine.isLossy() ? engine.restartCache() : Status(); }
  Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;
  uint32_t wholeTokens() const override;

private:
  EngineSource(Engine &loadedEngine, std::unique_ptr<Session> ownSession)
      : engine(loadedEngine), session(std::move(ownSession)) {}

  Engine &engine;
  std::unique_ptr<Session> session;
};

} // namespace moert
