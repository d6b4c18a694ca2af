#include "runtime/text/tokenizer/TokenBytes.h"

#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/ByteAlphabet.h"

#include <charconv>

namespace moert {

/// Tokens outside of the alphabet are added ones, whose content is their text.
static std::string fromAlphabet(const std::string &text) {
  std::string bytes;
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint next = firstCodePoint(rest);
    rest.remove_prefix(next.length);
    const std::optional<unsigned char> byte = alphabetToByte(next.value);
    if (!byte)
      return text;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

/// "<0x0A>"
static std::string fromByteToken(const std::string &text) {
  unsigned byte = 0;
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>' ||
      std::from_chars(text.data() + 3, text.data() + 5, byte, 16).ptr != text.data() + 5)
    return text;
  return std::string(1, static_cast<char>(byte));
}

static std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string tokenBytes(const TokenizerPipeline &pipeline, std::string_view content) {
  std::string text(content);
  for (const DecoderStep &step : pipeline.decoders) {
    switch (step.kind) {
    case DecoderStep::Kind::kByteLevel:
      text = fromAlphabet(text);
      break;
    case DecoderStep::Kind::kByteFallback:
      text = fromByteToken(text);
      break;
    case DecoderStep::Kind::kReplace:
      text = replaced(std::move(text), step.pattern, step.content);
      break;
    case DecoderStep::Kind::kMetaspace:
      text = replaced(std::move(text), step.pattern, " ");
      break;
    case DecoderStep::Kind::kStrip:
    case DecoderStep::Kind::kFuse:
      break; // At the ends of a text; and joining changes no bytes.
    }
    if (!isValidUtf8(text))
      break; // A part of a character: no later decoder has anything to find in it.
  }
  return text;
}

} // namespace moert
