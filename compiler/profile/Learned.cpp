#include "compiler/profile/Learned.h"

#include "compiler/profile/PathSection.h"
#include "compiler/profile/SeenText.h"

#include <algorithm>

using namespace moert;

namespace moec {

Result<Learned> learn(const CalibrationProfile &profile, uint64_t expertBytes,
                      const std::optional<std::vector<uint64_t>> &alsoRead) {
  constexpr uint64_t kLeastTraceBytes = 4 << 20;
  Learned learned;
  MOERT_ASSIGN_OR_RETURN(learned.trace,
                         makePlanTrace(profile, std::max(kLeastTraceBytes, expertBytes / 16)));
  MOERT_ASSIGN_OR_RETURN(learned.sections.paths,
                         makePathSection(profile, heldOutTokens(profile.info(), learned.trace)));
  if (alsoRead) {
    SeenText seen;
    seen.add(profile.info().tokens, profile.info().windowTokens);
    seen.add(*alsoRead);
    learned.trace.readRuns = seen.runs();
  }
  learned.sections.trace = encodeTrace(learned.trace);
  return learned;
}

} // namespace moec
