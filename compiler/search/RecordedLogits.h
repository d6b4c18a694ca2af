// The reference's logits on the windows that a search measures repeatedly: recorded once and
// replayed beside every candidate. Stored as f32, so that a replayed row scores exactly like a
// computed one.
#pragma once

#include "runtime/base/RandomFile.h"
#include "runtime/evaluation/Evaluation.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moec {

/// A source with a fixed place in a file for each window. Several sources may share a file, each at
/// another window.
class WindowLogits : public moert::LogitsSource {
public:
  /// The window, counted from 0, that the next tokens belong to.
  virtual void seek(uint64_t window) = 0;
};

/// Passes another source's rows on and writes them to a file. Borrows the other source. One thread.
class RecordingLogits final : public WindowLogits {
public:
  /// Creates the file, or writes into one that is there.
  static moert::Result<std::unique_ptr<RecordingLogits>>
  create(moert::LogitsSource &source, const std::string &path, uint32_t windowTokens);
  uint32_t vocabularySize() const override { return source.vocabularySize(); }
  void seek(uint64_t window) override { firstRow = window * windowTokens; }
  void reset() override;
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  RecordingLogits(moert::LogitsSource &recorded, moert::RandomFile opened, uint32_t tokens)
      : source(recorded), file(std::move(opened)), windowTokens(tokens) {}

  moert::LogitsSource &source;
  moert::RandomFile file;
  uint64_t windowTokens;
  uint64_t firstRow = 0; // First row of the window.
  uint64_t position = 0; // In the window.
};

/// Replays the recorded rows of a window. One thread.
class ReplayedLogits final : public WindowLogits {
public:
  static moert::Result<std::unique_ptr<ReplayedLogits>>
  open(const std::string &path, uint32_t vocabularySize, uint32_t windowTokens);
  uint32_t vocabularySize() const override { return width; }
  void seek(uint64_t window) override { firstRow = window * windowTokens; }
  void reset() override { position = 0; }
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  ReplayedLogits(moert::RandomFile opened, uint32_t vocabulary, uint32_t tokens)
      : file(std::move(opened)), width(vocabulary), windowTokens(tokens) {}

  moert::RandomFile file;
  uint32_t width;
  uint64_t windowTokens;
  uint64_t firstRow = 0; // First row of the window.
  uint64_t position = 0; // In the window.
  std::vector<float> row;
};

} // namespace moec
