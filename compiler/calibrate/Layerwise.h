// Executes a model's schedule layer by layer instead of token by token: one layer for all windows
// of a text before the next layer. Each layer's weights are read once, where memory allows, and
// only one layer's weights are in memory at a time, so that a small machine can execute a model of
// any size. The results are those of Engine::step(), bit for bit.
//
// A model's program is divided into segments: the instructions before the layers (the embedding),
// each layer, and the instructions after them (the head). Between two segments the caller holds
// each token's state (normally its residual row):
//
//   for each segment s:  begin(s);  for each batch of windows:  execute(tokens, states in, states
//   out)
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/engine/Router.h"
#include "runtime/memory/MemoryBudget.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace moert {

struct LayerwiseOptions {
  /// Tokens of a window, which is an independent sequence. 1 for a vision model: an image is a
  /// token and a window, and a batch has one, as its capacity counts all images of a call.
  uint32_t windowTokens = 0;
  uint64_t windows = 0;      // In total.
  bool wantsLogits = false;  // For every token; if not, the head's weights are not read.
  uint32_t laterRouters = 0; // Number of later MoE layers whose routers get the input too.
  /// Absent: as much as the container's limit and the free memory allow.
  std::optional<BudgetSize> memory;
  uint32_t threads = 1;
  IoBackend io = IoBackend::kAuto;
  std::optional<Isa> isa;
  uint64_t extraBytes = 0;         // Memory of the caller.
  uint64_t extraBytesPerToken = 0; // The same per token of a batch, without the states.
};

/// The memory account of a layerwise run, before anything is loaded.
struct LayerwiseAccount {
  MemoryAccount memory;      // Its prefillChunk is the tokens of a batch.
  uint32_t batchWindows = 0; // Windows executed at a time.
  bool holdsLayer = false;   // The pool holds all experts of any layer.
};

/// Refuses a budget that is too small, with the smallest that works; windows longer than the
/// model's positions, with both numbers; and programs whose layers share more than states.
Result<LayerwiseAccount> accountLayerwise(const Model &model, const LayerwiseOptions &options);

/// A row [width] for each token of the batch, or the rows of its images. Valid during one call.
template <typename T> struct LayerRows {
  const T *data = nullptr;
  uint64_t stride = 0; // In elements.
  uint32_t width = 0;
  uint32_t rowsPerWindow = 0;

  std::span<const T> row(uint64_t index) const { return {data + index * stride, width}; }
};

/// Observes the results of a batch. Called on the thread that called execute(), for all tokens of
/// the batch at once.
class LayerObserver {
public:
  struct Routed {
    uint32_t moeLayer = 0;
    LayerRows<float> input;  // Input of the experts, before quantization.
    LayerRows<float> scores; // Scores of the router.
    LayerRows<int32_t> experts;
    LayerRows<float> weights;
    const Router *router = nullptr;
  };

  virtual ~LayerObserver() = default;
  virtual Status onRouted(const Routed &) { return {}; }
  /// After onRouted: the scores of the router of a MoE layer `ahead` (1...) further on, for the
  /// input.
  virtual Status onLaterRouter(const Routed &, uint32_t /*ahead*/, LayerRows<float> /*scores*/,
                               const Router &) {
    return {};
  }
  /// Before a product with a resident weight, by its index: the row that it reads. The head's too,
  /// also where no logits are wanted.
  virtual Status onProduct(int32_t /*weight*/, LayerRows<float> /*input*/) { return {}; }
  /// Logits [vocabulary] of the token with this index in the batch.
  virtual Status onLogits(uint64_t /*token*/, std::span<const float>) { return {}; }
};

/// Used by one thread; the model outlives it.
class LayerwiseExecutor {
public:
  /// Reads and checks the resident weights once; keeps none of them.
  static Result<std::unique_ptr<LayerwiseExecutor>>
  create(const Model &model, const LayerwiseOptions &options, const LayerwiseAccount &account);
  ~LayerwiseExecutor();

  uint32_t segments() const;
  /// The model's layer of a segment; nullopt for the embedding and the head.
  std::optional<uint32_t> layerOf(uint32_t segment) const;
  /// Bytes of a token's state before a segment; 0 before the first and after the last.
  uint64_t stateBytes(uint32_t boundary) const;

  /// Reads the segment's resident weights; its experts are read as they are needed.
  Status begin(uint32_t segment);
  /// Executes the current segment for whole windows, at most the account's batchWindows. The states
  /// of token i are at i * stateBytes; `in` and `out` may be the same memory.
  /// pixels: those of the image [channels][side][side], for the first segment of a vision model,
  /// whose tokens have no meaning.
  Status execute(std::span<const int32_t> tokens, std::span<const std::byte> in,
                 std::span<std::byte> out, LayerObserver &observer,
                 std::span<const float> pixels = {});

  const std::string &ioDescription() const;
  uint64_t bytesRead() const; // Weights and experts, since create() was called.

  struct Impl;

private:
  explicit LayerwiseExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moert
