// The reference's logits on the windows that a search measures again and again: written once,
// played back beside every candidate. As f32, so that a played back row scores exactly like a
// computed one.
#pragma once

#include "runtime/engine/Evaluation.h"

#include <cstdint>
#include <memory>
#include <string>

namespace moec {

/// A source that has a place for each window. Several may share a file, each at a window of its
/// own.
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
  ~RecordingLogits() override;

  uint32_t vocabularySize() const override { return source.vocabularySize(); }
  void seek(uint64_t window) override { firstRow = window * windowTokens; }
  void reset() override;
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  RecordingLogits(moert::LogitsSource &recorded, int opened, std::string name, uint32_t tokens)
      : source(recorded), file(opened), path(std::move(name)), windowTokens(tokens) {}

  moert::LogitsSource &source;
  int file;
  std::string path;
  uint64_t windowTokens;
  uint64_t firstRow = 0; // Of the window.
  uint64_t position = 0; // In the window.
};

/// Plays the rows of a window back. One thread.
class PlayedLogits final : public WindowLogits {
public:
  static moert::Result<std::unique_ptr<PlayedLogits>>
  open(const std::string &path, uint32_t vocabularySize, uint32_t windowTokens);
  ~PlayedLogits() override;

  uint32_t vocabularySize() const override { return width; }
  void seek(uint64_t window) override { firstRow = window * windowTokens; }
  void reset() override { position = 0; }
  moert::Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override;

private:
  PlayedLogits(int opened, std::string name, uint32_t vocabulary, uint32_t tokens)
      : file(opened), path(std::move(name)), width(vocabulary), windowTokens(tokens) {}

  int file;
  std::string path;
  uint32_t width;
  uint64_t windowTokens;
  uint64_t firstRow = 0; // Of the window.
  uint64_t position = 0; // In the window.
  std::vector<float> row;
};

} // namespace moec
