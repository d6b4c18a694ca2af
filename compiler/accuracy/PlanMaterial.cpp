#include "compiler/accuracy/PlanMaterial.h"

#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanReasons.h"
#include "runtime/base/SystemLimits.h"

#include <cmath>

using namespace moert;

namespace moec {

ArtifactTimes::ArtifactTimes(const PlanMaterial &material, const PooledArtifacts &artifacts,
                             std::string given, Preset preset, const std::atomic<bool> *stop)
    : device(material.device->name), budget(std::move(given)),
      planning(artifacts, material.learned, *material.device, budget, preset),
      replayed(planning, preset, availableCores(), stop) {}

Result<std::unique_ptr<ArtifactTimes>> ArtifactTimes::create(const PlanMaterial &material,
                                                             const PooledArtifacts &artifacts,
                                                             const mlir::moe::CompileOptions &of,
                                                             const std::atomic<bool> *stop) {
  if (!material.device || of.budgets.empty() || material.learned.sections.trace.empty())
    return std::unique_ptr<ArtifactTimes>();
  Preset preset = Preset::kAuto;
  if (!of.presets.empty()) {
    MOERT_ASSIGN_OR_RETURN(preset, exactPresetOf(of.presets.front()));
  }
  return std::unique_ptr<ArtifactTimes>(
      new ArtifactTimes(material, artifacts, of.budgets.front(), preset, stop));
}

std::string ArtifactTimes::place() const {
  return strCat("within ", budget, " on ", device);
}

static std::string timedText(const MeasuredWidths &widths) {
  return strCat(timeText(widths.tokenNs), " a token by ", widths.solver);
}

WidthsChosen widthsChosen(const WidthSearchOutcome &outcome, const std::string &place) {
  if (!outcome.isTimed)
    return {{},
            {{std::string(kWidthsReason), "fewest bytes",
              strCat("of what was measured to keep the target; ",
                     !place.empty() ? "the budget holds none of it"
                                    : "a device and a budget would let time decide"),
              Origin::kMeasured}}};
  const MeasuredWidths &best = outcome.best;
  WidthsChosen chosen{
      place, {{std::string(kWidthsReason), "least time", timedText(best), Origin::kDerived}, true}};
  PlanReason &reason = chosen.widths.reason;
  const bool isSame = outcome.fewestBytes && outcome.fewestBytes->assignment == best.assignment;
  if (isSame)
    reason.reason += ", with the fewest bytes as well";
  else if (outcome.fewestBytes && !std::isfinite(outcome.fewestBytes->tokenNs))
    reason.reason += strCat("; with the fewest bytes of those expected to pass, by ",
                            outcome.fewestBytes->solver, ", it does not fit");
  else if (outcome.fewestBytes)
    reason.reason += strCat("; with the fewest bytes of those expected to pass ",
                            timedText(*outcome.fewestBytes));
  reason.reason += strCat(", expected ", chosen.place);
  return chosen;
}

std::string widthsBy(const WidthsChosen &chosen) {
  return chosen.widths.isTimed ? strCat("seconds ", chosen.place) : "bytes";
}

} // namespace moec
