// The forecasts of an artifact's plans, with their lower bounds.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"

#include "runtime/base/Size.h"
#include "runtime/base/Status.h"
#include "runtime/format/FieldJson.h"
#include "runtime/policy/Prefetches.h"

#include <cmath>

using namespace moert;

namespace moec {

using Align = TextTable::Align;

namespace {

std::string percent(double fraction) {
  return fixed(fraction * 100, 1) + "%";
}

std::string bytesText(double bytes) {
  return formatBytes(static_cast<uint64_t>(std::llround(bytes)));
}

/// Whether two forecasts can share a table: same machine, threads and text.
bool areAlike(const Forecast &a, const Forecast &b) {
  return a.device == b.device && a.threads == b.threads && a.tokens == b.tokens &&
         a.traceTokens == b.traceTokens && a.origin == b.origin;
}

std::string describeAlike(const std::vector<const Plan *> &plans) {
  const Forecast &first = *plans.front()->forecast;
  TextTable times({{"ms per token", Align::kLeft}, {"mean"}, {"median"}, {"95%"}, {"bound"}});
  TextTable reads({{"reads per token", Align::kLeft},
                   {"hits"},
                   {"resident"},
                   {"read"},
                   {"Belady"},
                   {"recall"},
                   {"precision"}});
  for (const Plan *plan : plans) {
    const Forecast &of = *plan->forecast;
    const bool prefetches = prefetchesAnything(plan->prefetches);
    times.addRow({plan->name, fixed(of.tokenNs / 1e6, 2), fixed(of.medianNs / 1e6, 2),
                  fixed(of.slowNs / 1e6, 2), fixed(of.boundNs / 1e6, 2)});
    reads.addRow({plan->name, percent(of.hitRate), percent(of.readyRate),
                  bytesText(of.bytesPerToken), bytesText(of.leastBytesPerToken),
                  prefetches ? percent(of.prefetchRecall) : "-",
                  prefetches ? percent(of.prefetchPrecision) : "-"});
  }
  return strCat("forecast, decoding the calibration text on\n", kIndent, first.device, "\n",
                kIndent, first.threads, first.threads == 1 ? " thread; " : " threads; ",
                "the device's numbers are ", worstText(first.origin), "\n", kIndent, first.tokens,
                " of the trace's ", first.traceTokens, " decoded tokens, held out from planning:\n",
                times.text(kIndent), "\n", reads.text(kIndent), "\n", kIndent,
                "Belady: ", kBoundText, "\n");
}

} // namespace

std::string worstText(Origin worst) {
  return strCat(nameOf(worst), worst == Origin::kMeasured ? "" : " at worst");
}

std::string describeForecasts(const Artifact &artifact) {
  std::string text;
  std::vector<const Plan *> alike;
  for (const Plan &plan : artifact.plans) {
    if (!plan.forecast)
      continue;
    if (!alike.empty() && !areAlike(*alike.front()->forecast, *plan.forecast)) {
      text += describeAlike(alike) + "\n";
      alike.clear();
    }
    alike.push_back(&plan);
  }
  return alike.empty() ? text : text + describeAlike(alike);
}

} // namespace moec
