// The regular expressions by which tokenizers split text, executed by PCRE2 with the meaning that
// they have in the reference package (Oniguruma, Unicode 16). A pattern is accepted if all of its
// syntax is translated (RegexTranslator.h): a table of the published patterns would need a change
// for every new model. What the engines read differently is refused by name, because it could give
// wrong ids silently, and so is a repetition of a repetition, which could run forever.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace moert {

/// GPT-2's pattern, which the pre-tokenizer ByteLevel uses.
extern const std::string_view kGpt2Pattern;
/// One numeric, white space or word character, as Rust's char and regex types define them (Unicode
/// 17, 17 and 16).
extern const std::string_view kNumericPattern;
extern const std::string_view kWhiteSpacePattern;
extern const std::string_view kWordPattern;

struct RegexMatch {
  bool found = false;
  size_t begin = 0;
  size_t end = 0; // Above begin if there is a match.
};

/// The scratch memory of matching. One per thread.
class RegexScratch {
public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch &) = delete;
  RegexScratch &operator=(const RegexScratch &) = delete;

  /// Regex::find() of a compiled pattern.
  Result<RegexMatch> find(const pcre2_real_code_8 *code, std::string_view text, size_t from);

private:
  pcre2_real_match_data_8 *matchData;
  pcre2_real_match_context_8 *matchContext;
  pcre2_real_jit_stack_8 *jitStack = nullptr; // Created when the default one is too small.
};

/// A compiled pattern. Movable; find() may be called from many threads, each with its own scratch.
class Regex {
public:
  /// For a pattern as spelled in tokenizer.json. Refuses syntax that is not translated and patterns
  /// that can match nothing, with a reason and the place in the pattern.
  static Result<Regex> compile(std::string_view pattern);

  Regex(Regex &&other) noexcept;
  Regex &operator=(Regex &&other) noexcept;
  ~Regex();

  /// The leftmost match that starts at `from` or later. text must be valid UTF-8 and must not
  /// change while it is searched from match to match. Fails if the work exceeds what real text
  /// needs.
  Result<RegexMatch> find(std::string_view text, size_t from, RegexScratch &scratch) const {
    return scratch.find(code, text, from);
  }

  uint64_t memoryBytes() const;

private:
  explicit Regex(pcre2_real_code_8 *compiled) : code(compiled) {}

  pcre2_real_code_8 *code;
};

} // namespace moert
