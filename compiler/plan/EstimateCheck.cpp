#include "compiler/plan/EstimateCheck.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

using namespace moert;

namespace moec {

static std::vector<double> ranksOf(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && values[order[end]] == values[order[begin]];)
      ++end;
    for (size_t i = begin; i < end; ++i)
      ranks[order[i]] = double(begin + end - 1) / 2;
  }
  return ranks;
}

double rankCorrelation(std::span<const double> a, std::span<const double> b) {
  assert(a.size() == b.size() && a.size() >= 2);
  const std::vector<double> left = ranksOf(a), right = ranksOf(b);
  const double mean = double(a.size() - 1) / 2;
  double product = 0, leftSquares = 0, rightSquares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += (left[i] - mean) * (right[i] - mean);
    leftSquares += (left[i] - mean) * (left[i] - mean);
    rightSquares += (right[i] - mean) * (right[i] - mean);
  }
  const double scale = std::sqrt(leftSquares * rightSquares);
  return scale > 0 ? product / scale : 0;
}

Result<EstimateCheck> checkEstimates(const WidthProblem &estimates,
                                     const std::vector<bool> &isProbedDirectly, uint32_t count,
                                     WidthJudge &judge) {
  std::vector<size_t> items;
  for (size_t i = 0; i < estimates.items.size(); ++i)
    if (!isProbedDirectly[i])
      items.push_back(i);
  count = uint32_t(std::min<size_t>(count, items.size()));
  if (count < 2)
    return invalidInput("estimates of ", count, " experts to check, expected at least 2");
  const WidthAssignment widest(estimates.items.size(), 0);
  std::vector<double> estimated, measured;
  for (size_t n = 0; n < count; ++n) {
    const size_t item = items[n * items.size() / count];
    WidthAssignment assignment = widest;
    assignment[item] = uint32_t(estimates.items[item].options.size() - 1);
    MOERT_ASSIGN_OR_RETURN(double nats, judge.probe(assignment));
    estimated.push_back(estimates.items[item].options.back().loss);
    measured.push_back(nats);
  }
  return EstimateCheck{count, rankCorrelation(estimated, measured)};
}

} // namespace moec
