// Divides a model's answer into reasoning, content and calls of tools while it is generated. The
// result does not depend on how the text is cut into pieces.
//
// Every byte of the answer is in exactly one piece: the pieces' texts, in order, are the answer.
// Content and reasoning are passed on as soon as no marker can begin with them; a call when it is
// complete. Markers, their headers, and white space beside them are markup. What looks like a call
// and is none is content, its markers included.
//
// Reasoning that a marker begins is recognized before the content only: content may mention the
// markers.
#pragma once

#include "runtime/text/answer/AnswerFormat.h"
#include "runtime/text/answer/CallProgress.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

enum class AnswerPart { kAnswer, kReasoning, kCall, kMarkup };

/// Owned by one answer, used by one thread. The format, the form and the types must outlive it.
class AnswerReader {
public:
  /// call: of kCall. A list of calls has its text with the first one.
  using Emit = std::function<void(AnswerPart part, std::string_view text, const ToolCall *call)>;

  /// prompt: its end, which may have begun the reasoning. usedCalls: the form of the calls that are
  /// read, which needs the types; null for none.
  AnswerReader(const AnswerFormat &answerFormat, std::string_view prompt,
               const CallForm *usedCalls = nullptr, const ToolTypes *toolTypes = nullptr);

  void feed(std::string_view text, const Emit &emit);
  /// The end of the answer: emits what was held back.
  void finish(const Emit &emit);

  /// The calls that the text has begun and feed() has not emitted. They may still turn out to be
  /// content.
  std::span<const ToolCall> begunCalls();
  /// The text so far ends within reasoning.
  bool isReasoning() const { return part == AnswerPart::kReasoning; }

private:
  enum class Action { kHide, kBeginReasoning, kEndReasoning, kBeginHeader, kBeginCall };
  struct Marker {
    std::string_view text;
    Action action;
    std::string_view close = {}; // kBeginReasoning has one.
    const CallMarks *call = nullptr;
    bool isFirst = false; // Only before any content.
  };
  enum class State { kText, kHeader, kCall };

  void setMarkers(std::string_view reasoningEnd);
  /// Reads from the held text. False: it needs more.
  bool step(bool isEnd, const Emit &emit);
  bool readText(bool isEnd, const Emit &emit);
  bool readHeader(bool isEnd, const Emit &emit);
  bool readCall(bool isEnd, const Emit &emit);
  void pass(const Marker &marker, const Emit &emit);
  void emitText(std::string_view text, const Emit &emit);
  void emitMarkup(std::string_view text, const Emit &emit);
  void beginPart(AnswerPart next, std::string_view reasoningEnd);
  /// In kCall: the text so far. Without a mark that begins it, the header is a part of it.
  std::string callBody(size_t size) const {
    return (callMarks->open.empty() ? opening : std::string()) + held.substr(0, size);
  }
  void beginCall(const CallMarks &marks, std::string beginning);
  /// Makes the beginning of a header or a call text after all; at the answer's end the rest too.
  void reject(bool isEnd, const Emit &emit);

  const AnswerFormat &format;
  const CallForm *const calls;
  const ToolTypes *const types;
  State state = State::kText;
  AnswerPart part = AnswerPart::kAnswer; // kReasoning or kAnswer.
  std::vector<Marker> markers;           // Markers of this part.
  std::string held;                      // Not read, or the header or call so far.
  std::string opening;                   // What began the header or call, before `held`.
  std::string space;                     // Text that is markup if a marker follows.
  std::string followed;                  // In kCall: the header and what progress has of `held`.
  const CallMarks *callMarks = nullptr;  // In kCall.
  std::optional<CallProgress> progress;  // In kCall, once it was asked for.
  size_t searched = 0;                   // In kCall: no end begins before it in `held`.
  uint32_t ends = 0;                     // In kCall: ends that were within a string.
  bool isAfterMarkup = false;            // White space here is markup.
  bool hasContent = false;               // Other than white space.
};

} // namespace moert
