#include "compiler/commands/EmitModule.h"

#include "compiler/calibrate/Calibrate.h"
#include "compiler/commands/Compile.h"
#include "compiler/commands/WriteArtifact.h"
#include "compiler/emit/Journal.h"
#include "compiler/ir/ParseDepth.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/planning/CheckpointMark.h"
#include "compiler/planning/LearnedSections.h"
#include "compiler/pool/ExpertPool.h"
#include "compiler/pool/ResidentFeedback.h"
#include "compiler/profile/Learned.h"
#include "compiler/quantize/PackGrid.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"
#include "runtime/format/WeightsChecksum.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <array>
#include <filesystem>
#include <set>
#include <span>
#include <tuple>

using namespace moert;

namespace moec {

static Result<std::unique_ptr<llvm::MemoryBuffer>> readModuleFile(const std::string &path) {
  std::error_code ignored;
  // Opening a pipe would block.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return invalidInput(path, ": this is not a regular file");
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return invalidInput(path, ": ", file.getError().message());
  llvm::StringRef text = (*file)->getBuffer();
  MOERT_RETURN_IF_ERROR(checkParseDepth({text.data(), text.size()}, path));
  return std::move(*file);
}

/// The grids of a plan's experts in descending order of bits, and which one each expert has.
struct UsedGrids {
  std::vector<ExpertGrid> grids;
  GridChoice choice;
};

/// The formats of each of its copies, the low one first.
static std::vector<std::vector<ExpertFormat>> copiesOf(const Expert &expert) {
  const std::vector<ExpertFormat> formats = formatsOf(expert);
  const auto boundary = formats.begin() + lowCopySlicesOf(expert);
  std::vector<std::vector<ExpertFormat>> copies;
  if (boundary != formats.begin())
    copies.emplace_back(formats.begin(), boundary);
  copies.emplace_back(boundary, formats.end());
  return copies;
}

static auto fieldsOf(const Grid &grid) {
  return std::tie(grid.bits, grid.group, grid.hasOffsets, grid.hasLevels, grid.hasByteScales,
                  grid.hasHadamard);
}

/// In the pool's order: grids of one gate and up are neighbours.
static bool isWider(const ExpertGrid &a, const ExpertGrid &b) {
  return std::tuple(fieldsOf(a.gateUp), fieldsOf(a.down)) >
         std::tuple(fieldsOf(b.gateUp), fieldsOf(b.down));
}

static UsedGrids gridsOf(const std::vector<MoeLayer> &layers) {
  std::set<ExpertGrid, decltype(&isWider)> all(&isWider);
  for (const MoeLayer &layer : layers)
    for (const Expert &expert : layer.experts)
      for (const std::vector<ExpertFormat> &copy : copiesOf(expert))
        all.insert(gridOf(copy));
  UsedGrids used{{all.begin(), all.end()}, GridChoice(layers.size())};
  for (size_t l = 0; l < layers.size(); ++l)
    for (const Expert &expert : layers[l].experts)
      used.choice[l].push_back(static_cast<uint32_t>(
          std::distance(all.begin(), all.find(gridOf(copiesOf(expert).back())))));
  return used;
}

/// The pool makes slices from a grid and the nesting alone, so the experts must have these.
static Status checkFormats(const EmitPlan &plan, const EmitRequest &request) {
  if (plan.artifact.moeLayers.empty())
    return invalidInput(request.modulePath, ": found the quantizer ", nameOf(plan.origin.method),
                        " in a module without MoE layers, expected experts that it quantizes");
  const Expert &first = plan.artifact.moeLayers.front().experts.front();
  const uint32_t activationGroup = first.slices.front().format.activationGroup();
  const bool hasHadamard = first.slices.front().format.gateUp.hasHadamard;
  for (const MoeLayer &layer : plan.artifact.moeLayers)
    for (const Expert &expert : layer.experts) {
      const auto refuse = [&](std::string_view found) {
        return invalidInput(request.modulePath, ": found ", found, " with the quantizer ",
                            nameOf(plan.origin.method),
                            ", expected the slices of moe-assign-bits with this quantizer");
      };
      for (const std::vector<ExpertFormat> &copy : copiesOf(expert)) {
        if (!copy.front().isQuantized())
          return refuse("an expert that is not quantized");
        if (copy.front().gateUp.hasHadamard != hasHadamard)
          return refuse("experts with and without the Hadamard transform");
        auto slices = slicesOf(gridOf(copy), activationGroup, plan.origin.isNested);
        if (!slices.isOk() || *slices != copy)
          return refuse("slices of another form");
      }
    }
  return {};
}

static Result<std::unique_ptr<ExpertPool>>
fillPool(const EmitPlan &plan, const std::vector<ExpertGrid> &grids, const Checkpoint &checkpoint,
         const CalibrationProfile &profile, const EmitRequest &request, const WorkDirectory &work,
         const Session &session) {
  PoolOptions options;
  options.directory = work.path() + "/pool";
  options.method = plan.origin.method;
  options.grids = grids;
  options.activationGroup =
      plan.artifact.moeLayers.front().experts.front().slices.front().format.activationGroup();
  options.nested = plan.origin.isNested;
  options.checkpointHash = profile.info().checkpointHash;
  options.threads = request.threads;
  options.stop = session.stop;
  options.progress = session.progress;
  MOERT_RETURN_IF_ERROR(makeDirectory(options.directory));
  return ExpertPool::fill(plan, checkpoint, profile, options);
}

/// Quantizes with the module's calibration profile, in the work directory.
static Status emitCalibrated(EmitPlan plan, const Checkpoint &checkpoint,
                             const EmitRequest &request, const Session &session) {
  const std::string &path = plan.origin.profilePath;
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, std::span(&path, 1)));
  MOERT_RETURN_IF_ERROR(WorkDirectory::checkHoldsNone(request.outputPath, std::span(&path, 1)));
  auto profile = CalibrationProfile::open(path);
  if (!profile.isOk())
    return profile.status().withContext(strCat(request.modulePath, " names a profile"));
  MOERT_ASSIGN_OR_RETURN(const CheckpointHash hash, checkpointHash(checkpoint, session.stop));
  MOERT_RETURN_IF_ERROR(checkSameCheckpoint((*profile)->info().checkpointHash, path, hash,
                                            strCat("is that of ", checkpoint.directory())));
  MOERT_RETURN_IF_ERROR(checkFormats(plan, request));
  MOERT_ASSIGN_OR_RETURN(Learned learned,
                         learn(**profile, plan.origin.traceExpertBytes, plan.origin.searchRuns));
  plan.trace = std::move(learned.sections.trace);
  plan.paths = std::move(learned.sections.paths);
  const std::array beside = {OutputFile::partialPathOf(request.outputPath),
                             Journal::pathOf(request.outputPath)};
  MOERT_ASSIGN_OR_RETURN(
      WorkDirectory work,
      WorkDirectory::open(request.outputPath, leftWorkOf(request.resume, request.restart), beside));
  const auto write = [&]() -> Status {
    UsedGrids used = gridsOf(plan.artifact.moeLayers);
    MOERT_ASSIGN_OR_RETURN(
        const std::unique_ptr<ExpertPool> pool,
        fillPool(plan, used.grids, checkpoint, **profile, request, work, session));
    MOERT_ASSIGN_OR_RETURN(
        const PooledRecords records,
        PooledRecords::withLowCopies(*pool, std::move(used.choice), plan.artifact));
    plan.records = &records;
    const ResidentFeedback feedback(**profile);
    if (plan.origin.method == QuantizeMethod::kGptq)
      plan.feedback = &feedback;
    EmitOptions options =
        emitOptionsOf(request.outputPath, request.threads, request.resume, session);
    options.startsOverIfRefused = true; // The expensive results are in the work directory.
    return writePlan(std::move(plan), checkpoint, hash, options, session);
  };
  return work.keepAfter(write(), beside);
}

/// Refuses an artifact whose section has another checksum than the module names; absent: 0.
static Status checkSection(const char *what, uint64_t named, uint64_t found,
                           const std::string &path) {
  return named == 0 || named == found
             ? Status()
             : invalidInput(path, ": found ", what, " of checksum ", formatChecksum(found),
                            ", expected ", formatChecksum(named), ", as the module names ", what);
}

static Status emitStored(IrContext &ir, mlir::ModuleOp module, mlir::moe::ArtifactAttr from,
                         const EmitRequest &request, const Session &session) {
  const std::string path = from.getPath().str();
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, std::span(&path, 1)));
  auto stored = StoredArtifact::open(path);
  if (!stored.isOk())
    return stored.status().withContext(strCat(request.modulePath, " names an artifact"));
  const Artifact &artifact = stored->artifact();
  MOERT_RETURN_IF_ERROR(
      checkSection("weights", from.getWeights(), weightsChecksum(artifact), path));
  MOERT_RETURN_IF_ERROR(checkSection("paths", from.getPaths(), artifact.pathsChecksum, path));
  MOERT_RETURN_IF_ERROR(checkSection("trace", from.getTrace(), artifact.traceChecksum, path));
  MOERT_RETURN_IF_ERROR(
      refuseLeftEmission(request.outputPath, leftWorkOf(request.resume, request.restart)));
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, planOf(ir, module));
  MOERT_ASSIGN_OR_RETURN(LearnedSections learned, readLearnedSections(stored->source(), artifact));
  if (from.getPaths() != 0)
    plan.paths = std::move(learned.paths);
  if (from.getTrace() != 0)
    plan.trace = std::move(learned.trace);
  return writeCopy(std::move(plan), *stored,
                   emitOptionsOf(request.outputPath, request.threads, request.resume, session),
                   session);
}

Status emitFromFile(const EmitRequest &request, const Session &session) {
  IrContext ir(session);
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::MemoryBuffer> text,
                         readModuleFile(request.modulePath));
  llvm::SourceMgr source;
  source.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(source, mlir::ParserConfig(ir.context()));
  if (!module)
    return ir.failure("reading the module");
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, std::span(&request.modulePath, 1)));
  if (auto from = (*module)->getAttrOfType<mlir::moe::ArtifactAttr>(mlir::moe::kArtifactAttr))
    return emitStored(ir, *module, from, request, session);
  auto model = (*module)->getAttrOfType<mlir::moe::ModelAttr>(mlir::moe::kModelAttr);
  if (!model)
    return invalidInput(request.modulePath, ": the module has no 'moe.model'");
  MOERT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(model.getCheckpoint().str()));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, checkpoint));
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, planOf(ir, *module));
  if (!plan.origin.profilePath.empty())
    return emitCalibrated(std::move(plan), checkpoint, request, session);
  MOERT_RETURN_IF_ERROR(
      refuseLeftEmission(request.outputPath, leftWorkOf(request.resume, request.restart)));
  return writeArtifact(std::move(plan), checkpoint,
                       emitOptionsOf(request.outputPath, request.threads, request.resume, session),
                       session);
}

} // namespace moec
