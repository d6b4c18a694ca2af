// The safetensors file of `moert logits`: logits f32 [T, V], weights f32 [L, T, k], experts
// i32 [L, T, k], where L counts the layers with routed experts. Rows are written as they are
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
};

LogitsShape logitsShapeOf(const Artifact &artifact, uint64_t tokens);

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

  void beginChunk(uint32_t firstPosition, uint32_t tokens);
  Status onLogits(Session &session, uint32_t position, std::span<const float> logits) override;
  void onRoute(Session &session, uint32_t moeLayer, uint32_t position,
               std::span<const int32_t> experts, std::span<const float> weights) override;
  Status endChunk();
  Status commit() { return file.commit(); }

private:
  LogitsFile(OutputFile &&output, const LogitsShape &tensorShape, uint32_t chunkTokens,
             uint64_t headerSize);

  OutputFile file;
  LogitsShape shape;
  uint64_t logitsOffset, weightsOffset, expertsOffset; // From the file's first byte.
  uint32_t chunkBegin = 0, chunkTokens = 0;
  uint32_t chunkRoom;
  std::vector<int32_t> chunkExperts; // [moeLayers][chunkRoom][topK]
  std::vector<float> chunkWeights;
};

} // namespace moert::cli
