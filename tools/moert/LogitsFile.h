// The safetensors file of `moert logits`: logits f32 [T, V], weights f32 [L, T, k], experts
// i32 [L, T, k], where L counts the layers with routed experts; those of an encoder and its input
// have tensors of their own, encoder_weights and encoder_experts. Rows are written as they are
// computed, so memory is bounded by one chunk of tokens.
#pragma once

#include "runtime/base/OutputFile.h"
#include "runtime/engine/Engine.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert::cli {

struct LogitsShape {
  uint64_t tokens = 0;
  uint64_t vocabulary = 0;
  uint64_t moeLayers = 0;
  uint64_t topK = 0; // The largest of all layers; missing ranks of a layer are -1 and 0.
  uint64_t encoderTokens = 0, encoderLayers = 0; // The first MoE layers; not in moeLayers.
};

/// encoderTokens: of the input of an encoder, 0 without one.
LogitsShape logitsShapeOf(const Artifact &artifact, uint64_t tokens, uint64_t encoderTokens);

/// A tensor of 4-byte elements: "F32" or "I32".
struct TensorEntry {
  std::string name;
  const char *type;
  std::vector<uint64_t> shape;

  uint64_t bytes() const;
};

/// The header of a safetensors file with these tensors, one after the other, with its length in
/// front, padded to a multiple of 8 bytes. The format's own writer orders them by type, then by
/// name.
std::string tensorsHeader(std::span<const TensorEntry> tensors);
std::string logitsHeader(const LogitsShape &shape);

/// Owned by one run. The chunks of a sequence pass through it in order: run a step with it as the
/// observer, then call endChunk().
class LogitsFile : public StepObserver {
public:
  static uint64_t memoryBytes(const LogitsShape &shape, uint32_t chunkTokens);
  static Result<LogitsFile> create(const std::string &path, const LogitsShape &shape,
                                   uint32_t chunkTokens);

  /// The input of an encoder comes before the chunks: encode it with the file as the observer.
  Status endEncoder();
  void beginChunk(uint32_t firstPosition, uint32_t tokens);
  Status onLogits(Session &session, uint32_t position, std::span<const float> logits) override;
  void onRoute(Session &session, uint32_t moeLayer, uint32_t position,
               std::span<const int32_t> experts, std::span<const float> weights) override;
  Status endChunk();
  Status commit() { return file.commit(); }

private:
  LogitsFile(OutputFile &&output, const LogitsShape &tensorShape, uint32_t chunkTokens,
             uint64_t headerSize);

  /// The router's choices for some consecutive tokens.
  struct Choices {
    uint64_t layers = 0, tokens = 0;               // The sizes of the tensors.
    uint64_t weightsOffset = 0, expertsOffset = 0; // From the file's first byte.
    uint32_t begin = 0, count = 0, room = 0;       // Tokens.
    std::vector<int32_t> experts = {};             // [layers][room][topK]
    std::vector<float> weights = {};
  };
  Choices choicesOf(uint64_t layers, uint64_t tokens, uint32_t room) const;
  static void clear(Choices &choices);
  Status write(const Choices &choices);

  OutputFile file;
  LogitsShape shape;
  uint64_t logitsOffset; // From the file's first byte.
  Choices encoded, chunk;
};

} // namespace moert::cli
