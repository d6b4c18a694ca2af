#include "compiler/accuracy/SearchProgress.h"

#include <algorithm>
#include <utility>

namespace moec {

constexpr double kSecondNs = 1e9;
/// Candidates that are measured before each acceptance test but the first.
constexpr uint64_t kCandidatesPerTest = 1;

uint64_t SearchWork::windows() const {
  uint64_t sum = 0;
  for (const Passes &one : passes)
    sum += one.count * one.windows;
  return sum;
}

uint64_t SearchWork::artifacts() const {
  return of(SearchPass::kCandidate).count + of(SearchPass::kAcceptance).count;
}

double secondsOf(const SearchWork &work, double referenceSeconds) {
  const auto windowsOf = [&](SearchPass pass) {
    return double(work.of(pass).count * work.of(pass).windows);
  };
  return referenceSeconds *
         (windowsOf(SearchPass::kReference) +
          kCandidateCost * (windowsOf(SearchPass::kCandidate) + windowsOf(SearchPass::kProbe)) +
          (kCandidateCost + (work.testsReference ? 1 : 0)) * windowsOf(SearchPass::kAcceptance));
}

SearchProgress::SearchProgress(Progress *told, const char *unit, const SearchWork &expectedWork,
                               moert::Clock clock)
    : progress(told), work(expectedWork), expected(expectedWork.windows()), now(clock),
      lastNs(clock()) {
  if (progress)
    progress->beginCounting(kMeasuringLosses, unit, 1, expected, 0);
}

SearchProgress::~SearchProgress() {
  if (progress)
    progress->end();
}

// A pass's time includes that of making its artifact.
void SearchProgress::takeTime() {
  const uint64_t time = now();
  current().ns += time - std::exchange(lastNs, time);
}

void SearchProgress::beginPass(SearchPass pass) {
  takeTime();
  ended += std::exchange(inPass, 0);
  kind = pass;
  ++current().passes;
}

void SearchProgress::advanceTo(uint64_t windowsOfPass) {
  takeTime();
  if (windowsOfPass < inPass) // The pass goes over a second set of windows.
    ended += std::exchange(inPass, 0);
  const uint64_t more = windowsOfPass - std::exchange(inPass, windowsOfPass);
  current().windows += more;
  current().timed += more;
  if (!progress)
    return;
  if (const std::optional<double> left = secondsLeft())
    progress->expectStepEnd(*left);
  progress->advanceTo(std::min(ended + inPass, expected));
}

void SearchProgress::restorePass(SearchPass pass, uint64_t windows) {
  beginPass(pass);
  lastNs = now();
  current().windows += windows;
  ended += windows;
  if (progress)
    progress->restoreTo(std::min(ended, expected));
}

std::optional<double> SearchProgress::seconds(SearchPass pass) const {
  // What is expected counts as half a pass: the first windows come after making an artifact.
  const auto rateOf = [&](std::initializer_list<SearchPass> passes,
                          std::optional<double> expectedRate) {
    uint64_t windows = 0, ns = 0;
    for (SearchPass one : passes) {
      windows += done[static_cast<size_t>(one)].timed;
      ns += done[static_cast<size_t>(one)].ns;
    }
    const double trust = expectedRate ? double(work.of(*passes.begin()).windows) / 2 : 0;
    const double all = trust + double(windows);
    return all > 0
               ? std::optional((double(ns) / kSecondNs + trust * expectedRate.value_or(0)) / all)
               : std::nullopt;
  };
  const std::optional<double> reference = rateOf({SearchPass::kReference}, std::nullopt);
  if (pass == SearchPass::kReference)
    return reference;
  const auto times = [](double factor, std::optional<double> rate) {
    return rate ? std::optional(factor * *rate) : rate;
  };
  const std::optional<double> candidate =
      rateOf({SearchPass::kCandidate, SearchPass::kProbe}, times(kCandidateCost, reference));
  if (pass != SearchPass::kAcceptance)
    return candidate;
  const double tested = work.testsReference ? reference.value_or(0) : 0;
  return rateOf({pass}, candidate ? std::optional(*candidate + tested) : candidate);
}

// Once a test has begun, only few candidates are measured between tests.
std::optional<double> SearchProgress::secondsLeft() const {
  const uint64_t tests = done[static_cast<size_t>(SearchPass::kAcceptance)].passes;
  double sum = 0;
  for (size_t i = 0; i < kSearchPasses; ++i) {
    const auto pass = static_cast<SearchPass>(i);
    uint64_t count = work.passes[i].count;
    if (tests > 0 && pass == SearchPass::kProbe)
      continue;
    if (tests > 0 && pass == SearchPass::kCandidate) {
      const uint64_t usual = work.of(SearchPass::kAcceptance).count;
      count = done[i].passes + kCandidatesPerTest * (usual - std::min(usual, tests));
    }
    count = std::max(count, done[i].passes);
    const uint64_t windows = count * work.passes[i].windows;
    if (windows <= done[i].windows)
      continue;
    const std::optional<double> each = seconds(pass);
    if (!each)
      return std::nullopt;
    sum += *each * double(windows - done[i].windows);
  }
  return sum;
}

} // namespace moec
