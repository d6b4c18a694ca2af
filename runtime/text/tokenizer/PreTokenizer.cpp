#include "runtime/text/tokenizer/PreTokenizer.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/ByteAlphabet.h"
#include "runtime/text/tokenizer/Normalizer.h"
#include "runtime/text/tokenizer/PieceSplitter.h"

namespace moert {

using Kind = PreTokenizerStep::Kind;

/// One call of run(): the buffers to which steps write changed text, two per step, because a step
/// is never re-entered before it has returned.
struct PreTokenizer::Run {
  RegexScratch &scratch;
  PieceSink &sink;
  std::vector<std::string> buffers;
};

namespace {

// The pattern that a step splits by; empty for none.
std::string_view patternOf(const PreTokenizerStep &step) {
  switch (step.kind) {
  case Kind::kByteLevel:
    return step.useRegex ? kGpt2Pattern : std::string_view();
  case Kind::kSplitRegex:
    return step.pattern;
  case Kind::kDigits:
    return kNumericPattern;
  case Kind::kWhitespaceSplit:
    return kWhiteSpacePattern;
  case Kind::kSplitText:
  case Kind::kMetaspace:
    return {};
  }
  return {};
}

SplitBehavior behaviorOf(const PreTokenizerStep &step) {
  switch (step.kind) {
  case Kind::kSplitRegex:
  case Kind::kSplitText:
    return step.behavior;
  case Kind::kDigits:
    return step.individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  case Kind::kMetaspace:
    return SplitBehavior::kMergedWithNext;
  case Kind::kWhitespaceSplit:
    return SplitBehavior::kRemoved;
  case Kind::kByteLevel:
    return SplitBehavior::kIsolated;
  }
  return SplitBehavior::kIsolated;
}

RegexMatch findText(std::string_view text, std::string_view pattern, size_t from) {
  size_t begin = text.find(pattern, from);
  if (begin == std::string_view::npos)
    return {};
  return {true, begin, begin + pattern.size()};
}

} // namespace

Result<PreTokenizer> PreTokenizer::make(std::vector<PreTokenizerStep> list) {
  PreTokenizer preTokenizer;
  size_t byteLevels = 0;
  for (PreTokenizerStep &step : list) {
    // Each one doubles non-ASCII text, so a list of them would make a text arbitrarily long.
    byteLevels += step.kind == Kind::kByteLevel ? 1 : 0;
    if (byteLevels > 1)
      return invalidInput("pre_tokenizer: found ByteLevel twice, expected at most once");
    // After a split, the reference package's internal state decides what counts as the front.
    if (step.kind == Kind::kMetaspace && step.prependScheme == PrependScheme::kFirst &&
        !preTokenizer.steps.empty())
      return invalidInput(
          "pre_tokenizer: found Metaspace with prepend_scheme 'first' after another "
          "step, expected it as the first step");
    Step compiled;
    if (step.kind == Kind::kSplitRegex || !patternOf(step).empty()) {
      Result<Regex> regex = Regex::compile(patternOf(step));
      if (!regex.isOk())
        return regex.status().withContext("pre_tokenizer");
      compiled.regex.push_back(std::move(*regex));
    }
    compiled.what = std::move(step);
    preTokenizer.steps.push_back(std::move(compiled));
  }
  return preTokenizer;
}

Status PreTokenizer::run(std::string_view text, bool atStart, RegexScratch &scratch,
                         PieceSink &sink) const {
  Run run{scratch, sink, std::vector<std::string>(2 * steps.size())};
  return runStep(run, 0, text, atStart);
}

uint64_t PreTokenizer::memoryBytes() const {
  uint64_t total = steps.capacity() * sizeof(Step);
  for (const Step &step : steps) {
    total += step.what.pattern.capacity();
    for (const Regex &regex : step.regex)
      total += regex.memoryBytes();
  }
  return total;
}

Status PreTokenizer::runStep(Run &run, size_t index, std::string_view text, bool atStart) const {
  if (text.empty())
    return {};
  if (index == steps.size())
    return run.sink.take(text);
  switch (steps[index].what.kind) {
  case Kind::kByteLevel:
    return runByteLevel(run, index, text, atStart);
  case Kind::kMetaspace:
    return runMetaspace(run, index, text, atStart);
  case Kind::kSplitRegex:
  case Kind::kSplitText:
  case Kind::kDigits:
  case Kind::kWhitespaceSplit:
    return runSplit(run, index, text, atStart);
  }
  return {};
}

// Splits text by the step's pattern and passes the pieces on, mapped to bytes for ByteLevel.
Status PreTokenizer::runSplit(Run &run, size_t index, std::string_view text, bool atStart) const {
  const Step &step = steps[index];
  bool invert = step.what.invert;
  auto emit = [&](size_t begin, size_t end) -> Status {
    std::string_view piece = text.substr(begin, end - begin);
    if (step.what.kind == Kind::kByteLevel) {
      std::string &mapped = run.buffers[2 * index + 1];
      mapped.clear();
      appendByteAlphabet(piece, mapped);
      piece = mapped;
    }
    return runStep(run, index + 1, piece, atStart && begin == 0);
  };
  PieceSplitter splitter(behaviorOf(step.what), emit);
  size_t position = 0;
  while (position < text.size()) {
    RegexMatch match;
    if (step.regex.empty()) {
      match = findText(text, step.what.pattern, position);
    } else {
      MOERT_ASSIGN_OR_RETURN(match, step.regex[0].find(text, position, run.scratch));
    }
    size_t begin = match.found ? match.begin : text.size();
    if (begin > position)
      MOERT_RETURN_IF_ERROR(splitter.add(position, begin, invert));
    if (!match.found)
      break;
    MOERT_RETURN_IF_ERROR(splitter.add(match.begin, match.end, !invert));
    position = match.end;
  }
  return splitter.finish();
}

Status PreTokenizer::runByteLevel(Run &run, size_t index, std::string_view text,
                                  bool atStart) const {
  const Step &step = steps[index];
  if (step.what.addPrefixSpace && text[0] != ' ') {
    std::string &prefixed = run.buffers[2 * index];
    prefixed.assign(1, ' ').append(text);
    text = prefixed;
  }
  if (!step.regex.empty())
    return runSplit(run, index, text, atStart);
  std::string &mapped = run.buffers[2 * index + 1];
  mapped.clear();
  appendByteAlphabet(text, mapped);
  return runStep(run, index + 1, mapped, atStart);
}

Status PreTokenizer::runMetaspace(Run &run, size_t index, std::string_view text,
                                  bool atStart) const {
  const PreTokenizerStep &step = steps[index].what;
  std::string &replaced = run.buffers[2 * index];
  replaced = replaceAll(text, " ", step.pattern);
  bool prepends = step.prependScheme == PrependScheme::kAlways ||
                  (step.prependScheme == PrependScheme::kFirst && atStart);
  if (prepends && !replaced.starts_with(step.pattern))
    replaced.insert(0, step.pattern);
  if (step.split)
    return runSplit(run, index, replaced, atStart);
  return runStep(run, index + 1, replaced, atStart);
}

} // namespace moert
