// Acceptance tests: what a search may ask about the text that its result is accepted on, and at
// which levels. docs/accuracy.md derives that the answers stay valid although the search adapts.
//
// A test checks if the upper bound of a candidate's loss meets the target; the result is yes or no.
// Tests come in chains. A chain goes from candidates that are safe to candidates that are cheap and
// ends with the first test that fails. Everything else that chooses a candidate is known from the
// search's own text, so there is one way through a chain, and all its tests may have the same
// level: a wrong acceptance takes one particular test, that of the chain's first candidate that
// loses too much. The reserve chain exists for texts that are harsher than the search's: it runs
// only if the very first test of the main chain failed, and its level is its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace moec {

enum class AcceptanceChain : uint8_t { kMain, kReserve };

/// The probability with which a chain may accept a candidate that exceeds the target.
struct AcceptanceLevels {
  double main = 0, reserve = 0;

  double of(AcceptanceChain chain) const {
    return chain == AcceptanceChain::kMain ? main : reserve;
  }
  /// The confidence of the bound that a test compares with the target.
  double confidence(AcceptanceChain chain) const { return 1 - of(chain); }
};

/// The same probability for all compiles together that test a checkpoint on a text.
constexpr double kAcceptanceError = 0.05;
/// The most compiles on one text; then another text is needed.
constexpr uint32_t kMaxCompilesOfText = 9;
/// Whoever starts a later compile has seen scores of the earlier ones. Its levels hold for the
/// worst of so many targets, or other options, among which those scores have decided.
constexpr uint32_t kChoicesOfLaterCompile = 5;

/// No bound is computed beyond 99.99%.
constexpr double kLeastError = 0.0001;

/// The levels of a compile by its number on a text, from 1. The first one gets nearly everything:
/// 4% + 8 * 5 * 0.025% = 5%. Nothing beyond the last.
std::optional<AcceptanceLevels> acceptanceLevels(uint32_t compile);

/// The thresholds of a chain, ascending: what a candidate's predicted bound has to meet.
/// `center` is the threshold that the prediction itself suggests. `spread` is the standard error of
/// the prediction, relative to it; absent where the search measures another loss than the tests,
/// and the center is only an estimate.
std::vector<double> chainThresholds(AcceptanceChain chain, double center,
                                    std::optional<double> spread);

} // namespace moec
