// A model of 5 tokens for tests: what follows depends on the last token alone.
#pragma once

#include "runtime/evaluation/PairedPass.h"

#include <cmath>
#include <map>
#include <vector>

namespace moert {

class TableSource : public LogitsSource {
public:
  uint32_t vocabularySize() const override { return vocabulary; }
  void reset() override {
    tokens.clear();
    ++resets;
  }
  Status beginUnit() override {
    ++units;
    return {};
  }
  Status append(std::span<const int32_t> appended, const TakeRow &takeRow) override {
    for (uint32_t i = 0; i < appended.size(); ++i) {
      tokens.push_back(appended[i]);
      if (!takeRow)
        continue;
      std::vector<float> row(vocabulary);
      for (auto [token, logit] : prefers[appended[i]])
        row[static_cast<size_t>(token)] = logit;
      if (appended[i] == brokenToken)
        row[0] = std::nanf("");
      ++rows;
      MOERT_RETURN_IF_ERROR(takeRow(i, row));
    }
    return {};
  }

  /// The logits after a token; those not named are 0.
  std::map<int32_t, std::map<int32_t, float>> prefers;
  int32_t brokenToken = -1; // Its logits contain NaN.
  uint32_t vocabulary = 5;
  std::vector<int32_t> tokens; // Since the last reset.
  size_t resets = 0, rows = 0, units = 0;
};

/// One that tells its tokens apart; each seed is another model.
inline TableSource tableModel(uint32_t seed) {
  TableSource model;
  for (int32_t token = 0; token < 5; ++token)
    for (int32_t next = 0; next < 5; ++next)
      model.prefers[token][next] = float((token * 7 + next * 3 + int32_t(seed)) % 11) * 0.37f;
  return model;
}

} // namespace moert
