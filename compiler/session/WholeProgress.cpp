#include "compiler/session/WholeProgress.h"

#include "runtime/base/Status.h"

#include <algorithm>

using namespace moert;

namespace moec {

constexpr double kSecondNs = 1e9;

void WholeProgress::expect(std::string_view label, double seconds) {
  for (size_t i = next; i < steps.size(); ++i)
    if (steps[i].label == label)
      steps[i].seconds = seconds;
}

double WholeProgress::plannedOfStep(uint64_t counts) const {
  return stepTotal > 0 ? steps[next - 1].seconds.value_or(0) * double(counts) / double(stepTotal)
                       : 0;
}

// What a step's own estimate replaces says nothing of the others.
bool WholeProgress::tellsPace() const {
  return isKnown && !stepLeft && steps[next - 1].seconds.value_or(0) > 0 && lastDone >= startDone;
}

void WholeProgress::leave() {
  if (tellsPace()) {
    plannedBefore += plannedOfStep(lastDone - startDone);
    tookBefore += double(now() - startNs) / kSecondNs;
  }
  isKnown = false;
}

// The plan is of a moment: the machine may have become busier, or idle.
double WholeProgress::pace() const {
  double planned = plannedBefore, took = tookBefore;
  if (tellsPace()) {
    planned += plannedOfStep(lastDone - startDone);
    took += double(now() - startNs) / kSecondNs;
  }
  constexpr double kEnoughSeconds = 10;
  const double weight = std::min(1.0, planned / kEnoughSeconds);
  return planned > 0 ? weight * took / planned + 1 - weight : 1;
}

void WholeProgress::foresee(double chance) {
  for (size_t i = next; i < steps.size(); ++i)
    if (steps[i].chance < 1)
      steps[i].chance = chance;
}

std::optional<double> WholeProgress::secondsLeft(std::optional<double> chance) const {
  double sum = 0;
  for (size_t i = next; i < steps.size(); ++i) {
    if (!steps[i].seconds)
      return std::nullopt;
    sum += *steps[i].seconds * (steps[i].chance < 1 ? chance.value_or(steps[i].chance) : 1);
  }
  return sum;
}

size_t WholeProgress::stepCount() const {
  return size_t(std::ranges::count(steps, 1, &PlannedStep::chance));
}

// Steps that an earlier run has finished do not begin.
std::string WholeProgress::enter(std::string_view step, uint64_t total, uint64_t done) {
  leave();
  const auto found = std::find_if(steps.begin() + ptrdiff_t(next), steps.end(),
                                  [&](const PlannedStep &one) { return one.label == step; });
  isKnown = found != steps.end();
  if (isKnown) {
    next = size_t(found - steps.begin()) + 1;
    found->chance = 1;
  }
  startNs = lastNs = now();
  startDone = lastDone = done;
  stepTotal = total;
  stepLeft.reset();
  return isKnown ? strCat("step ", next, " of ", stepCount(), ", ", step) : std::string(step);
}

void WholeProgress::begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) {
  const std::string name = enter(step, totalBytes, doneBytes);
  if (shown)
    shown->begin(name, totalBytes, doneBytes);
}

void WholeProgress::beginCounting(std::string_view step, std::string_view units, uint64_t each,
                                  uint64_t total, uint64_t done) {
  const std::string name = enter(step, total, done);
  if (shown)
    shown->beginCounting(name, units, each, total, done);
}

// The step's own rate counts as much as the part of it that is done, and all from a quarter on.
double WholeProgress::leftOfStep(uint64_t done) const {
  if (stepLeft)
    return *stepLeft;
  const auto todo = double(stepTotal - std::min(startDone, stepTotal));
  const double fraction = todo > 0 ? double(done - startDone) / todo : 1;
  const double planned = pace() * plannedOfStep(stepTotal - std::min(done, stepTotal));
  if (!(fraction > 0))
    return planned;
  const double byRate = double(now() - startNs) / kSecondNs / fraction * (1 - fraction);
  const double weight = steps[next - 1].seconds ? std::min(1.0, 4 * fraction) : 1;
  return weight * byRate + (1 - weight) * planned;
}

void WholeProgress::move(uint64_t done, bool isRestored) {
  const uint64_t time = now();
  if (isRestored) { // Neither it nor its time counts as speed.
    startDone += done - std::min(done, lastDone);
    startNs += time - lastNs;
  }
  lastDone = done;
  lastNs = time;
  if (!shown)
    return;
  if (const std::optional<double> later = secondsLeft(); later && isKnown)
    shown->expectEnd(leftOfStep(std::max(done, startDone)) + pace() * *later);
  if (isRestored)
    shown->restoreTo(done);
  else
    shown->advanceTo(done);
}

void WholeProgress::end() {
  leave();
  if (shown)
    shown->end();
}

} // namespace moec
