// Artifacts of assignments: the candidates that a search measures, and the final one.
// Their experts are copied from the pool, so that none is quantized twice.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/accuracy/WidthItems.h"
#include "compiler/commands/Compile.h"
#include "compiler/emit/EmitArtifact.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/pool/ExpertPool.h"
#include "compiler/pool/ResidentFeedback.h"
#include "compiler/profile/CalibrationProfile.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// The grids on which experts are pooled: descending, as the search requires, and then that of low
/// copies if no expert may choose it.
moert::Result<std::vector<ExpertGrid>> poolGridsOf(const AccurateCompileRequest &request,
                                                   std::span<const moert::MoeLayer> layers);

/// Owns the pool; borrows the request, the model and the session, which outlive it. One thread.
/// The functions after finish() may be called after it.
class PooledArtifacts {
public:
  /// The pool is in the directory; a partly filled one is resumed. The path is that of the profile,
  /// for the planned module.
  static moert::Result<std::unique_ptr<PooledArtifacts>>
  create(const AccurateCompileRequest &request, const ImportedModel &model, std::string profilePath,
         const std::string &directory, const Session &session);

  /// Fills one layer of the pool while the model is calibrated; `advance` gets the part that is
  /// done.
  moert::Status fillLayer(const CalibrationProfile &profile, size_t layer,
                          const std::function<void(double)> &advance);
  /// Memory that fillLayer() takes at least.
  uint64_t layerBytes() const;
  /// Fills all layers that are not filled yet, as a step.
  moert::Status fillPool(const CalibrationProfile &profile);
  /// fillPool(), and what the functions below need. The profile outlives this.
  moert::Status finish(const CalibrationProfile &profile);

  const Checkpoint &checkpoint() const { return model.checkpoint; }
  /// The items whose widths an assignment chooses.
  const WidthItems &items() const { return *widthItems; }
  uint64_t expertWeights() const { return weights; }
  /// Bytes of the experts at their smallest widths; the length of the trace follows from them.
  uint64_t fewestExpertBytes() const;

  /// All decisions for an assignment's artifact, with plans by rules unless there are sources.
  /// Refuses budgets that it would exceed. `measured`, `widthsBy` and `searchRuns` are for the
  /// final artifact.
  struct PlanRequest {
    std::vector<std::string> budgets = {};
    mlir::moe::PlanSources sources = {};
    std::optional<moert::Measured> measured = {};
    std::string widthsBy = {};
    std::vector<uint64_t> searchRuns = {}; // For the planned module, from which the trace is made.
    std::string *moduleText = nullptr;     // Filled with the planned module.
    bool hasLowCopies = false;             // As requested: no measurement reads them.
  };
  moert::Result<EmitPlan> plan(const WidthAssignment &assignment, const PlanRequest &asked) const;
  /// Writes the artifact of an assignment with its `plan`; sets the options' threads and stop.
  moert::Status emit(EmitPlan plan, const WidthAssignment &assignment, EmitOptions options) const;

private:
  PooledArtifacts(const AccurateCompileRequest &asked, const ImportedModel &imported,
                  std::string profile, std::string where, const Session &told)
      : request(asked), model(imported), profilePath(std::move(profile)),
        directory(std::move(where)), session(told) {}

  moert::Status openPool(const CalibrationInfo &info);
  moert::Status makeItems(const CalibrationInfo &info);

  const AccurateCompileRequest &request;
  const ImportedModel &model;
  std::string profilePath;
  std::string directory;
  const Session &session;
  std::unique_ptr<ModelIr> ir;
  EmitPlan layers; // Formats are not used.
  std::unique_ptr<ExpertPool> pool;
  std::optional<ResidentFeedback> feedback; // For error feedback only.
  std::optional<WidthItems> widthItems;     // Declared after the pool, which it borrows.
  uint64_t weights = 0;
};

} // namespace moec
