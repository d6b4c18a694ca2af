#include "runtime/generation/ReasoningText.h"

#include <algorithm>
#include <utility>

namespace moert {

struct ReasoningText::Marker {
  std::string_view open, close; // Without `close`, `open` is only left out.
  bool isAnywhere;              // Also after an answer has begun: its special tokens are no text.
};

const ReasoningText::Marker ReasoningText::kMarkers[] = {
    {"<think>", "</think>", false},
    {"[THINK]", "[/THINK]", false},
    {"<|channel|>analysis<|message|>", "<|end|>", true},
    {"<|channel|>final<|message|>", "", true},
    {"<|start|>assistant", "", true},
};

static constexpr std::string_view kSpace = " \t\r\n";

ReasoningText::ReasoningText(std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(kSpace);
  prompt = prompt.substr(0, last == std::string_view::npos ? 0 : last + 1);
  for (const Marker &marker : kMarkers)
    if (!marker.close.empty() && prompt.ends_with(marker.open)) {
      closeMarker = marker.close;
      hasReasoned = true;
    }
}

bool ReasoningText::isPossible(const Marker &marker) const {
  return closeMarker.empty() && (marker.isAnywhere || !hasAnswered);
}

/// Whether more text can make a marker of this one.
bool ReasoningText::canExtend(std::string_view text) const {
  if (!closeMarker.empty())
    return closeMarker.starts_with(text);
  for (const Marker &marker : kMarkers)
    if (isPossible(marker) && marker.open.starts_with(text))
      return true;
  return false;
}

bool ReasoningText::isMarker(std::string_view text) const {
  if (!closeMarker.empty())
    return text == closeMarker;
  for (const Marker &marker : kMarkers)
    if (isPossible(marker) && marker.open == text)
      return true;
  return false;
}

void ReasoningText::pass(std::string_view marker) {
  std::string_view next;
  if (closeMarker.empty())
    for (const Marker &each : kMarkers)
      if (each.open == marker)
        next = each.close;
  closeMarker = next;
  hasReasoned = hasReasoned || !next.empty();
  space.clear();
  isPartEmpty = true;
}

void ReasoningText::emitShown(std::string_view text, const Emit &emit) {
  if (text.empty())
    return;
  const bool isReasoning = !closeMarker.empty();
  if (isPartEmpty && hasReasoned)
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  std::string whole = std::exchange(space, {});
  whole += text;
  // White space is held back where reasoning may begin or end after it.
  if (isPartEmpty || hasReasoned) {
    const size_t end = whole.find_last_not_of(kSpace) + 1; // 0 if there is nothing else.
    if (end == 0 || hasReasoned) {
      space = whole.substr(end);
      whole.resize(end);
    }
  }
  if (whole.empty())
    return;
  isPartEmpty = false;
  hasAnswered = hasAnswered || !isReasoning;
  emit(isReasoning ? AnswerPart::kReasoning : AnswerPart::kAnswer, whole);
}

void ReasoningText::feedBytes(std::string_view bytes, bool isShown, const Emit &emit) {
  std::string ready; // Shown bytes that no marker can begin with, emitted together.
  for (char next : bytes) {
    held += next;
    heldShown += isShown ? '1' : '0';
    while (!held.empty() && !canExtend(held)) {
      if (heldShown.front() == '1')
        ready += held.front();
      held.erase(0, 1);
      heldShown.erase(0, 1);
      // Once an answer has begun, markers are text.
      if (!hasAnswered && closeMarker.empty() &&
          ready.find_first_not_of(kSpace) != std::string::npos)
        emitShown(std::exchange(ready, {}), emit);
    }
    if (!isMarker(held))
      continue;
    emitShown(std::exchange(ready, {}), emit);
    pass(held);
    held.clear();
    heldShown.clear();
  }
  emitShown(ready, emit);
}

void ReasoningText::finish(const Emit &emit) {
  std::string rest;
  for (size_t i = 0; i < held.size(); ++i)
    if (heldShown[i] == '1')
      rest += held[i];
  held.clear();
  heldShown.clear();
  emitShown(rest, emit);
  if (!hasReasoned && !space.empty())
    emit(AnswerPart::kAnswer, space);
  space.clear();
}

} // namespace moert
