#include "runtime/text/tokenizer/Regex.h"

#include "runtime/base/Excerpt.h"
#include "runtime/text/tokenizer/RegexTranslator.h"

#include <algorithm>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace moert {

RegexScratch::RegexScratch()
    : matchData(pcre2_match_data_create(1, nullptr)),
      matchContext(pcre2_match_context_create(nullptr)) {
  constexpr uint32_t kMaxHeapKib = 512 << 10; // PCRE2's own limit is 20 GB.
  if (matchContext)
    pcre2_set_heap_limit(matchContext, kMaxHeapKib);
}

RegexScratch::~RegexScratch() {
  pcre2_jit_stack_free(jitStack);
  pcre2_match_data_free(matchData);
  pcre2_match_context_free(matchContext);
}

Result<Regex> Regex::compile(std::string_view pattern) {
  Result<std::string> translated = translatePattern(pattern);
  if (!translated.isOk())
    return invalidInput("the regular expression ", excerpt(pattern),
                        " is not supported: ", translated.status().message());
  int error = 0;
  PCRE2_SIZE errorOffset = 0;
  // Multi-line, because Oniguruma's $ matches before every line break.
  pcre2_code *code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &errorOffset, nullptr);
  if (!code) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return invalidInput("the regular expression ", excerpt(pattern),
                        " does not compile: ", reinterpret_cast<const char *>(message));
  }
  uint32_t matchesEmpty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matchesEmpty);
  if (matchesEmpty != 0) {
    pcre2_code_free(code);
    return invalidInput("the regular expression ", excerpt(pattern),
                        " is not supported: it can match nothing");
  }
  // If the system allows no executable memory, the interpreter gives the same matches.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(code);
}

Regex::Regex(Regex &&other) noexcept : code(std::exchange(other.code, nullptr)) {}

Regex &Regex::operator=(Regex &&other) noexcept {
  std::swap(code, other.code);
  return *this;
}

Regex::~Regex() {
  pcre2_code_free(code);
}

Result<RegexMatch> RegexScratch::find(const pcre2_code *code, std::string_view text, size_t from) {
  if (!matchData || !matchContext)
    return failed("no memory for a regular expression");
  // Every published pattern needs a few steps per byte and start; the rest is a wide margin.
  uint64_t limit = 100000 + 100 * (uint64_t{text.size()} - from);
  pcre2_set_match_limit(matchContext, static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  auto match = [&](uint32_t options) {
    return pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | options, matchData,
                       matchContext);
  };
  int count = match(0);
  if (count == PCRE2_ERROR_JIT_STACKLIMIT && !jitStack) {
    // A repeated intersection of classes needs some bytes for each character of a word; the
    // interpreter would need 300.
    constexpr size_t kFirstBytes = 32 << 10;
    constexpr size_t kMaxBytes = 256 << 20;
    jitStack = pcre2_jit_stack_create(kFirstBytes, kMaxBytes, nullptr);
    pcre2_jit_stack_assign(matchContext, nullptr, jitStack);
    count = match(0);
  }
  if (count == PCRE2_ERROR_JIT_STACKLIMIT)
    count = match(PCRE2_NO_JIT);
  if (count == PCRE2_ERROR_NOMATCH)
    return RegexMatch();
  if (count < 0)
    return invalidInput("the text cannot be split into words: PCRE2 failed with code ", count);
  const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(matchData);
  return RegexMatch{bounds[1] > bounds[0], bounds[0], bounds[1]};
}

uint64_t Regex::memoryBytes() const {
  size_t size = 0;
  size_t jitSize = 0;
  pcre2_pattern_info(code, PCRE2_INFO_SIZE, &size);
  pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &jitSize);
  return uint64_t{size} + jitSize;
}

} // namespace moert
