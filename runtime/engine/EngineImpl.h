// The inside of an engine: where everything lies while a schedule is played. Engine.cpp fills it
// in, Play.cpp and PlayExperts.cpp work with it.
#pragma once

#include "moert/Engine.h"
#include "runtime/base/HostMemory.h"
#include "runtime/base/ThreadPool.h"
#include "runtime/cache/ExpertCache.h"
#include "runtime/engine/ProductLimits.h"
#include "runtime/format/BufferWalk.h"
#include "runtime/predict/PathTable.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace moert {

/// The keys and values of a sequence: per slot a table of blocks of kKvBlockTokens tokens, all in
/// one region that was taken from the system at once.
struct Session::Impl {
  /// Lists the session among its own. nullptr once the engine has ended, and of the one session of
  /// layerwise execution.
  Engine::Impl *owner = nullptr;
  HostRegion memory;
  uint32_t length = 0;
  uint32_t capacity = 0;
  struct Slot {
    std::vector<const float *> keyBlocks, valueBlocks;
  };
  std::vector<Slot> slots;
};

/// One token of the batch that is being computed.
struct BatchRow {
  Session *session;
  uint32_t position;
  int32_t token;
  bool wantsLogits;
};

/// The matrices of experts with the same slices, as views without bytes: where each begins in the
/// record, its layout, and the planes that refine it.
struct ExpertTemplate {
  std::vector<WeightFormat> formats; // Of the slices that are read.
  std::vector<WeightView> matrices;  // bytes.offset: from the record's first byte.
};

struct MoeLayerTables {
  std::vector<std::vector<RecordSlice>> slices; // Per expert.
  std::vector<ExpertRecord> records;
  std::vector<ExpertTemplate> templates; // One per distinct list of slices.
  std::vector<uint32_t> templateOfExpert;
};

/// Instructions of one kind whose products can be shared out together.
template <typename T> struct TogetherInstructions {
  std::array<const T *, kMostTogether> all;
  size_t count = 0;
  std::span<const T *const> span() const { return {all.data(), count}; }
};

/// y[rows] = w * x.
struct Product {
  const WeightView *w;
  float *y;
  uint64_t yStride;
};

/// Rows of one buffer of the program being played.
struct Rows {
  std::byte *data;
  uint64_t bytesPerRow;

  float *floats(uint64_t row = 0) const {
    return reinterpret_cast<float *>(data + row * bytesPerRow);
  }
  int32_t *integers(uint64_t row = 0) const {
    return reinterpret_cast<int32_t *>(data + row * bytesPerRow);
  }
  uint64_t stride() const { return bytesPerRow / 4; }
};

/// The (row, rank) pairs of the batch, grouped by expert. Borrowed from the engine's tables:
///   wanted       distinct experts, the most popular first, ties to the lowest index
///   uses         how many rows want each of them
///   expertBegin  [experts + 1]: the pairs of expert e are expertRows[begin of e, begin of e + 1)
///   expertRows   row * topK + rank, ascending for each expert
struct Grouping {
  uint32_t topK;
  std::span<const uint32_t> wanted, uses;

  static Grouping make(Engine::Impl &engine, const ExpertsInstruction &instruction,
                       uint32_t expertCount);
};

struct Engine::Impl {
  // Fixed once loaded.
  const Model *model = nullptr;
  const Artifact *artifact = nullptr;
  const KernelTable *kernels = nullptr;
  uint32_t contextTokens = 0;
  uint32_t mostSessions = 0;
  uint32_t chunk = 0;
  uint32_t logitsRows = 0;
  uint64_t logitsStride = 0; // Floats from one row to the next.
  HostRegion residentMemory, arena, scratch, logits, poolMemory;
  std::vector<const std::byte *> residentPages; // One "page" per resident weight.
  std::vector<WeightView> residents;
  std::vector<MoeLayerTables> moeLayers;
  std::vector<CacheLayer> cacheLayers; // Borrowed by the cache, as moeLayers are.
  uint32_t firstCachedLayer = 0;       // The MoE layer that is the cache's first.
  const Program *decode = nullptr, *prefill = nullptr;
  std::vector<StepPart> decodeParts, prefillParts; // Of their instructions.
  std::span<const GuessRule> guessRules;           // Per MoE layer; empty: nothing is guessed.
  std::vector<std::byte> pathsSection;
  std::optional<PathTable> paths; // Of the section, if a rule asks for it.

  // Destroyed in reverse: the cache before the queue that it reads with and the threads that check
  // what was read.
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<ReadQueue> queue;
  std::unique_ptr<ExpertCache> cache;

  std::vector<Session *> sessions; // That exist; room for mostSessions.

  // Of the step being played; sized once, for `chunk` tokens.
  bool isStepping = false;
  const Program *program = nullptr;
  StepObserver *observer = nullptr;
  std::vector<BatchRow> batch;
  std::vector<float> ropeTables; // [row][rope][cosines, sines]
  std::vector<uint32_t> ropeOffsets;
  uint32_t ropeFloatsPerRow = 0;
  uint64_t attentionScratchFloats = 0; // Per thread, in `scratch`.
  std::vector<float> probabilities;    // Of one row, experts of the widest layer.
  std::vector<uint32_t> expertRows, expertBegin, wanted, wantedUses; // See PlayExperts.cpp.
  std::vector<uint32_t> guessShares;           // Of a layer's experts, over all rows.
  std::vector<GuessCandidate> guessCandidates; // The same, likeliest first.
  // What all rows chose in the last MoE layer and in the one before that; kept with paths alone.
  std::array<std::vector<int32_t>, 2> chosen;
  std::optional<Grouping> openExperts; // Of a layer whose experts are on their way.
  std::vector<LayerProfile> profile;
  PartNumbers partNs{};

  uint32_t rows() const { return static_cast<uint32_t>(batch.size()); }
  Rows buffer(int32_t index) const {
    const Buffer &buffer = program->buffers[static_cast<size_t>(index)];
    return {arena.data() + buffer.offset * chunk, buffer.bytesPerToken};
  }
  const Buffer &bufferInfo(int32_t index) const {
    return program->buffers[static_cast<size_t>(index)];
  }
  const WeightView &weight(int32_t index) const { return residents[static_cast<size_t>(index)]; }
  /// A resident vector: biases, norms. nullptr for kNone.
  const float *vector(int32_t index) const {
    return index == kNone ? nullptr : reinterpret_cast<const float *>(weight(index).bytes.at(0));
  }
  QuantizedRows quantized(int32_t bufferIndex, uint64_t firstRow = 0) const;

  /// Everything that a step of `chunk` tokens of any program needs, sized once.
  Status makeStepMemory();
  /// Reads and checks the activation paths.
  Status loadPaths(const ArtifactFile &file);
  /// A session whose slots lie behind each other in `memory`, or all on the same bytes where only
  /// one is in use at a time.
  static std::unique_ptr<Session> makeSession(const Artifact &artifact, HostRegion memory,
                                              uint32_t contextTokens, bool slotsShareMemory);

  /// What step() refuses of one session: in a batch of any size.
  Status checkTokens(const SessionTokens &tokens) const;
  Status checkBatch(std::span<const SessionTokens> parts) const;
  Status playBatch(std::span<const SessionTokens> parts);

  Status playProgram();
  /// Those of one kind that follow each other from `first` on, of one layer and one source, and
  /// whose results lie apart.
  template <typename T>
  TogetherInstructions<T> togetherFrom(size_t first, int32_t T::*result) const;
  /// Products of one buffer that follow each other, such as query, key and value: shared out
  /// together. From instruction `first` on; how many were played.
  size_t playLinearsFrom(size_t first);
  void playLinears(std::span<const LinearInstruction *const> linears);
  /// Shares the time of such products out by their weights.
  void countLinears(std::span<const StepPart> parts, size_t first, uint64_t computeNs);
  Status playInstruction(const Instruction &instruction, LayerProfile &layerProfile);
  /// Has the experts that the routers chose read, from when that is known on: whatever is played
  /// between then and their turn, the disk is at work.
  Status beginExperts(const ExpertsInstruction &instruction);
  Status beginNextExperts(size_t routed);
  /// What the cache has spent since it is there; between instructions.
  struct CacheTime {
    uint64_t waitNs, verifyNs, submitNs;
  };
  CacheTime cacheTime() const {
    const CacheStats &total = cache->totalStats();
    const CacheStats open = openExperts ? cache->layerStats() : CacheStats();
    return {total.waitNs + open.waitNs, total.verifyNs + open.verifyNs, cache->submitNs()};
  }
  Status playExperts(const ExpertsInstruction &instruction, LayerProfile &layerProfile);
  Status playHead(const HeadInstruction &head);
  void playAttend(const AttendInstruction &attend);
  void playRoute(const RouteInstruction &route);
  /// Guesses of later layers that follow each other, whose gates are stacked into one product.
  /// From instruction `first` on; how many were played.
  size_t playPredictsFrom(size_t first);
  void nameGuess(const PredictInstruction &predict);
  void rememberChosen(const RouteInstruction &route);
  void playStoreKv(const StoreKvInstruction &store);
  void playRope(const RopeInstruction &rope);
  void fillRopeTables();

  /// y = w * x for `count` rows of the buffer `source`, from firstRow on; x is float, or quantized
  /// where w is.
  void multiply(const WeightView &w, int32_t source, uint32_t firstRow, uint32_t count, float *y,
                uint64_t yStride) const {
    Product product = {&w, y, yStride};
    multiply({&product, 1}, source, firstRow, count);
  }
  /// Several products of the same rows, shared out together.
  void multiply(std::span<const Product> products, int32_t source, uint32_t firstRow,
                uint32_t count) const;
};

// By the format's rules no result lies where the common source does; but it may lie where an
// earlier one does, which then has to be there first.
template <typename T>
TogetherInstructions<T> Engine::Impl::togetherFrom(size_t first, int32_t T::*result) const {
  TogetherInstructions<T> together;
  for (size_t i = first; i < program->instructions.size() && together.count < kMostTogether; ++i) {
    const T *next = std::get_if<T>(&program->instructions[i]);
    auto isApart = [&](const T *earlier) {
      return earlier->src == next->src &&
             !sharesBytes(bufferInfo(earlier->*result), bufferInfo(next->*result));
    };
    if (!next || program->layers[i] != program->layers[first] ||
        !std::ranges::all_of(together.span(), isApart))
      break;
    together.all[together.count++] = next;
  }
  return together;
}

} // namespace moert
