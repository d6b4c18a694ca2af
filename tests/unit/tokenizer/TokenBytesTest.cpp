#include "runtime/text/tokenizer/TokenBytes.h"

#include <doctest/doctest.h>

using namespace moert;

namespace {

DecoderStep stepOf(DecoderStep::Kind kind, std::string pattern = "", std::string content = "") {
  DecoderStep step;
  step.kind = kind;
  step.pattern = std::move(pattern);
  step.content = std::move(content);
  return step;
}

using Kind = DecoderStep::Kind;

} // namespace

TEST_CASE("a byte-level token is its bytes, also where they are a part of a character") {
  TokenizerPipeline pipeline;
  pipeline.decoders = {stepOf(Kind::kByteLevel)};
  CHECK(tokenBytes(pipeline, "\u0120the") == " the");
  CHECK(tokenBytes(pipeline, "\u00C3\u0142") == "\xC3\xA0");
  CHECK(tokenBytes(pipeline, "\u00C3") == "\xC3");
  CHECK(tokenBytes(pipeline, "\u20AC") == "\u20AC"); // Outside of the alphabet: an added token.
}

TEST_CASE("byte tokens are bytes, and marks of spaces are spaces, at the front too") {
  TokenizerPipeline pipeline;
  pipeline.decoders = {stepOf(Kind::kReplace, "\u2581", " "), stepOf(Kind::kByteFallback),
                       stepOf(Kind::kFuse), stepOf(Kind::kStrip, " ")};
  CHECK(tokenBytes(pipeline, "\u2581a\u2581") == " a ");
  CHECK(tokenBytes(pipeline, "<0x0A>") == "\n");
  CHECK(tokenBytes(pipeline, "<0xC3>") == "\xC3");
  CHECK(tokenBytes(pipeline, "<0xG0>") == "<0xG0>");
  CHECK(tokenBytes(pipeline, "<0x0A") == "<0x0A");
  TokenizerPipeline metaspace;
  metaspace.decoders = {stepOf(Kind::kMetaspace, "\u2581")};
  CHECK(tokenBytes(metaspace, "\u2581a") == " a");
}
