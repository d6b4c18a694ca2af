#include "compiler/plan/QuotaCurves.h"

#include "compiler/plan/ForEach.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace moert;

namespace moec {

// Sizes of a layer's quota that are tried. Curves are smooth: twice as many change the quotas by a
// record or two and the bytes by less than 0.2%.
static constexpr uint32_t kSizes = 12;

/// The replay's only layer is the trace's layer `index`.
static double decodeBytes(const PlanProblem &problem, const MissRule &miss, uint32_t index,
                          size_t steps, CacheReplay replay) {
  const RoutingTrace &trace = *problem.trace;
  const size_t layers = trace.layerExperts.size();
  TracedMisses misses(miss,
                      miss.changesDecoding() ? problem.scores.subspan(index, 1) : problem.scores);
  double bytes = 0;
  uint64_t token = 0;
  for (size_t step = 0; step < steps; ++step) {
    const RoutingPass &pass = trace.passes[step * layers + index];
    const PassDemand demand = misses.demandOf(replay.cache(), trace, pass, 0, token);
    const CacheCounts counts = replay.runPass(0, demand);
    bytes += pass.tokens == 1 ? static_cast<double>(counts.bytesRead) : 0;
    token += pass.tokens;
  }
  return bytes;
}

static QuotaCurve curveOf(const PlanProblem &problem, const CurveSubject &subject, size_t steps,
                          const CacheShape &shape, uint32_t index) {
  const CacheShape::Layer &layer = shape.layers[index];
  ReplayCache cache;
  cache.pageBytes = problem.pageBytes;
  cache.stagingPages = std::max(subject.stagingPages, layer.recordPages);
  cache.rules.eviction = subject.eviction;
  cache.rules.baseSlices = subject.miss.baseSlices();
  ReplayLayer &only = cache.layers.emplace_back();
  only.recordBytes = problem.recordBytes[index];
  if (subject.miss.isLossy())
    setSlices(problem, index, only);
  QuotaCurve curve;
  for (uint32_t i = 0; i <= kSizes; ++i) {
    const uint64_t records = uint64_t(layer.experts) * i / kSizes;
    const uint64_t pages =
        i == kSizes ? layer.allPages : std::min(layer.allPages, records * layer.recordPages);
    if (i > 0 && pages == curve.pages.back())
      continue;
    only.quotaPages = pages;
    curve.pages.push_back(pages);
    curve.bytes.push_back(
        decodeBytes(problem, subject.miss, index, steps, CacheReplay::create(cache).value()));
  }
  return curve;
}

std::vector<QuotaCurve> quotaCurves(const PlanProblem &problem, const CurveSubject &subject,
                                    size_t steps, uint32_t threads) {
  const CacheShape shape = shapeOf(problem);
  steps = std::min(steps, problem.trace->passes.size() / shape.layers.size());
  std::vector<QuotaCurve> curves(shape.layers.size());
  forEach(curves.size(), threads, [&](size_t layer) {
    curves[layer] = curveOf(problem, subject, steps, shape, static_cast<uint32_t>(layer));
  });
  return curves;
}

namespace {

/// A piece of a hull: from one point to the next.
struct HullStep {
  uint32_t layer = 0;
  uint64_t pages = 0;
  double savedPerPage = 0; // Bytes.
};

std::vector<HullStep> hullSteps(const std::vector<QuotaCurve> &curves) {
  std::vector<HullStep> steps;
  for (uint32_t l = 0; l < curves.size(); ++l) {
    const QuotaCurve &curve = curves[l];
    for (size_t from = 0; from + 1 < curve.pages.size();) {
      size_t best = from + 1;
      double bestRate = -std::numeric_limits<double>::infinity();
      for (size_t to = from + 1; to < curve.pages.size(); ++to) {
        const double rate = (curve.bytes[from] - curve.bytes[to]) /
                            static_cast<double>(curve.pages[to] - curve.pages[from]);
        if (rate >= bestRate) {
          bestRate = rate;
          best = to;
        }
      }
      steps.push_back({l, curve.pages[best] - curve.pages[from], bestRate});
      from = best;
    }
  }
  // A layer's own steps save less and less, so that this keeps their order.
  std::stable_sort(steps.begin(), steps.end(), [](const HullStep &a, const HullStep &b) {
    return a.savedPerPage > b.savedPerPage;
  });
  return steps;
}

} // namespace

std::vector<uint32_t> quotasOfCurves(const CacheShape &shape, const std::vector<QuotaCurve> &curves,
                                     uint64_t floorPages, uint64_t quotaPages) {
  assert(shape.layers.size() == curves.size());
  std::vector<uint32_t> quotas(curves.size(), 0);
  uint64_t left = quotaPages;
  // In whole records; the last one may be smaller than the largest.
  auto give = [&](uint32_t l, uint64_t pages) {
    const CacheShape::Layer &layer = shape.layers[l];
    while (pages > 0 && left > 0 && quotas[l] < layer.allPages) {
      const uint64_t record = std::min(layer.recordPages, layer.allPages - quotas[l]);
      if (record > left)
        return;
      quotas[l] += static_cast<uint32_t>(record);
      left -= record;
      pages -= std::min(pages, record);
    }
  };
  for (uint32_t l = 0; l < quotas.size(); ++l)
    give(l, floorPages);
  std::vector<uint64_t> reached(curves.size(), 0); // On the curves.
  for (const HullStep &step : hullSteps(curves)) {
    reached[step.layer] += step.pages;
    if (reached[step.layer] > quotas[step.layer])
      give(step.layer, reached[step.layer] - quotas[step.layer]);
  }
  for (uint32_t l = 0; l < quotas.size(); ++l)
    give(l, shape.layers[l].allPages);
  return quotas;
}

} // namespace moec
