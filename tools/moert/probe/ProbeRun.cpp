#include "tools/moert/probe/ProbeRun.h"

#include <algorithm>
#include <cassert>

namespace moert::probe {

double median(std::vector<double> values) {
  assert(!values.empty());
  auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double steadyRate(std::vector<double> rates) {
  assert(!rates.empty());
  std::sort(rates.begin(), rates.end());
  const size_t left = rates.size() / 5, count = rates.size() - 2 * left;
  double time = 0;
  for (size_t i = left; i < left + count; ++i)
    time += 1 / rates[i];
  return static_cast<double>(count) / time;
}

Status ProbeRun::begin(std::string_view step, uint64_t plannedNs) {
  if (stopped())
    return Status(StatusCode::kInterrupted, "interrupted; nothing was written");
  report(step, std::min(begunNs, totalNs), totalNs);
  begunNs += plannedNs;
  return {};
}

} // namespace moert::probe
