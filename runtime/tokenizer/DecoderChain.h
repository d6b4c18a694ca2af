// The decoder list of a tokenizer as a stream: tokens in, text out as soon as it is certain.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TokenizerModel.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// One decoder. It gets tokens in parts: all parts of a token in order, the last one marked; parts
/// are whole characters. What it returns has the same form, appended to a list.
class DecoderStage {
public:
  struct Part {
    std::string text;
    bool endsToken;
  };

  virtual ~DecoderStage() = default;
  virtual void take(const Part &part, std::vector<Part> &out) = 0;
  /// No more tokens: gives out what was held back and starts anew.
  virtual void finish(std::vector<Part> &out) = 0;
};

/// Refuses a list by which a text could grow beyond all bounds (only a hostile file has one).
Status checkDecoders(std::span<const DecoderStep> steps);

/// All decoders of a pipeline in a row, behind them the plain joining of all tokens. Owned by one
/// thread.
class DecoderChain {
public:
  explicit DecoderChain(const TokenizerPipeline &pipeline);

  /// Appends the text that this token makes certain.
  void take(std::string_view token, std::string &out);

  /// Appends the rest; the next take() starts a new text.
  void finish(std::string &out);

private:
  void runFrom(size_t stage, std::vector<DecoderStage::Part> parts, std::string &out);

  std::vector<std::unique_ptr<DecoderStage>> stages;
};

} // namespace moert
