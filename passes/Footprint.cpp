#include "passes/Footprint.h"

#include "compiler/emit/BuildEmitPlan.h"
#include "compiler/emit/BuildProgram.h"
#include "passes/ExpandProgram.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/Writer.h"
#include "runtime/kernels/Kernels.h"
#include "runtime/predict/PathTable.h"

namespace mlir::moe {

using moert::roundUp;

// Estimates of sizes that the runtime counts exactly. They err on the large side: the runtime must
// accept a plan that the compiler accepted.
// A tokenizer of 50,000 to 250,000 words with merges takes 60 to 110 bytes a word in memory.
static constexpr uint64_t kTokenizerBytesPerWord = 128;
static constexpr uint64_t kBatchRowBytes = 64;

/// The instructions that a function will become, with its buffers in the arena.
static FailureOr<moert::Program> programOf(func::FuncOp function) {
  FailureOr<OwningOpRef<ProgramOp>> program = expandProgram(function);
  if (failed(program))
    return failure();
  placeProgram(program->get());
  // Symbols are looked up in the module.
  ProgramOp inserted = program->release();
  OpBuilder(function).insert(inserted);
  FailureOr<moert::Program> built = moec::buildProgram(inserted);
  inserted.erase();
  return built;
}

FailureOr<moert::Artifact> describe(ModuleOp module) {
  moec::EmitPlan described;
  if (mlir::failed(moec::describeWeights(module, described)))
    return failure();
  moert::Artifact &artifact = described.artifact;
  if (moert::Status status = moert::layOutArtifact(artifact, {}); !status.isOk())
    return emitStatus(module, status);
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    FailureOr<moert::Program> program = programOf(function);
    if (mlir::failed(program))
      return failure();
    artifact.programs.push_back(std::move(*program));
  }
  return std::move(artifact);
}

/// The layers and records that the cache holds, with errors at the layer.
static FailureOr<moert::CacheShape> cacheShapeOf(ModuleOp module, const moert::Artifact &artifact) {
  moert::CacheShape shape = moert::cacheShapeOf(artifact);
  for (auto [layer, pages] : llvm::zip_equal(module.getOps<MoeLayerOp>(), shape.layers))
    if (pages.allPages > UINT32_MAX)
      return layer.emitOpError() << "has " << layer.getExperts() << " experts in " << pages.allPages
                                 << " pages of " << artifact.pageBytes
                                 << " bytes, expected at most 2^32 pages in a layer";
  return shape;
}

/// Rotation tables and routing lists, which are not part of the arena.
static uint64_t tableBytesPerToken(const moert::Artifact &artifact, uint32_t topK) {
  uint64_t bytes = kBatchRowBytes + topK * sizeof(uint32_t);
  for (const moert::Rope &rope : artifact.ropes)
    bytes += 2 * roundUp(rope.inverseFrequencies.size(), 16) * sizeof(float);
  return roundUp(bytes, moert::kBufferAlignment);
}

static moert::TableEntries tableEntriesOf(const moert::Artifact &artifact,
                                          const moert::CacheShape &cache) {
  moert::TableEntries entries;
  entries.moeLayers = artifact.moeLayers.size();
  for (const moert::MoeLayer &layer : artifact.moeLayers) {
    for (const moert::Expert &expert : layer.experts)
      entries.furtherSlices += expert.slices.size() - 1;
    entries.experts += layer.experts.size();
    entries.widestLayer = std::max<uint64_t>(entries.widestLayer, layer.experts.size());
  }
  for (const moert::Program &program : artifact.programs)
    entries.instructions += program.instructions.size() + program.buffers.size();
  entries.residents = artifact.residents.size();
  entries.poolPages = moert::largestPoolPages(cache);
  return entries;
}

FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, const moert::Artifact &artifact) {
  auto model = module->getAttrOfType<ModelAttr>(kModelAttr);
  if (!model)
    return emitError(module.getLoc(), "the module has no 'moe.model'");
  FailureOr<moert::CacheShape> shape = cacheShapeOf(module, artifact);
  if (mlir::failed(shape))
    return failure();
  moert::ModelFootprint footprint;
  footprint.cache = std::move(*shape);
  footprint.pageBytes = artifact.pageBytes;
  footprint.residentBytes = roundUp(artifact.residentBytes, moert::kResidentAlignment);
  footprint.expertPayloadBytes = moert::expertPayloadBytes(artifact);
  footprint.tokenizerBytes = model.getVocabulary() * kTokenizerBytesPerWord;
  footprint.logitsBytes = roundUp(model.getVocabulary() * sizeof(float), moert::kBufferAlignment);
  footprint.attentionScratchBytesPerContextToken = moert::kAttendHeads * sizeof(float);
  footprint.attentionScratchBytes = moert::attentionScratchFloatsOf(artifact, 0) * sizeof(float);
  footprint.kvBytesPerToken = moert::kvBytesPerToken(artifact) + artifact.kvSlots.size();
  uint32_t largestTopK = 1;
  SmallVector<uint32_t> experts;
  for (const moert::CacheShape::Layer &layer : footprint.cache.layers) {
    largestTopK = std::max(largestTopK, layer.topK);
    experts.push_back(layer.experts);
  }
  for (const moert::Program &program : artifact.programs)
    footprint.arenaBytesPerToken =
        std::max(footprint.arenaBytesPerToken, program.arenaBytesPerToken);
  footprint.arenaBytesPerToken += tableBytesPerToken(artifact, largestTopK);
  footprint.metadataBytes = moert::tableBytes(tableEntriesOf(artifact, footprint.cache));
  footprint.pathsBytes = moert::pathTableBytes(experts);
  return footprint;
}

} // namespace mlir::moe
