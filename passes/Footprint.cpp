#include "passes/Footprint.h"

#include "compiler/emit/ArtifactFacts.h"
#include "compiler/emit/BuildEmitPlan.h"
#include "compiler/emit/BuildProgram.h"
#include "passes/ExpandProgram.h"

#include "runtime/base/CheckedMath.h"
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

FailureOr<SmallVector<uint64_t>> recordBytesOf(MoeLayerOp op) {
  if (!op.getSlices())
    return op.emitError("the experts have no slices: run moe-assign-bits first");
  moert::MoeLayer layer = matricesOf(op);
  SmallVector<uint64_t> records;
  for (auto list : op.getSlices()->getAsRange<ArrayAttr>()) {
    uint64_t bytes = 0;
    for (FormatAttr format : list.getAsRange<FormatAttr>()) {
      auto layout = moert::sliceLayoutOf(layer, toWeightFormat(format));
      if (!layout.isOk())
        return emitStatus(op, layout.status());
      bytes += roundUp(layout->payloadBytes, moert::kSliceAlignment);
    }
    records.push_back(bytes);
  }
  return records;
}

FailureOr<SmallVector<SmallVector<uint64_t>>> recordBytesOf(ModuleOp module) {
  SmallVector<SmallVector<uint64_t>> layers;
  for (MoeLayerOp op : module.getOps<MoeLayerOp>()) {
    FailureOr<SmallVector<uint64_t>> records = recordBytesOf(op);
    if (failed(records))
      return failure();
    layers.push_back(*records);
  }
  return layers;
}

static uint64_t payloadBytesOf(MoeLayerOp op) {
  moert::MoeLayer layer = matricesOf(op);
  uint64_t bytes = 0;
  for (auto list : op.getSlices()->getAsRange<ArrayAttr>())
    for (FormatAttr format : list.getAsRange<FormatAttr>())
      bytes += moert::sliceLayoutOf(layer, toWeightFormat(format))->payloadBytes;
  return bytes;
}

static uint64_t furtherSlicesOf(MoeLayerOp op) {
  uint64_t slices = 0;
  for (auto list : op.getSlices()->getAsRange<ArrayAttr>())
    slices += list.size() - 1;
  return slices;
}

/// The largest number of experts per token that routes to the layer use.
static uint32_t topKOf(ModuleOp module, MoeLayerOp layer) {
  int64_t topK = 1;
  module.walk([&](RouteOp route) {
    if (route.getMoeLayer() == layer.getSymName())
      topK = std::max(topK, cast<RankedTensorType>(route.getExperts().getType()).getDimSize(1));
  });
  return static_cast<uint32_t>(topK);
}

FailureOr<moert::CacheShape> cacheShapeOf(ModuleOp module, uint32_t pageBytes) {
  moert::CacheShape shape;
  for (MoeLayerOp layer : module.getOps<MoeLayerOp>()) {
    FailureOr<SmallVector<uint64_t>> records = recordBytesOf(layer);
    if (failed(records))
      return failure();
    moert::CacheShape::Layer pages =
        moert::cacheLayerOf(*records, pageBytes, topKOf(module, layer));
    if (pages.allPages > UINT32_MAX)
      return layer.emitOpError() << "has " << layer.getExperts() << " experts in " << pages.allPages
                                 << " pages of " << pageBytes
                                 << " bytes, expected at most 2^32 pages in a layer";
    shape.layers.push_back(pages);
  }
  return shape;
}

static FailureOr<uint64_t> residentBytesOf(ModuleOp module) {
  uint64_t bytes = 0;
  for (WeightOp weight : module.getOps<WeightOp>()) {
    if (!weight.getFormat())
      return weight.emitError("the weight has no format: run moe-assign-bits first");
    auto layout = moert::layoutOf(shapeOf(weight.getSource()), toWeightFormat(*weight.getFormat()));
    if (!layout.isOk())
      return emitStatus(weight, layout.status());
    bytes += roundUp(layout->bytes, moert::kResidentAlignment);
  }
  return bytes;
}

namespace {

/// The part of the footprint that follows from the instructions.
struct ProgramFootprint {
  uint64_t arenaBytesPerToken = 0; // Maximum over the programs.
  uint64_t tableEntries = 0;       // Instructions and buffers of all programs.
};

} // namespace

static FailureOr<ProgramFootprint> programFootprintOf(ModuleOp module) {
  ProgramFootprint footprint;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    FailureOr<OwningOpRef<ProgramOp>> program = expandProgram(function);
    if (failed(program))
      return failure();
    footprint.arenaBytesPerToken =
        std::max(footprint.arenaBytesPerToken, placeProgram(program->get()));
    footprint.tableEntries += (*program)->getBody().front().getOperations().size();
  }
  return footprint;
}

/// Rotation tables and routing lists, which are not part of the arena.
static uint64_t tableBytesPerToken(ModuleOp module, uint32_t topK) {
  uint64_t bytes = kBatchRowBytes + topK * sizeof(uint32_t);
  for (RopeOp rope : module.getOps<RopeOp>())
    bytes += 2 * roundUp(rope.getInverseFrequencies().size(), 16) * sizeof(float);
  return roundUp(bytes, moert::kBufferAlignment);
}

FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, uint32_t pageBytes) {
  auto model = module->getAttrOfType<ModelAttr>(kModelAttr);
  if (!model)
    return emitError(module.getLoc(), "the module has no 'moe.model'");
  FailureOr<moert::CacheShape> shape = cacheShapeOf(module, pageBytes);
  FailureOr<uint64_t> residents = residentBytesOf(module);
  if (mlir::failed(shape) || failed(residents))
    return failure();
  FailureOr<ProgramFootprint> programs = programFootprintOf(module);
  if (failed(programs))
    return failure();

  moert::ModelFootprint footprint;
  footprint.pageBytes = pageBytes;
  footprint.residentBytes = *residents;
  footprint.tokenizerBytes = model.getVocabulary() * kTokenizerBytesPerWord;
  footprint.logitsBytes = roundUp(model.getVocabulary() * sizeof(float), moert::kBufferAlignment);
  footprint.attentionScratchBytesPerContextToken = moert::kAttendHeads * sizeof(float);
  uint32_t widestValue = 0;
  for (KvSlotOp slot : module.getOps<KvSlotOp>()) {
    footprint.kvBytesPerToken +=
        uint64_t(slot.getKvHeads()) * (slot.getKeyDim() + slot.getValueDim()) * sizeof(float) + 1;
    widestValue = std::max(widestValue, slot.getValueDim());
  }
  footprint.attentionScratchBytes = moert::attentionScratchFloats(0, widestValue) * sizeof(float);

  moert::TableEntries entries;
  uint32_t largestTopK = 1;
  footprint.cache = *shape;
  for (auto [layer, pages] : llvm::zip_equal(module.getOps<MoeLayerOp>(), shape->layers)) {
    footprint.expertPayloadBytes += payloadBytesOf(layer);
    ++entries.moeLayers;
    entries.furtherSlices += furtherSlicesOf(layer);
    entries.experts += layer.getExperts();
    entries.widestLayer = std::max<uint64_t>(entries.widestLayer, layer.getExperts());
    largestTopK = std::max(largestTopK, pages.topK);
  }
  footprint.arenaBytesPerToken =
      programs->arenaBytesPerToken + tableBytesPerToken(module, largestTopK);
  entries.instructions = programs->tableEntries;
  entries.residents = llvm::range_size(module.getOps<WeightOp>());
  entries.poolPages = moert::largestPoolPages(footprint.cache);
  footprint.metadataBytes = moert::tableBytes(entries);
  SmallVector<uint32_t> experts;
  for (const moert::CacheShape::Layer &layer : shape->layers)
    experts.push_back(layer.experts);
  footprint.pathsBytes = moert::pathTableBytes(experts);
  return footprint;
}

/// The decode function as the instructions that it will become.
static FailureOr<moert::Program> decodeProgramOf(func::FuncOp function) {
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

FailureOr<moec::ModelFacts> factsOf(ModuleOp module, uint32_t pageBytes) {
  FailureOr<moert::ModelFootprint> footprint = footprintOf(module, pageBytes);
  moec::EmitPlan described;
  if (mlir::failed(footprint) || mlir::failed(moec::describeWeights(module, described)))
    return failure();
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (function.getSymName() != "decode" || function.isDeclaration())
      continue;
    FailureOr<moert::Program> program = decodeProgramOf(function);
    if (mlir::failed(program))
      return failure();
    described.artifact.programs.push_back(std::move(*program));
  }
  if (moert::Status status = moert::layOutArtifact(described.artifact, {}); !status.isOk())
    return emitStatus(module, status);
  return moec::factsOf(described.artifact, *footprint);
}

} // namespace mlir::moe
