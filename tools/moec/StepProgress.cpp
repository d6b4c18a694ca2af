#include "tools/moec/StepProgress.h"

namespace moec::cli {

void StepProgress::begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) {
  end();
  total = totalBytes;
  line.emplace(std::string(step), moert::cli::describeBytes, doneBytes);
}

void StepProgress::advanceTo(uint64_t doneBytes) {
  if (line)
    line->update(doneBytes, total);
}

} // namespace moec::cli
