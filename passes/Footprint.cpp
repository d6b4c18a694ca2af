#include "passes/Footprint.h"

#include "compiler/emit/ArtifactFacts.h"
#include "compiler/translate/BuildEmitPlan.h"

#include "runtime/format/Writer.h"

namespace mlir::moe {

FailureOr<moert::Artifact> describe(ModuleOp module) {
  moec::EmitPlan described;
  if (mlir::failed(moec::describeModel(module, described)))
    return failure();
  moert::Artifact &artifact = described.artifact;
  if (moert::Status status = moert::layOutArtifact(artifact, {}); !status.isOk())
    return emitStatus(module, status);
  if (mlir::failed(moec::addPrograms(module, artifact)))
    return failure();
  return std::move(artifact);
}

FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, const moert::Artifact &artifact) {
  auto model = module->getAttrOfType<ModelAttr>(kModelAttr);
  if (!model)
    return emitError(module.getLoc(), "the module has no 'moe.model'");
  moert::ModelFootprint footprint = moec::plannedFootprintOf(artifact);
  for (auto [layer, pages] : llvm::zip_equal(module.getOps<MoeLayerOp>(), footprint.cache.layers))
    if (pages.allPages > UINT32_MAX)
      return layer.emitOpError() << "has " << layer.getExperts() << " experts in " << pages.allPages
                                 << " pages of " << artifact.pageBytes
                                 << " bytes, expected at most 2^32 pages in a layer";
  return footprint;
}

bool hasPaths(ModuleOp module) {
  auto artifact = module->getAttrOfType<ArtifactAttr>(kArtifactAttr);
  return artifact && artifact.getPaths() != 0;
}

} // namespace mlir::moe
