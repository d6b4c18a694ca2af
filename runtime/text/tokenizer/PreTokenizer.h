// Splits normalized text into the pieces that the model encodes one by one.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Regex.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

#include <span>
#include <string>
#include <vector>

namespace moert {

/// Receives the pieces of a text in order. A piece is valid only during the call.
class PieceSink {
public:
  virtual Status take(std::string_view piece) = 0;

protected:
  ~PieceSink() = default; // Never destroyed through this class.
};

/// The pre-tokenizer list of a tokenizer, compiled. Movable; run() may be called from many threads.
class PreTokenizer {
public:
  /// Refuses unknown regular expressions and lists that no real tokenizer has.
  static Result<PreTokenizer> make(std::vector<PreTokenizerStep> list);

  /// Passes the pieces of text to sink, none of them empty. atStart: text is at the very front of
  /// the user's text.
  Status run(std::string_view text, bool atStart, RegexScratch &scratch, PieceSink &sink) const;

  uint64_t memoryBytes() const;

private:
  struct Run;
  struct Step {
    PreTokenizerStep what;
    std::vector<Regex> regex; // One or none.
  };

  Status runStep(Run &run, size_t index, std::string_view text, bool atStart) const;
  Status runSplit(Run &run, size_t index, std::string_view text, bool atStart) const;
  Status runByteLevel(Run &run, size_t index, std::string_view text, bool atStart) const;
  Status runMetaspace(Run &run, size_t index, std::string_view text, bool atStart) const;

  std::vector<Step> steps;
};

} // namespace moert
