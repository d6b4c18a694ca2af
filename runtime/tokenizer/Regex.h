// The regular expressions by which tokenizers cut text, run by PCRE2 with the meaning that they
// have in the reference package (Oniguruma, Unicode 16). Only known patterns are accepted: a
// tokenizer whose pattern nobody compared would give wrong ids in silence, and an arbitrary one
// could run for ever.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace moert {

/// Whether a pattern, as tokenizer.json spells it, is accepted: one of the published ones below, or
/// one character class, perhaps behind an optional space and repeated, whose meaning cannot differ.
bool isKnownPattern(std::string_view pattern);

/// GPT-2's, which pre-tokenizer ByteLevel uses.
extern const std::string_view kGpt2Pattern;
/// One numeric character, one white space character and one word character, as Rust's char and
/// regex types see them (Unicode 17, 17 and 16).
extern const std::string_view kNumericPattern;
extern const std::string_view kWhiteSpacePattern;
extern const std::string_view kWordPattern;

/// The scratch memory of matching. One for each thread.
class RegexScratch {
public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch &) = delete;
  RegexScratch &operator=(const RegexScratch &) = delete;

private:
  friend class Regex;
  pcre2_real_match_data_8 *matchData;
  pcre2_real_match_context_8 *matchContext;
};

struct RegexMatch {
  bool found = false;
  size_t begin = 0;
  size_t end = 0; // Above begin if found.
};

/// A compiled pattern. Movable; find() may be called from many threads, each with its own scratch.
class Regex {
public:
  /// For a pattern that isKnownPattern() accepts or one of the constants above.
  static Result<Regex> compile(std::string_view pattern);

  Regex(Regex &&other) noexcept;
  Regex &operator=(Regex &&other) noexcept;
  ~Regex();

  /// The leftmost match that starts at from or later. text is valid UTF-8 and stays the same while
  /// a text is searched from match to match. Fails when the work outgrows what any real text needs.
  Result<RegexMatch> find(std::string_view text, size_t from, RegexScratch &scratch) const;

  uint64_t memoryBytes() const;

private:
  explicit Regex(pcre2_real_code_8 *compiled) : code(compiled) {}

  pcre2_real_code_8 *code;
};

} // namespace moert
