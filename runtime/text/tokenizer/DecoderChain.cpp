#include "runtime/text/tokenizer/DecoderChain.h"

#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/ByteAlphabet.h"

#include <algorithm>
#include <utility>

namespace moert {
namespace {

// Reassembles the parts of a token for the stages that need it whole. Tokens of the vocabulary are
// one part; only the text after ByteLevel and Fuse has many.
class WholeToken {
public:
  /// Returns the whole token if this part ends it.
  bool add(const TokenPart &part) {
    if (isComplete)
      token.clear();
    token += part.text;
    isComplete = part.endsToken;
    return isComplete;
  }
  const std::string &text() const { return token; }

private:
  std::string token;
  bool isComplete = true;
};

// Maps characters of the byte alphabet to bytes, joins all tokens to one text, and replaces broken
// UTF-8 by U+FFFD. A token with any other character is passed on unchanged.
class ByteLevelStage : public DecoderStage {
public:
  void take(const TokenPart &part, TokenParts &out) override {
    if (!whole.add(part))
      return;
    size_t mark = bytes.size();
    std::string_view token = whole.text();
    for (size_t i = 0; i < token.size();) {
      CodePoint character = firstCodePoint(token.substr(i));
      std::optional<unsigned char> byte = alphabetToByte(character.value);
      if (!byte) {
        bytes.resize(mark);
        bytes += token;
        break;
      }
      bytes.push_back(static_cast<char>(*byte));
      i += character.length;
    }
    emit(false, out);
  }

  void finish(TokenParts &out) override { emit(true, out); }
  bool holdsText() const override { return !bytes.empty(); }

private:
  void emit(bool atEnd, TokenParts &out) {
    size_t heldBack = appendLossyUtf8(bytes, atEnd, out.add(atEnd));
    bytes.erase(0, bytes.size() - heldBack);
  }

  WholeToken whole;
  std::string bytes; // Held back: the start of a character.
};

// The byte of <0xHH>. Accepts a plus sign as a digit, because Rust's parser, which the reference
// package uses, does.
std::optional<char> byteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>')
    return std::nullopt;
  auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  int high = token[3] == '+' ? 0 : digit(token[3]);
  int low = digit(token[4]);
  if (high < 0 || low < 0)
    return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// A row of consecutive byte tokens becomes its text, or one U+FFFD for each byte if the row is not
// valid UTF-8. Only the whole row decides, so it is held back until it ends.
class WholeByteRowStage : public DecoderStage {
public:
  void take(const TokenPart &part, TokenParts &out) override {
    if (!whole.add(part))
      return;
    if (std::optional<char> byte = byteOfToken(whole.text())) {
      row.push_back(*byte);
      return;
    }
    finish(out);
    out.add(true) = whole.text();
  }

  void finish(TokenParts &out) override {
    if (isValidUtf8(row)) {
      if (!row.empty())
        out.add(true) = row;
    } else {
      for (size_t i = 0; i < row.size(); ++i)
        out.add(true) = kReplacementCharacter;
    }
    row.clear();
  }

  bool holdsText() const override { return !row.empty(); }

private:
  WholeToken whole;
  std::string row;
};

// The same, one character at a time: a character is passed on with its last byte. From the first
// byte that belongs to no character on, each byte of the row is one U+FFFD, as in a whole invalid
// row.
class StreamedByteRowStage : public DecoderStage {
public:
  void take(const TokenPart &part, TokenParts &out) override {
    if (!whole.add(part))
      return;
    if (std::optional<char> byte = byteOfToken(whole.text())) {
      takeByte(*byte, out);
      return;
    }
    finish(out);
    out.add(true) = whole.text();
  }

  void finish(TokenParts &out) override {
    if (!character.empty())
      becomeInvalid(out);
    endToken(out);
    isInvalid = false;
  }

  bool holdsText() const override { return !character.empty(); }

private:
  void takeByte(char byte, TokenParts &out) {
    character.push_back(byte);
    const Utf8Kind kind = isInvalid ? Utf8Kind::kInvalid : nextUtf8(character).kind;
    if (kind == Utf8Kind::kInvalid) {
      becomeInvalid(out);
    } else if (kind == Utf8Kind::kValid) {
      out.add(false) = character; // All valid characters of a row are one token.
      isTokenOpen = true;
      character.clear();
    }
  }

  void becomeInvalid(TokenParts &out) {
    endToken(out);
    for (size_t i = 0; i < character.size(); ++i)
      out.add(true) = kReplacementCharacter;
    character.clear();
    isInvalid = true;
  }

  void endToken(TokenParts &out) {
    if (isTokenOpen)
      out.add(true);
    isTokenOpen = false;
  }

  WholeToken whole;
  std::string character; // Its first bytes; at most three.
  bool isTokenOpen = false;
  bool isInvalid = false; // A byte of the row belonged to no character.
};

// Replaces a text. In a token that is still growing, a possible start of a match is held back.
class ReplaceStage : public DecoderStage {
public:
  ReplaceStage(std::string searched, std::string replacement)
      : pattern(std::move(searched)), content(std::move(replacement)) {}

  void take(const TokenPart &part, TokenParts &out) override {
    pending += part.text;
    std::string &text = out.add(part.endsToken);
    size_t begin = 0;
    for (size_t match; (match = pending.find(pattern, begin)) != std::string::npos;
         begin = match + pattern.size())
      text.append(pending, begin, match - begin).append(content);
    size_t keep = part.endsToken ? 0 : startOfMatchAtEnd(begin);
    text.append(pending, begin, pending.size() - keep - begin);
    pending.erase(0, pending.size() - keep);
  }

  void finish(TokenParts &) override { pending.clear(); }
  bool holdsText() const override { return !pending.empty(); }

private:
  // The number of bytes at the end of pending, from begin on, that are a prefix of the pattern.
  size_t startOfMatchAtEnd(size_t begin) const {
    size_t length = std::min(pattern.size() - 1, pending.size() - begin);
    while (length > 0 && pending.compare(pending.size() - length, length, pattern, 0, length) != 0)
      --length;
    return length;
  }

  std::string pattern;
  std::string content;
  std::string pending;
};

// Removes up to `start` characters from the front of each token and up to `stop` from its end.
class StripStage : public DecoderStage {
public:
  explicit StripStage(const DecoderStep &step)
      : character(step.pattern), start(step.start), stop(step.stop), leftToStrip(step.start) {}

  void take(const TokenPart &part, TokenParts &out) override {
    std::string_view text = part.text;
    while (leftToStrip > 0 && !text.empty()) {
      if (!text.starts_with(character)) {
        leftToStrip = 0;
        break;
      }
      text.remove_prefix(character.size());
      --leftToStrip;
    }
    std::string &all = out.add(part.endsToken);
    for (size_t i = 0; i < heldBack; ++i)
      all += character;
    all += text;
    heldBack = std::min(countAtEnd(all), stop);
    all.resize(all.size() - heldBack * character.size());
    if (part.endsToken)
      reset();
  }

  void finish(TokenParts &) override { reset(); }
  bool holdsText() const override { return heldBack > 0; }

private:
  void reset() {
    leftToStrip = start;
    heldBack = 0;
  }

  size_t countAtEnd(std::string_view text) const {
    size_t count = 0;
    for (; text.ends_with(character); ++count)
      text.remove_suffix(character.size());
    return count;
  }

  std::string character;
  size_t start;
  size_t stop;
  size_t leftToStrip;  // At the front of the growing token.
  size_t heldBack = 0; // Characters at its end that are removed if nothing follows.
};

// Joins all tokens to one.
class FuseStage : public DecoderStage {
public:
  void take(const TokenPart &part, TokenParts &out) override { out.add(false) = part.text; }
  void finish(TokenParts &out) override { out.add(true); }
};

// Replaces the replacement character by a space, in the first token by nothing.
class MetaspaceStage : public DecoderStage {
public:
  explicit MetaspaceStage(const DecoderStep &step)
      : character(step.pattern), dropsFirst(step.prependScheme != PrependScheme::kNever),
        isFirst(true) {}

  void take(const TokenPart &part, TokenParts &out) override {
    std::string &result = out.add(part.endsToken);
    std::string_view text = part.text;
    while (!text.empty()) {
      size_t length = utf8Length(text[0]);
      if (text.substr(0, length) != character)
        result += text.substr(0, length);
      else if (!isFirst || !dropsFirst)
        result += ' ';
      text.remove_prefix(length);
    }
    isFirst &= !part.endsToken;
  }

  void finish(TokenParts &) override { isFirst = true; }

private:
  std::string character;
  bool dropsFirst;
  bool isFirst;
};

// Without a decoder: tokens are joined with spaces.
class JoinStage : public DecoderStage {
public:
  void take(const TokenPart &part, TokenParts &out) override {
    out.add(true).append(isFirst ? "" : " ").append(part.text);
    isFirst = false;
  }
  void finish(TokenParts &) override { isFirst = true; }

private:
  bool isFirst = true;
};

std::unique_ptr<DecoderStage> makeStage(const DecoderStep &step, ByteRows byteRows) {
  using Kind = DecoderStep::Kind;
  switch (step.kind) {
  case Kind::kByteLevel:
    return std::make_unique<ByteLevelStage>();
  case Kind::kByteFallback:
    if (byteRows == ByteRows::kStreamed)
      return std::make_unique<StreamedByteRowStage>();
    return std::make_unique<WholeByteRowStage>();
  case Kind::kReplace:
    return std::make_unique<ReplaceStage>(step.pattern, step.content);
  case Kind::kStrip:
    return std::make_unique<StripStage>(step);
  case Kind::kMetaspace:
    return std::make_unique<MetaspaceStage>(step);
  case Kind::kFuse:
    break;
  }
  return std::make_unique<FuseStage>();
}

} // namespace

Status checkDecoders(std::span<const DecoderStep> steps) {
  constexpr uint64_t kMaxGrowth = 4096;
  constexpr size_t kMaxContentBytes = 1024;
  constexpr uint32_t kMaxStrip = 1024;
  uint64_t growth = 1;
  for (const DecoderStep &step : steps) {
    if (step.start > kMaxStrip || step.stop > kMaxStrip)
      return invalidInput("decoder: found Strip of ", step.start, " and ", step.stop,
                          " characters, expected at most ", kMaxStrip);
    if (step.kind != DecoderStep::Kind::kReplace)
      continue;
    growth *= 1 + step.content.size() / step.pattern.size();
    if (step.content.size() > kMaxContentBytes || growth > kMaxGrowth)
      return invalidInput("decoder: found replacements that can grow a text more than ", kMaxGrowth,
                          " times or are longer than ", kMaxContentBytes, " bytes");
  }
  return {};
}

DecoderChain::DecoderChain(const TokenizerPipeline &pipeline, ByteRows byteRows) {
  if (!pipeline.hasDecoder)
    stages.push_back(std::make_unique<JoinStage>());
  for (const DecoderStep &step : pipeline.decoders)
    stages.push_back(makeStage(step, byteRows));
}

std::string &TokenParts::add(bool endsToken) {
  if (count == slots.size())
    slots.emplace_back();
  TokenPart &part = slots[count++];
  part.text.clear();
  part.endsToken = endsToken;
  return part.text;
}

void DecoderChain::take(std::string_view token, std::string &out) {
  parts.clear();
  parts.add(true) = token;
  runFrom(0, out);
}

void DecoderChain::finish(std::string &out) {
  for (size_t i = 0; i < stages.size(); ++i) {
    parts.clear();
    stages[i]->finish(parts);
    runFrom(i + 1, out);
  }
}

bool DecoderChain::holdsText() const {
  return std::any_of(stages.begin(), stages.end(),
                     [](const auto &stage) { return stage->holdsText(); });
}

void DecoderChain::runFrom(size_t stage, std::string &out) {
  for (; stage < stages.size(); ++stage) {
    next.clear();
    for (const TokenPart &part : parts.parts())
      stages[stage]->take(part, next);
    std::swap(parts, next);
  }
  for (const TokenPart &part : parts.parts())
    out += part.text;
}

} // namespace moert
