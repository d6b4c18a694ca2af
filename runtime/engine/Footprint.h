// The memory that an artifact needs, computed from its tables.
#pragma once

#include "runtime/engine/ExpertStore.h"
#include "runtime/memory/MemoryBudget.h"

#include <vector>

namespace moert {

/// For a run that may lower experts (StepShape::mayLose), which needs most, or for one that
/// waits for all of them.
ModelFootprint footprintOf(const Model &model, bool mayLose = true);

/// The same without the tokenizer. Counts plans and measurements that the artifact has.
ModelFootprint footprintOf(const Artifact &artifact, bool mayLose = true);

/// The part of a footprint's metadataBytes that is for plans, measurements and chat templates.
uint64_t describedBytesOf(const Artifact &artifact);

/// The options of the read queue for a run of this artifact: limits for its largest record, and the
/// pool to be registered.
ReadQueueOptions readQueueOptions(const Artifact &artifact, IoBackend backend,
                                  std::span<const MemoryPiece> regions);

CacheShape cacheShapeOf(const Artifact &artifact);

/// What the arena holds for each token: the largest program's buffers and, after those of all
/// tokens, the inputs that are quantized for low copies beside float experts, and the lists of a
/// step. All are multiples of kBufferAlignment, which a file's arenaBytesPerToken need not be.
struct ArenaBytes {
  uint64_t buffers = 0;
  uint64_t lowCopyRows = 0; // 0: no such experts, or a run that waits for all experts.
  uint64_t lists = 0;       // Rotations, rows, pairs of row and rank, chosen experts (Step.h).
  uint64_t topK = 0;        // Experts of a token's rows, at most.
  uint64_t total() const { return buffers + lowCopyRows + lists; }
};

ArenaBytes arenaBytesPerToken(const Artifact &artifact, bool mayLose);

/// Computes the records, slices and views of each expert's matrices, with all of their slices, or
/// with each number of them.
Result<std::vector<MoeLayerTables>> makeLayerTables(const Artifact &artifact,
                                                    bool areReadInPart = false);

/// Experts of the layer that has most.
uint32_t mostExpertsOf(const Artifact &artifact);
/// Experts that a router chooses for a token, at most.
uint64_t largestTopK(const Artifact &artifact);
/// Rows that a token has in any buffer, at most.
uint64_t mostRowsOf(const Artifact &artifact);

/// Whether the tokens of a call depend on later ones of it (attention to an input as a whole, the
/// capacity of experts), so that they are computed in one batch.
bool computesWholeCalls(const Artifact &artifact);

/// Floats of biases of attention scores for each token of context, where a program has some.
uint64_t biasFloatsPerToken(const Artifact &artifact);

/// Floats of attention scratch for one thread (Kernels.h, attend; WindowAttention.h), with those
/// biases at its end.
uint64_t attentionScratchFloatsOf(const Artifact &artifact, uint32_t contextTokens);

/// Floats of rotation tables for one token; sets the offset of each rope's table.
uint32_t ropeFloatsOf(const Artifact &artifact, std::vector<uint32_t> &offsets);

/// Bytes of the keys and values of one token, over all slots.
uint64_t kvBytesPerToken(const Artifact &artifact);

/// Where a session's state slots lie: the offset of each, in bytes, a multiple of
/// kBufferAlignment.
struct StatePlaces {
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0;
};

/// One after the other or, where only one layer is executed at a time, those of each layer from 0.
StatePlaces placeStates(const Artifact &artifact, bool layersShareMemory);

/// Where the KV slots lie if only one layer is executed at a time, in bytes per token: those of
/// each layer from 0.
StatePlaces placeLayerKv(const Artifact &artifact);

/// The largest items of an account: ": KV cache for 4096 tokens 40.0 MiB, ...".
std::string largestItems(const MemoryAccount &account);

/// KV memory of a session of that many tokens.
uint64_t kvBytesOf(const Artifact &artifact, uint32_t contextTokens);

} // namespace moert
