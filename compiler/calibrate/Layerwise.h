// Plays a model's schedule layer by layer instead of token by token: one layer for all windows of a
// text before the next layer. Each layer's weights are read once, where memory allows, and only one
// layer's are in memory at a time, so that a model of any size can be looked into on a small
// machine. What is computed is what Engine::step() computes, bit for bit.
//
// A model's program falls into segments: what comes before the layers (the embedding), each layer,
// what comes behind (the head). Between two segments a token's state (normally its residual row)
// belongs to the caller, who keeps it wherever there is room:
//
//   for each segment s:  begin(s);  for each batch of windows:  play(tokens, states in, states out)
#pragma once

#include "moert/Engine.h"
#include "runtime/memory/MemoryBudget.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace moert {

struct LayerwiseOptions {
  uint32_t windowTokens = 0; // Tokens of a sequence; each window is one by itself.
  uint64_t windows = 0;      // In all.
  bool wantsLogits = false;  // Of every token; without, the head's weights are not read.
  uint32_t laterRouters = 0; // Routers of so many later MoE layers see each router's input too.
  /// Absent: all that the container's limit and the free memory allow.
  std::optional<BudgetSize> memory;
  uint32_t threads = 1;
  IoBackend io = IoBackend::kAuto;
  std::optional<Isa> isa;
  uint64_t extraBytes = 0;         // What the caller itself holds.
  uint64_t extraBytesPerToken = 0; // And for each token of a batch, beside the states.
};

/// The account of a layerwise run, before anything is loaded.
struct LayerwiseAccount {
  MemoryAccount memory;      // prefillChunk: tokens of a batch.
  uint32_t batchWindows = 0; // Windows that are played at a time.
  bool holdsLayer = false;   // The pool has room for all experts of any layer.
};

/// Refuses a budget that cannot work with the smallest that would, windows longer than the model's
/// positions with both numbers, and programs whose layers need more of each other than states.
Result<LayerwiseAccount> accountLayerwise(const Model &model, const LayerwiseOptions &options);

/// A row [width] for each token of the batch. Borrowed for the time of a call.
template <typename T> struct LayerRows {
  const T *data = nullptr;
  uint64_t stride = 0; // Elements.
  uint32_t width = 0;

  std::span<const T> row(uint64_t index) const { return {data + index * stride, width}; }
};

/// Sees what a batch computes. Called from the thread that called play(), for all tokens of the
/// batch at once.
class LayerObserver {
public:
  struct Routed {
    uint32_t moeLayer = 0;
    LayerRows<float> input;  // Of router and experts, before experts quantize it.
    LayerRows<float> scores; // Of the router.
    LayerRows<int32_t> experts;
    LayerRows<float> weights;
  };

  virtual ~LayerObserver() = default;
  virtual Status onRouted(const Routed &) { return {}; }
  /// After onRouted: what the router of a MoE layer `ahead` (1...) further on says of the input.
  virtual Status onLaterRouter(const Routed &, uint32_t /*ahead*/, LayerRows<float> /*scores*/) {
    return {};
  }
  /// Logits [vocabulary] of the token with this index in the batch.
  virtual Status onLogits(uint64_t /*token*/, std::span<const float>) { return {}; }
};

/// One thread uses it; the model outlives it.
class LayerwisePlayer {
public:
  /// Reads and checks the resident weights once; keeps none.
  static Result<std::unique_ptr<LayerwisePlayer>>
  create(const Model &model, const LayerwiseOptions &options, const LayerwiseAccount &account);
  ~LayerwisePlayer();

  uint32_t segments() const;
  /// The model's layer that a segment is; nothing for the embedding and the head.
  std::optional<uint32_t> layerOf(uint32_t segment) const;
  /// Bytes of a token's state before a segment; 0 before the first and behind the last.
  uint64_t stateBytes(uint32_t boundary) const;

  /// Reads the segment's resident weights; its experts are read as they are needed.
  Status begin(uint32_t segment);
  /// Plays the segment that was begun for whole windows, at most the account's batchWindows. The
  /// states of token i are at i * stateBytes; `in` and `out` may be the same memory.
  Status play(std::span<const int32_t> tokens, std::span<const std::byte> in,
              std::span<std::byte> out, LayerObserver &observer);

  const KernelTable &kernels() const;
  const std::string &ioDescription() const;
  uint64_t bytesRead() const; // Weights and experts, since create() began.

  struct Impl;

private:
  explicit LayerwisePlayer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moert
