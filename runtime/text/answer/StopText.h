// Finds stop texts in text that arrives in pieces, and holds back text that could be the start of
// one. The result does not depend on how the text is cut into pieces: the stop text that is
// complete first ends the text, the longest one if several end at the same byte.
//
// Special tokens have text that is not shown ("<|im_end|>"). A stop text is searched in the shown
// text alone, and in the text that includes the special tokens.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Owned by one sequence, used by one thread. feed() allocates nothing once `shown` has room.
class StopText {
public:
  /// Refuses an empty stop text. Without any stop text, everything is shown at once.
  static Result<StopText> create(std::vector<std::string> texts);

  /// Appends to `shown` the text that cannot belong to a stop text. Returns true once a stop text
  /// is complete; from then on nothing is shown.
  bool feed(std::string_view piece, std::string &shown);

  /// The same for text that can belong to a stop text but is not shown.
  bool feedHidden(std::string_view piece, std::string &shown);

  /// Ends the text: shows the text that was held back, unless a stop text is complete. No stop text
  /// extends across this place.
  void flush(std::string &shown);

  /// Whether a stop text was found.
  bool isStopped() const { return isComplete; }

private:
  /// The Knuth-Morris-Pratt automaton of one stop text, which runs over two texts. A count is the
  /// length of the longest prefix of the stop text that the text so far ends with; below its
  /// length.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> borders; // [i]: the longest proper border of text's first i bytes.
    uint32_t matchedInShown = 0;   // In the shown text.
    uint32_t matchedInAll = 0;     // In the text that includes hidden pieces.

    void advance(char next, uint32_t &matched) const;
  };

  bool feedBytes(std::string_view piece, bool isShown, std::string &shown);
  bool feedByte(char next, bool isShown, std::string &shown);
  /// The number of shown bytes among the last `bytes` bytes; at most the longest stop text's.
  size_t shownAmongLast(size_t bytes) const;

  std::vector<Pattern> patterns;
  std::string held; // Shown bytes; ends with the bytes that any pattern has matched.
  /// A ring over the last positions of the text, indexed modulo its size: the number of shown bytes
  /// before each. Its size is one more than the bytes of the longest stop text.
  std::vector<uint64_t> shownBefore;
  uint64_t bytesSoFar = 0, shownSoFar = 0;
  bool isComplete = false;
};

} // namespace moert
