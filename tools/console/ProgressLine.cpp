#include "tools/console/ProgressLine.h"

#include "runtime/base/Duration.h"
#include "runtime/base/Excerpt.h"
#include "runtime/base/Size.h"
#include "runtime/base/Status.h"
#include "tools/console/OutputStream.h"

#include <algorithm>

namespace moert::cli {

constexpr uint64_t kSecondNs = 1'000'000'000;
/// Shorter steps show no line.
constexpr uint64_t kSilentNs = kSecondNs;
constexpr uint64_t kTerminalIntervalNs = kSecondNs / 5;
// Turns off line wrap, so that a narrow terminal truncates the line: a second row would not be
// erased.
constexpr const char *kNoWrap = "\x1b[?7l", *kWrap = "\x1b[?7h";
constexpr uint64_t kLogIntervalNs = 10 * kSecondNs;

std::string describeBytes(uint64_t done, uint64_t total) {
  return strCat(formatBytes(done), " of ", formatBytes(total));
}

ProgressLine::ProgressLine(std::string stepName, Describe describeProgress, uint64_t doneBefore)
    : ProgressLine(std::move(stepName), std::move(describeProgress), doneBefore, writeError,
                   monotonicNs, isErrorTerminal()) {}

ProgressLine::ProgressLine(std::string stepName, Describe describeProgress, uint64_t doneBefore,
                           Write writer, Clock clock, bool terminal)
    : step(printable(stepName)), describe(std::move(describeProgress)), startDone(doneBefore),
      write(std::move(writer)), now(clock), isTerminal(terminal), startNs(clock()),
      lastShownNs(startNs), lastDone(doneBefore), lastNs(startNs) {}

ProgressLine::~ProgressLine() {
  if (isShown && isTerminal)
    write("\r\x1b[K");
}

void ProgressLine::restore(uint64_t done, uint64_t total) {
  startDone += done - std::min(done, lastDone);
  restoringNs += now() - lastNs;
  update(done, total);
}

void ProgressLine::update(uint64_t done, uint64_t total) {
  const uint64_t time = now();
  lastDone = done;
  lastNs = time;
  const uint64_t elapsed = time - startNs;
  const uint64_t interval = isTerminal ? kTerminalIntervalNs : kLogIntervalNs;
  if (elapsed < kSilentNs || time - lastShownNs < interval || done >= total)
    return;
  lastShownNs = time;
  isShown = true;
  auto percent = static_cast<uint64_t>(double(done) / double(total) * 100);
  std::string line = strCat(step, ": ", percent, "%, ", describe(done, total));
  if (wholeSeconds) {
    line += ", " + formatDuration(static_cast<uint64_t>(*wholeSeconds + 0.5)) + " left in all";
  } else if (done > startDone) {
    double perUnit =
        static_cast<double>(elapsed - restoringNs) / static_cast<double>(done - startDone);
    double leftNs = perUnit * static_cast<double>(total - done);
    line +=
        ", " + formatDuration(static_cast<uint64_t>(leftNs / double(kSecondNs) + 0.5)) + " left";
  }
  write(isTerminal ? strCat("\r\x1b[K", kNoWrap, line, kWrap) : line + "\n");
}

} // namespace moert::cli
