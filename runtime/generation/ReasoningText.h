// Separates an answer's reasoning from the answer, while both are generated. Recognized are
//
//   <think> ... </think>     DeepSeek-R1, GLM-4.5, Hunyuan, MiniMax-M2, Qwen3 and many others
//   [THINK] ... [/THINK]     Mistral's reasoning models
//   the channels of gpt-oss  <|channel|>analysis<|message|> ... <|end|>
//
// The first two begin reasoning only where nothing but white space came before: an answer may
// mention them. White space at the end of reasoning and after it belongs to neither.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace moert {

enum class AnswerPart { kAnswer, kReasoning };

/// Owned by one answer, used by one thread.
class ReasoningText {
public:
  /// Receives text; markers are not among it.
  using Emit = std::function<void(AnswerPart part, std::string_view text)>;

  /// prompt: what the answer continues. Some templates end it with the marker that begins
  /// reasoning.
  explicit ReasoningText(std::string_view prompt);

  /// Text that is shown if it is not part of a marker. Emits what no marker can begin with.
  void feed(std::string_view text, const Emit &emit) { feedBytes(text, true, emit); }
  /// The content of a special token, which is never shown but can be part of a marker.
  void feedSpecial(std::string_view content, const Emit &emit) { feedBytes(content, false, emit); }
  /// The end of the answer: emits what was held back.
  void finish(const Emit &emit);

  /// Whether there was any reasoning, or is.
  bool hasReasoning() const { return hasReasoned; }

private:
  struct Marker;
  static const Marker kMarkers[];

  void feedBytes(std::string_view bytes, bool isShown, const Emit &emit);
  bool isPossible(const Marker &marker) const;
  bool canExtend(std::string_view text) const;
  bool isMarker(std::string_view text) const;
  void pass(std::string_view marker);
  void emitShown(std::string_view text, const Emit &emit);

  std::string held;             // May be the beginning of a marker.
  std::string heldShown;        // Parallel to held: '1' for a byte that is shown.
  std::string space;            // White space that is emitted before the next other character.
  std::string_view closeMarker; // Not empty within reasoning.
  bool isPartEmpty = true;      // Nothing but white space of the current part so far.
  bool hasAnswered = false;     // Something of the answer was emitted.
  bool hasReasoned = false;
};

} // namespace moert
