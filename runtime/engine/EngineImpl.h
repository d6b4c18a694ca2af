// The internals of an engine: all state during the execution of a schedule. Engine.cpp fills it in,
// Execute.cpp, ExecuteExperts.cpp and ExecutePredict.cpp use it.
#pragma once

#include "moert/Engine.h"
#include "runtime/base/HostMemory.h"
#include "runtime/base/ThreadPool.h"
#include "runtime/cache/ExpertCache.h"
#include "runtime/engine/Router.h"
#include "runtime/predict/PathTable.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace moert {

/// The keys and values of a sequence, per slot a table of blocks of kKvBlockTokens tokens, and its
/// state slots, all in one region that was allocated at once. A state slot's bytes count as zeros
/// while no token has been computed.
struct Session::Impl {
  /// The engine that lists this session. nullptr after the engine is destroyed, and for the one
  /// session of layerwise execution.
  Engine::Impl *owner = nullptr;
  HostRegion memory;
  uint32_t length = 0;
  uint32_t capacity = 0;   // Tokens that there is memory for.
  uint32_t mostTokens = 0; // At most the capacity; the rotation limits it too.
  struct Slot {
    std::vector<const std::byte *> keyBlocks, valueBlocks;
  };
  std::vector<Slot> slots;
  std::vector<float *> states;
  /// A step failed after it may have updated some of the states, which nothing can undo.
  bool areStatesLost = false;
};

/// One token of the batch that is being computed.
struct BatchRow {
  Session *session;
  uint32_t position;
  int32_t token;
  bool wantsLogits;
};

/// The matrices of experts with the same slices, as views without data: each one's offset in the
/// record, its layout, and the slices that refine it.
struct ExpertTemplate {
  std::vector<ExpertFormat> formats; // All slices of the record.
  size_t slices = 0;                 // So many of them, the first ones, or the separate copy's.
  std::vector<WeightView> matrices;  // bytes.offset: from the record's first byte.
};

struct MoeLayerTables {
  std::vector<std::vector<RecordSlice>> slices; // Per expert.
  std::vector<ExpertRecord> records;
  /// One per distinct list of slices; where experts are read in part, one for each number of them.
  std::vector<ExpertTemplate> templates;
  std::vector<uint32_t> templateOfExpert; // With all of its slices; that of fewer come before it.
  std::vector<uint16_t> planned;          // Per expert: its slices.

  const ExpertTemplate &templateOf(uint32_t expert, uint16_t number) const {
    return templates[templateOfExpert[expert] - (planned[expert] - number)];
  }
};

/// y[rows] = w * x, for `rows` rows from firstRow on of a buffer.
struct Product {
  const WeightView *w;
  float *y;
  uint64_t yStride;
  uint32_t firstRow, rows;
};

/// Multiply-adds that justify waking another thread: some microseconds of work.
constexpr uint64_t kGrainOperations = 64 * 1024;

/// Indices of a parallel run that one thread should have at least.
constexpr uint64_t grainFor(uint64_t operationsPerIndex) {
  return std::max<uint64_t>(1, kGrainOperations / std::max<uint64_t>(1, operationsPerIndex));
}

/// Rows of one buffer of the program being executed.
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
///   wanted       distinct experts, the most used first, ties to the lowest index
///   uses         number of rows that routed to each of them
///   expertBegin  [experts + 1]: the pairs of expert e are expertRows[begin of e, begin of e + 1)
///   expertRows   row * topK + rank, ascending for each expert
///   slices       that each of them needs; empty: all
/// Ranks that a miss rule left out are in no group.
struct Grouping {
  uint32_t topK;
  std::span<const uint32_t> wanted, uses;
  std::span<const uint16_t> slices;

  static Grouping make(Engine::Impl &engine, const MoeLayerTables &layer, int32_t experts);
};

/// Room for the decisions of a miss rule in one layer; sized once, for the widest.
struct MissScratch {
  std::vector<float> likelihoods;     // One row.
  std::vector<uint16_t> resident;     // Per expert: slices that count as in memory.
  std::vector<uint16_t> demanded;     // Per expert: the most slices that any row demands.
  std::vector<uint16_t> wantedSlices; // In the order of the layer pass's demand.
  std::vector<uint32_t> ranksTaken;   // Per row: how many experts the last route gave it.
  std::vector<int32_t> experts;       // For one row: topK.
  std::vector<uint16_t> slices;
  // Only where batches are decoded: [row][topK] slices that each rank is computed with, the demand
  // of one row in the order of experts, and what that row's layer passes counted.
  std::vector<uint16_t> rankSlices, rowSlices;
  std::vector<uint32_t> rowWanted;
  CacheCounts rowCounts;
  // Since the layer's route: ranks of its rows, or experts of a prompt's chunk.
  uint32_t lowered = 0, skipped = 0, substituted = 0;

  void resize(const Artifact &artifact, uint64_t rows, bool decodesBatches);
  /// Bytes of it for so many rows that are decoded as a batch.
  static uint64_t batchBytes(const Artifact &artifact, uint64_t rows);
};

/// Tables of a step, made for so many tokens.
struct StepTables {
  std::vector<BatchRow> batch;
  std::vector<float> ropeTables;    // [row][rope][cosines, sines]
  std::vector<uint32_t> expertRows; // Row and rank of each pair: see Grouping.
  std::vector<float> inputNorms;    // Per row: of the router's input; 1 where it is unknown.
  // The experts that all rows chose in the last MoE layer and in the one before that; used by the
  // activation-path table only.
  std::array<std::vector<int32_t>, 2> chosen;
};

/// The artifact's activation-path tables, and the section that they view.
struct LoadedPaths {
  std::vector<std::byte> section;
  std::optional<PathTable> table; // Set if a rule uses it.
};

struct Engine::Impl : StepTables {
  // Fixed once loaded, except by setBudget().
  EngineOptions options;
  MemoryAccount account;
  const Model *model = nullptr;
  const Artifact *artifact = nullptr;
  const KernelTable *kernels = nullptr;
  uint32_t contextTokens = 0;
  uint32_t sequenceTokens = 0; // As requested: decides the rotation. contextTokens is rounded up.
  uint32_t mostSessions = 0;
  uint64_t mostSessionTokens = 0; // The sum of the sessions' capacities.
  uint32_t chunk = 0;
  uint32_t logitsRows = 0;
  uint64_t logitsStride = 0; // Floats from one row to the next.
  HostRegion residentMemory, arena, scratch, logits, poolMemory;
  std::vector<const std::byte *> residentPages; // One page per resident weight.
  std::vector<WeightView> residents;
  std::vector<MoeLayerTables> moeLayers;
  std::vector<CacheLayer> cacheLayers; // Borrowed by the cache, like moeLayers.
  uint32_t firstCachedLayer = 0;       // The cache's layer 0 is this MoE layer.
  const Program *decode = nullptr, *prefill = nullptr;
  std::span<const PrefetchRule> prefetchRules; // Per MoE layer; empty: no prefetching.
  bool mayLose = false;                        // Not in exact mode, and some plan has a miss rule.
  MissRule missRule;                           // The plan's in use; to wait in exact mode.
  bool mayWeigh = false;                       // Some plan's eviction is by importance.
  bool weighsExperts = false;                  // That of the plan in use is.
  std::span<const std::vector<uint32_t>> expertNorms; // The plan's, per MoE layer.
  LoadedPaths paths;

  // Destroyed in reverse: the cache before the queue that it reads with and the threads that verify
  // checksums.
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<ReadQueue> queue;
  std::unique_ptr<ExpertCache> cache;

  std::vector<Session *> sessions; // All existing sessions; capacity mostSessions.

  // State of the current step, beside StepTables; sized once, for `chunk` tokens.
  bool isStepping = false;
  bool isLossy = false;      // The miss rule applies to the tokens of this step.
  bool lowersPrompt = false; // It applies to the experts of this chunk of a prompt.
  const Program *program = nullptr;
  StepObserver *observer = nullptr;
  std::vector<uint32_t> ropeOffsets;
  uint32_t ropeFloatsPerRow = 0;
  uint64_t attentionScratchFloats = 0; // Per thread, in `scratch`.
  std::vector<float> probabilities;    // One row of the layer with the most experts.
  std::vector<uint32_t> expertBegin, wanted, wantedUses; // See ExecuteExperts.cpp.
  Rows lowCopyRows = {}; // In the arena, after the buffers (Footprint.h, ArenaBytes).
  MissScratch misses;    // Sized where the plan has a miss rule.
  /// Where batches are decoded: the plan's cache as it would be after each token, without bytes.
  /// The cache itself then only reads what the rows of a batch demand together.
  std::unique_ptr<CacheMachine> decodedCache;
  std::vector<uint32_t> prefetchProbabilities;       // Per expert of a layer, over all rows.
  std::vector<PrefetchCandidate> prefetchCandidates; // The same, most probable first.
  std::vector<uint16_t> prefetchSlices;              // With which each is read.
  std::vector<const RouteInstruction *> routes;      // Of `decode`, by MoE layer.
  std::vector<const RouteInstruction *> prefillRoutes;
  const RouteInstruction *routed = nullptr; // The last route that was executed.
  // Sized where a plan's eviction is by importance (ExecuteImportance.cpp).
  std::vector<uint64_t> importances;   // Per expert: what the last route adds.
  std::optional<Grouping> openExperts; // Set while a layer's experts are being read.
  std::vector<LayerProfile> profile;
  PartNumbers partNs{};
  StepReads stepReads;

  uint32_t rows() const { return static_cast<uint32_t>(batch.size()); }
  /// How many of a row's topK experts, the first ones, take part.
  uint32_t ranksOf(uint32_t row, uint32_t topK) const {
    return isLossy ? misses.ranksTaken[row] : topK;
  }
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
  Router routerOf(const RouteInstruction &route) const {
    const MoeLayer &layer = artifact->moeLayers[route.moeLayer];
    return {route,
            layer.topK,
            {vector(route.choiceBias), vector(route.weightFactors)},
            static_cast<uint32_t>(layer.experts.size()),
            *kernels};
  }
  QuantizedRows quantized(int32_t bufferIndex, uint64_t firstRow = 0) const;
  static QuantizedRows quantizedRows(const Rows &rows, uint32_t width, uint32_t group,
                                     uint64_t firstRow);

  /// Allocates everything that a step of `chunk` tokens of any program needs.
  Status makeStepMemory(bool usesPathTable = false);
  /// The tables for steps of so many tokens.
  StepTables makeStepTables(uint32_t tokens, bool usesPathTable) const;
  /// The arena has moved, or is used for another chunk.
  void useArena(uint32_t tokens);
  uint64_t arenaBytesFor(uint32_t tokens) const;
  /// Reads and checks the activation-path tables.
  Result<LoadedPaths> loadPaths() const;
  /// The configuration of the cache for a plan with so many pages, in all of `memory`; borrows
  /// `layers`, which it fills in.
  CacheConfig cacheConfigOf(const Plan &plan, uint64_t poolPages, std::span<std::byte> memory,
                            std::vector<CacheLayer> &layers) const;
  /// Makes the cache of the account's plan anew, with its pins and the experts that it starts with;
  /// passes on the bytes read so far.
  Status startCache(const std::function<void(uint64_t done)> &progress);
  /// Reads go on without registration where the system has no memory for it.
  void registerPool(uint64_t bytes) noexcept;
  /// Changes to another account of the same options (Engine::setBudget). After an error all is as
  /// before, apart from experts in memory and from activation paths (BudgetChange).
  Status takeAccount(const MemoryAccount &next);
  Status changeBudget(const BudgetSize &budget);
  /// A session whose slots follow each other in `memory`, or all use the same bytes where only one
  /// is in use at a time.
  static std::unique_ptr<Session> makeSession(const Artifact &artifact, HostRegion memory,
                                              uint32_t contextTokens, bool slotsShareMemory);

  Result<std::unique_ptr<Session>> createSession(uint32_t capacity, Populate populate);

  /// The checks of step() on one session, in a batch of any size.
  Status checkTokens(const SessionTokens &tokens) const;
  Status checkBatch(std::span<const SessionTokens> parts) const;
  Status executeBatch(std::span<const SessionTokens> parts);

  Status executeProgram();
  /// Executes an instruction, or several that are joined, in one parallel run.
  Status executeTogether(std::span<const Instruction> joined, LayerProfile &layerProfile);
  void executeLinears(std::span<const LinearInstruction> linears);
  void executeLinearHeads(const LinearHeadsInstruction &linear);
  /// Counts the time of joined instructions; of products in proportion to their weight bytes.
  void countTime(std::span<const Instruction> joined, uint64_t computeNs);
  /// Starts reading the routed experts, so that reads overlap the instructions between this one and
  /// the experts. `experts` is the buffer of their numbers.
  Status beginExperts(uint32_t moeLayer, int32_t experts);
  /// Times that the cache has spent in total; valid between instructions.
  struct CacheTime {
    uint64_t waitNs, verifyNs, submitNs;
  };
  CacheTime cacheTime() const {
    CacheTimes total = cache->totalTimes();
    total += openExperts ? cache->passTimes() : CacheTimes();
    return {total.waitNs, total.verifyNs, cache->submitNs()};
  }
  Status executeExperts(const ExpertsInstruction &instruction, LayerProfile &layerProfile);
  /// Before the rows of a route: which experts count as resident, and that none is demanded.
  void beginMisses(uint32_t moeLayer);
  /// Replaces the router's choice for a row by the experts that take part, with their weights.
  void applyMissRule(const RouteInstruction &route, const Router &router, uint32_t row);
  void countResident(uint32_t moeLayer, const CacheMachine &machine);
  /// Executes the layer pass that the row would have by itself.
  void decodeRow(uint32_t moeLayer, uint32_t row, uint32_t topK, const TakenExperts &taken);
  /// Follows a plan's eviction; nothing is measured where it is not by importance.
  void weighAsPlanned(const Plan &plan);
  /// Measures the input of a product if it computes the scores of the next route.
  void measureRouterInput(const LinearInstruction &linear);
  void beginImportances();
  /// Adds the importance that a row gives to the experts that its router chose.
  void addImportances(const RouteInstruction &route, uint32_t row);
  Status executeHead(const HeadInstruction &head);
  void executeAttend(const AttendInstruction &attend);
  void executeRoute(const RouteInstruction &route);
  /// Executes predictions whose gates are stacked into one product.
  void executePredicts(std::span<const Instruction> predicts);
  void namePrefetch(const PredictInstruction &predict);
  void rememberChosen(const RouteInstruction &route);
  void executeStoreKv(const StoreKvInstruction &store);
  void executeRope(const RopeInstruction &rope);
  void executeGate(const GateInstruction &gate);
  void executeUnitNorm(const UnitNormInstruction &norm);
  void executeDecay(const DecayInstruction &decay);
  void executeConvolve(const ConvolveInstruction &convolve);
  void executeDeltaRule(const DeltaRuleInstruction &rule);
  void fillRopeTables();

  /// y = w * x for `count` rows of the buffer `source`, from firstRow on; x is float, or quantized
  /// if w is.
  void multiply(const WeightView &w, int32_t source, uint32_t firstRow, uint32_t count, float *y,
                uint64_t yStride) const {
    Product product = {&w, y, yStride, firstRow, count};
    multiply({&product, 1}, source);
  }
  /// Several products of one buffer in one parallel run.
  void multiply(std::span<const Product> products, int32_t source) const;
  /// The same for rows of other memory; a group of 0: floats.
  void multiply(std::span<const Product> products, const Rows &rows, uint32_t width,
                uint32_t group) const;
};

} // namespace moert
