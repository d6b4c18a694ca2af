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

Status ProbeRun::begin(std::string_view step, uint64_t plannedNs) {
  if (stopped())
    return Status(StatusCode::kInterrupted, "interrupted; nothing was written");
  report(step, std::min(begunNs, totalNs), totalNs);
  begunNs += plannedNs;
  return {};
}

} // namespace moert::probe
