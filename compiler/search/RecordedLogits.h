// The reference's logits on windows that plans are measured on: recorded once and replayed beside
// every plan. Stored as f32, so that a replayed row scores exactly like a computed one: these rows
// enter bounds that are accepted. Those of a search do not (KeptRows.h).
#pragma once

#include "runtime/base/RandomFile.h"
#include "runtime/evaluation/Evaluation.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moec {

/// Passes another source's rows on and writes them to a file; each reset() begins the next window.
/// Borrows the other source. One thread.
class RecordingLogits final : public moert::LogitsSource {
public:
  /// Creates the file, or writes into one that is there.
  static moert::Result<std::unique_ptr<RecordingLogits>>
  create(moert::LogitsSource &source, const std::string &path, uint32_t windowTokens);
  uint32_t vocabularySize() const override { return source.vocabularySize(); }
  void reset() override;
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  RecordingLogits(moert::LogitsSource &recorded, moert::RandomFile opened, uint32_t tokens)
      : source(recorded), file(std::move(opened)), windowTokens(tokens) {}

  moert::LogitsSource &source;
  moert::RandomFile file;
  uint64_t windowTokens;
  uint64_t windows = 0;  // Begun so far.
  uint64_t position = 0; // The next row.
};

/// Replays the recorded rows; each reset() begins the next window. One thread.
class ReplayedLogits final : public moert::LogitsSource {
public:
  static moert::Result<std::unique_ptr<ReplayedLogits>>
  open(const std::string &path, uint32_t vocabularySize, uint32_t windowTokens);
  uint32_t vocabularySize() const override { return width; }
  void reset() override { position = windowTokens * windows++; }
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  ReplayedLogits(moert::RandomFile opened, uint32_t vocabulary, uint32_t tokens)
      : file(std::move(opened)), width(vocabulary), windowTokens(tokens) {}

  moert::RandomFile file;
  uint32_t width;
  uint64_t windowTokens;
  uint64_t windows = 0;  // Begun so far.
  uint64_t position = 0; // The next row.
  std::vector<float> row;
};

} // namespace moec
