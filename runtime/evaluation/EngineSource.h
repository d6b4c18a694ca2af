// A loaded model as a source of logits for an evaluation.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/evaluation/PairedPass.h"
#include "runtime/images/LabelledImages.h"

#include <memory>

namespace moert {

/// Borrows the engine and owns a session of it: the engine must outlive the source. An engine whose
/// miss rule changes decoding decodes every token alone, as it would generate it, with the cache
/// that the tokens before it left. With a miss rule each unit begins with the cache as it was
/// loaded, so that units are independent of each other. Where Engine::decodesInBatches() is true,
/// many tokens are computed at once, with the same results. An engine that lowers experts of
/// prompts reads every sequence as a prompt.
///
/// With images, for a vision model, a sequence is the number of an image and its class: the logits
/// after the first are the image's, which is computed alone.
class EngineSource : public LogitsSource {
public:
  /// images: null for a model of text; they must outlive the source.
  static Result<std::unique_ptr<EngineSource>> create(Engine &loadedEngine,
                                                      const LabelledImages *images = nullptr);

  uint32_t vocabularySize() const override {
    return engine.model().artifact().model.vocabularySize;
  }
  void reset() override { session->reset(); }
  Status beginUnit() override { return engine.isLossy() ? engine.restartCache() : Status(); }
  Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;
  uint32_t wholeTokens() const override;

private:
  EngineSource(Engine &loadedEngine, std::unique_ptr<Session> ownSession,
               const LabelledImages *labelledImages)
      : engine(loadedEngine), session(std::move(ownSession)), images(labelledImages),
        pixels(images ? images->pixels() : 0) {}

  Engine &engine;
  std::unique_ptr<Session> session;
  const LabelledImages *images;
  std::vector<float> pixels; // One image's.
};

} // namespace moert
