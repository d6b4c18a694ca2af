// Artifacts of assignments: the candidates that a search measures and the one that comes of it.
// Their experts are copies from the pool, so that none is quantized twice.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/accuracy/WidthItems.h"
#include "compiler/commands/Compile.h"
#include "compiler/emit/EmitArtifact.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/pool/ExpertPool.h"
#include "compiler/profile/CalibrationProfile.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// Owns the pool; borrows the request, the model and the session, which outlive it. One thread.
class PooledArtifacts {
public:
  /// Fills the pool, which lies in the directory and is gone on with if it is there.
  static moert::Result<std::unique_ptr<PooledArtifacts>>
  create(const AccurateCompileRequest &request, const ImportedModel &model,
         const CalibrationProfile &profile, const std::string &directory, const Session &session);

  /// What an assignment chooses widths for.
  const WidthItems &items() const { return *widthItems; }
  uint64_t expertWeights() const { return weights; }

  /// All decisions for an assignment's artifact. Refuses budgets that it does not keep, with what
  /// the artifact will say was measured of it (memoryBytesOf).
  moert::Result<EmitPlan> plan(const WidthAssignment &assignment,
                               const std::vector<std::string> &budgets,
                               uint64_t measuredBytes = 0) const;
  /// Writes the artifact of an assignment that `plan` is of; threads and stop are filled in here.
  moert::Status emit(EmitPlan plan, const WidthAssignment &assignment, EmitOptions options) const;

private:
  PooledArtifacts(const AccurateCompileRequest &asked, const ImportedModel &imported,
                  std::string where, const Session &told)
      : request(asked), model(imported), directory(std::move(where)), session(told) {}

  moert::Status fillPool(const CalibrationProfile &profile);
  moert::Status makeItems(const CalibrationInfo &info);

  const AccurateCompileRequest &request;
  const ImportedModel &model;
  std::string directory;
  const Session &session;
  std::unique_ptr<ExpertPool> pool;
  std::optional<WidthItems> widthItems; // Behind the pool, which it borrows.
  uint64_t weights = 0;
};

} // namespace moec
