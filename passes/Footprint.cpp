#include "passes/Footprint.h"

#include "compiler/emit/BuildEmitPlan.h"
#include "compiler/ir/BuildProgram.h"
#include "passes/ExpandProgram.h"
#include "passes/PlaceBuffers.h"

#include "runtime/engine/Footprint.h"
#include "runtime/format/Writer.h"
#include "runtime/predict/PathTable.h"

namespace mlir::moe {

// An estimate that errs on the large side: the runtime must accept a plan that the compiler
// accepted. A tokenizer of 50,000 to 250,000 words with merges takes 60 to 110 bytes a word in
// memory; the rest is room for the checkpoint's chat templates, some 10 KB.
static constexpr uint64_t kTokenizerBytesPerWord = 128;

/// The instructions that a function will become, with its buffers in the arena.
static FailureOr<moert::Program> programOf(func::FuncOp function) {
  FailureOr<OwningOpRef<ProgramOp>> program = expandProgram(function);
  if (failed(program))
    return failure();
  placeProgram(program->get());
  // Symbols are looked up in the module.
  ProgramOp inserted = program->release();
  OpBuilder(function).insert(inserted);
  FailureOr<moert::Program> built = buildProgram(inserted);
  inserted.erase();
  return built;
}

FailureOr<moert::Artifact> describe(ModuleOp module) {
  moec::EmitPlan described;
  if (mlir::failed(moec::describeModel(module, described)))
    return failure();
  moert::Artifact &artifact = described.artifact;
  if (moert::Status status = moert::layOutArtifact(artifact, {}); !status.isOk())
    return emitStatus(module, status);
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    FailureOr<moert::Program> program = programOf(function);
    if (mlir::failed(program))
      return failure();
    addProgram(std::move(*program), artifact);
  }
  return std::move(artifact);
}

FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, const moert::Artifact &artifact) {
  auto model = module->getAttrOfType<ModelAttr>(kModelAttr);
  if (!model)
    return emitError(module.getLoc(), "the module has no 'moe.model'");
  moert::ModelFootprint footprint = moert::footprintOf(artifact);
  footprint.tokenizerBytes = model.getVocabulary() * kTokenizerBytesPerWord;
  SmallVector<uint32_t> experts;
  for (auto [layer, pages] : llvm::zip_equal(module.getOps<MoeLayerOp>(), footprint.cache.layers)) {
    if (pages.allPages > UINT32_MAX)
      return layer.emitOpError() << "has " << layer.getExperts() << " experts in " << pages.allPages
                                 << " pages of " << artifact.pageBytes
                                 << " bytes, expected at most 2^32 pages in a layer";
    experts.push_back(pages.experts);
  }
  footprint.pathsBytes = moert::pathTableBytes(experts);
  return footprint;
}

} // namespace mlir::moe
