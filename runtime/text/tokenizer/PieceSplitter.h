// Turns the matches of a pattern into pieces, by the pre-tokenizer's split behaviour. For
// PreTokenizer.cpp and its tests.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

#include <cstddef>

namespace moert {

/// Receives the parts of a text in order, matches and the text between them, none of them empty,
/// and calls emit(begin, end) -> Status for each piece as soon as it is final. Call finish() at the
/// end.
template <typename Emit> class PieceSplitter {
public:
  PieceSplitter(SplitBehavior pieceBehavior, Emit pieceEmit)
      : behavior(pieceBehavior), emit(std::move(pieceEmit)) {}

  Status add(size_t begin, size_t end, bool isMatch) {
    if (behavior == SplitBehavior::kIsolated)
      return emit(begin, end);
    if (behavior == SplitBehavior::kRemoved)
      return isMatch ? Status() : emit(begin, end);
    bool joins = hasPending && joinsPending(isMatch);
    Status status;
    if (!joins) {
      status = finish();
      pendingBegin = begin;
    }
    pendingEnd = end;
    hasPending = true;
    previousIsMatch = isMatch;
    return status;
  }

  Status finish() {
    if (!hasPending)
      return {};
    hasPending = false;
    return emit(pendingBegin, pendingEnd);
  }

private:
  bool joinsPending(bool isMatch) const {
    switch (behavior) {
    case SplitBehavior::kMergedWithPrevious: // In a row of matches, the first joins the text
                                             // before.
      return isMatch && !previousIsMatch;
    case SplitBehavior::kMergedWithNext: // In a row of matches, the last joins the text after.
      return !isMatch && previousIsMatch;
    case SplitBehavior::kContiguous:
      return isMatch == previousIsMatch;
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      return false;
    }
    return false;
  }

  SplitBehavior behavior;
  Emit emit;
  bool hasPending = false;
  bool previousIsMatch = false;
  size_t pendingBegin = 0;
  size_t pendingEnd = 0;
};

} // namespace moert
