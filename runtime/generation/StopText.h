// Finds stop texts in text that arrives in pieces, and holds back what could be the start of one.
// The pieces' borders never change the result: the stop text that is complete first ends the text,
// the longest one if several end at the same byte.
//
// Special tokens have text that is not shown ("<|im_end|>"). A stop text is found in the shown text
// alone, and in the text with the special tokens' text in its places.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Owned by one sequence, used by one thread. Feeding allocates nothing once `shown` has room.
class StopText {
public:
  /// Refuses an empty stop text. Without any stop text, everything is shown at once.
  static Result<StopText> create(std::vector<std::string> texts);

  /// Appends to `shown` what certainly belongs to no stop text. True once a stop text is complete;
  /// from then on nothing is shown.
  bool feed(std::string_view piece, std::string &shown);

  /// The same for text that can belong to a stop text but is never shown.
  bool feedHidden(std::string_view piece, std::string &shown);

  /// Ends the text: shows what was held back, unless a stop text is complete. No stop text reaches
  /// from before this place to after it.
  void flush(std::string &shown);

  /// Whether a stop text was found.
  bool isStopped() const { return isComplete; }

private:
  /// The automaton of Knuth, Morris and Pratt for one stop text, which runs over two texts. A count
  /// is how many first bytes of the stop text the text so far ends with; below its length.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> borders; // Of text's first i bytes: the longest proper border's length.
    uint32_t matchedInShown = 0;   // In the shown text.
    uint32_t matchedInAll = 0;     // In the text with the hidden pieces.

    void advance(char next, uint32_t &matched) const;
  };

  bool feedBytes(std::string_view piece, bool isShown, std::string &shown);
  bool feedByte(char next, bool isShown, std::string &shown);
  /// How many of the last bytes, hidden ones included, are shown; at most the longest stop text's.
  size_t shownAmongLast(size_t bytes) const;

  std::vector<Pattern> patterns;
  std::string held; // Shown bytes; ends with those that any pattern has matched.
  /// Of the last places of the text, at their number modulo the size: how many shown bytes are
  /// before them. One more than the longest stop text has bytes.
  std::vector<uint64_t> shownBefore;
  uint64_t bytesSoFar = 0, shownSoFar = 0;
  bool isComplete = false;
};

} // namespace moert
