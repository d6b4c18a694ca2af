// Finds stop texts in text that arrives in pieces, and holds back what could be the start of one.
// Where the pieces are cut never changes the result: the stop text that is complete first ends the
// text, the longest of them where several end at the same byte.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Owned by one sequence, used by one thread. feed() does not allocate once `shown` has room.
class StopText {
public:
  /// Refuses an empty stop text. No stop texts at all is fine: everything is shown at once.
  static Result<StopText> create(std::vector<std::string> texts);

  /// Appends to `shown` what is certain not to belong to a stop text. True once one is complete;
  /// from then on nothing is shown.
  bool feed(std::string_view piece, std::string &shown);

  /// The end of the text: shows what was held back.
  void flush(std::string &shown);

private:
  /// Knuth, Morris and Pratt's automaton of one stop text.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> borders; // Of text's first i bytes: the longest proper border's length.
    uint32_t matched = 0; // Bytes of text that the text so far ends with; below its length.

    void advance(char next);
  };

  bool feedByte(char next, std::string &shown);

  std::vector<Pattern> patterns;
  std::string held; // Ends with the matched bytes of every pattern.
  bool isComplete = false;
};

} // namespace moert
