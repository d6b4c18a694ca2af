// How experts in memory are exchanged for more important ones while a model decodes.
#pragma once

#include "runtime/base/Describe.h"

#include <cstdint>

namespace moert {

constexpr uint8_t kMostFadeShift = 11; // Sums of importances have room for it.

/// Numbers of one plan, for all of its layers. Tokens are decode steps.
struct ExchangeRule {
  /// Each layer exchanges one expert in so many tokens, the layers in turn; 0: none.
  uint32_t everyTokens = 0;
  /// The more important expert takes part from the layer's turn so many tokens later: at least 1,
  /// at most everyTokens. Until then it is being read.
  uint32_t afterTokens = 1;
  /// A token takes 1/2^fadeShift of what an expert's importance was: 1 to kMostFadeShift. Half of
  /// it is forgotten in about 0.7 * 2^fadeShift tokens.
  uint8_t fadeShift = 6;

  template <typename Self, typename Visit> static void describe(Self &rule, Visit &&visit) {
    visit("every_tokens"_field, rule.everyTokens);
    visit("after_tokens"_field, rule.afterTokens);
    visit("fade_shift"_field, rule.fadeShift, within(1, kMostFadeShift));
  }
  bool operator==(const ExchangeRule &) const = default;

  bool exchanges() const { return everyTokens > 0; }
};

} // namespace moert
