#include "compiler/driver/Progress.h"

#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <cstdio>
#include <unistd.h>

namespace moec {

constexpr uint64_t kSecondNs = 1'000'000'000;
// A step that is over by then has nothing to say.
constexpr uint64_t kQuietNs = kSecondNs / 2;
constexpr uint64_t kTerminalIntervalNs = kSecondNs / 10;
constexpr uint64_t kLogIntervalNs = 5 * kSecondNs;

ProgressLine::ProgressLine()
    : ProgressLine(
          [](std::string_view text) {
            std::fwrite(text.data(), 1, text.size(), stderr);
            std::fflush(stderr);
          },
          moert::monotonicNs, ::isatty(STDERR_FILENO) == 1) {}

ProgressLine::ProgressLine(Write output, moert::Clock clock, bool isTerminal)
    : write(std::move(output)), now(clock), rewrites(isTerminal) {}

ProgressLine::~ProgressLine() {
  end();
}

void ProgressLine::begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) {
  end();
  stepName = step;
  total = totalBytes;
  startNs = shownNs = now();
  startBytes = doneBytes;
}

void ProgressLine::advanceTo(uint64_t doneBytes) {
  uint64_t time = now();
  if (time - startNs < kQuietNs ||
      time - shownNs < (rewrites ? kTerminalIntervalNs : kLogIntervalNs))
    return;
  shownNs = time;
  isShown = true;
  std::string line = describe(doneBytes, time - startNs);
  write(rewrites ? "\r" + line + "\x1b[K" : line + "\n");
}

void ProgressLine::end() {
  if (isShown && rewrites)
    write("\r\x1b[K");
  isShown = false;
}

std::string ProgressLine::describe(uint64_t doneBytes, uint64_t elapsedNs) const {
  uint64_t percent = total == 0 ? 100 : uint64_t(double(doneBytes) / double(total) * 100);
  std::string line = moert::strCat(stepName, ": ", percent, "%, ", moert::formatBytes(doneBytes),
                                   " of ", moert::formatBytes(total));
  if (doneBytes > startBytes && total > doneBytes) {
    double nsPerByte = double(elapsedNs) / double(doneBytes - startBytes);
    double seconds = nsPerByte * double(total - doneBytes) / double(kSecondNs);
    line += ", " + formatDuration(uint64_t(seconds + 0.5)) + " left";
  }
  return line;
}

std::string formatDuration(uint64_t seconds) {
  if (seconds < 60)
    return moert::strCat(seconds, " s");
  if (seconds < 3600)
    return moert::strCat(seconds / 60, " min ", seconds % 60, " s");
  return moert::strCat(seconds / 3600, " h ", seconds % 3600 / 60, " min");
}

} // namespace moec
