// Turns the matches of a pattern into pieces, by what the pre-tokenizer says of matches. For
// PreTokenizer.cpp and its tests.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TokenizerModel.h"

#include <cstddef>

namespace moert {

/// Feed it the parts of a text in order, matches and what lies between them, none of them empty; it
/// calls emit(begin, end) -> Status for each piece, as soon as the piece is certain. Call finish()
/// at the end.
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
    case SplitBehavior::kMergedWithPrevious: // Of a row of matches, the first joins what is before
                                             // it.
      return isMatch && !previousIsMatch;
    case SplitBehavior::kMergedWithNext: // And here the last one what is behind it.
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
