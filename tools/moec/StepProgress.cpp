#include "tools/moec/StepProgress.h"

#include "runtime/base/Status.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"

namespace moec::cli {

void StepProgress::begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) {
  end();
  total = totalBytes;
  line.emplace(std::string(step), moert::cli::describeBytes, doneBytes);
}

void StepProgress::beginCounting(std::string_view step, std::string_view units, uint64_t each,
                                 uint64_t totalCount, uint64_t done) {
  end();
  total = totalCount;
  auto describe = [name = std::string(units), each](uint64_t now, uint64_t all) {
    return moert::strCat(now / each, " of ", all / each, " ", name);
  };
  line.emplace(std::string(step), describe, done);
}

void StepProgress::advanceTo(uint64_t done) {
  if (line)
    line->update(done, total);
}

void StepProgress::restoreTo(uint64_t done) {
  if (line)
    line->restore(done, total);
}

Session sessionWith(Progress &progress) {
  return {&progress, &moert::cli::catchInterrupts(),
          [](std::string_view line) { moert::cli::printError(line); }};
}

} // namespace moec::cli
