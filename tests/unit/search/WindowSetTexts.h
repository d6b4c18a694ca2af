// A set of windows as texts that evaluate() takes.
#pragma once

#include "compiler/search/SearchTexts.h"

#include <vector>

namespace moec {

inline std::vector<moert::TextWindows> textsOf(const WindowSet &set, uint32_t windowTokens) {
  std::vector<moert::TextWindows> texts;
  for (size_t text = 0; text < set.ids.size(); ++text) {
    texts.emplace_back().windowTokens = windowTokens;
    texts.back().tokens = set.ids[text];
    texts.back().units = set.units[text];
  }
  return texts;
}

} // namespace moec
