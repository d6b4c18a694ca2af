// The reference's logits on the windows that a search measures again and again: written once,
// played back beside every candidate. As f32, so that a played back row scores exactly like a
// computed one.
#pragma once

#include "runtime/engine/Evaluation.h"

#include <cstdint>
#include <memory>
#include <string>

namespace moec {

/// Passes another source's rows on and writes them to a file. Borrows the other source. One thread.
class RecordingLogits final : public moert::LogitsSource {
public:
  static moert::Result<std::unique_ptr<RecordingLogits>> create(moert::LogitsSource &source,
                                                                const std::string &path);
  ~RecordingLogits() override;

  uint32_t vocabularySize() const override { return source.vocabularySize(); }
  void reset() override { source.reset(); }
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  RecordingLogits(moert::LogitsSource &recorded, int opened, std::string name)
      : source(recorded), file(opened), path(std::move(name)) {}

  moert::LogitsSource &source;
  int file;
  std::string path;
};

/// Plays rows back: window after window from the first, in the order of the recording. One thread.
class PlayedLogits final : public moert::LogitsSource {
public:
  static moert::Result<std::unique_ptr<PlayedLogits>>
  open(const std::string &path, uint32_t vocabularySize, uint32_t windowTokens);
  ~PlayedLogits() override;

  uint32_t vocabularySize() const override { return width; }
  /// The next window.
  void reset() override;
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;
  /// Back to the first window.
  void rewind() { window = -1; }

private:
  PlayedLogits(int opened, std::string name, uint32_t vocabulary, uint32_t tokens)
      : file(opened), path(std::move(name)), width(vocabulary), windowTokens(tokens) {}

  int file;
  std::string path;
  uint32_t width;
  uint64_t windowTokens;
  int64_t window = -1;
  uint64_t position = 0; // In the window.
  std::vector<float> row;
};

} // namespace moec
