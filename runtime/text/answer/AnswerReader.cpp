#include "runtime/text/answer/AnswerReader.h"

#include <algorithm>
#include <utility>

namespace moert {

static constexpr std::string_view kSpace = " \t\r\n";
static constexpr std::string_view kBeginHeader = "<|start|>", kChannel = "<|channel|>";
static constexpr std::string_view kEndHeader = "<|message|>", kEndMessage = "<|end|>";
/// gpt-oss's headers have a role, a recipient, a channel and a type.
static constexpr size_t kMostHeaderBytes = 256;
/// A call with more ends within its strings is text: bounds the work for each byte.
static constexpr uint32_t kMostEnds = 64;

AnswerReader::AnswerReader(const AnswerFormat &answerFormat, std::string_view prompt,
                           const CallForm *usedCalls, const ToolTypes *toolTypes)
    : format(answerFormat), calls(usedCalls), types(toolTypes) {
  beginPart(AnswerPart::kAnswer, {});
  isAfterMarkup = false;
  if (const std::string_view end = format.reasoningEndOf(prompt); !end.empty())
    beginPart(AnswerPart::kReasoning, end);
}

void AnswerReader::setMarkers(std::string_view reasoningEnd) {
  markers.clear();
  const bool hasChannels = format.hasChannels();
  if (part == AnswerPart::kReasoning)
    markers.push_back({reasoningEnd, Action::kEndReasoning});
  if (hasChannels) {
    markers.push_back({kBeginHeader, Action::kBeginHeader});
    markers.push_back({kChannel, Action::kBeginHeader});
    if (part == AnswerPart::kAnswer)
      markers.push_back({" to=functions.", Action::kBeginHeader, {}, nullptr, true});
    for (const std::string_view text :
         {kEndMessage, std::string_view("<|return|>"), std::string_view("<|call|>"), kEndHeader})
      if (text != reasoningEnd)
        markers.push_back({text, Action::kHide});
  }
  if (part == AnswerPart::kReasoning)
    return;
  for (const ReasoningMarks &marks : format.reasoning())
    markers.push_back(
        {marks.open, Action::kBeginReasoning, marks.close, nullptr, !marks.isAnywhere});
  for (const std::string_view text : format.hidden())
    markers.push_back({text, Action::kHide});
  if (!calls)
    return;
  for (const CallMarks &marks : calls->marks)
    if (!marks.open.empty())
      markers.push_back({marks.open, Action::kBeginCall, {}, &marks, calls->isWholeMessage});
  for (const std::string_view text : calls->hidden)
    if (!text.empty())
      markers.push_back({text, Action::kHide});
}

void AnswerReader::beginPart(AnswerPart next, std::string_view reasoningEnd) {
  part = next;
  state = State::kText;
  isAfterMarkup = true;
  setMarkers(reasoningEnd);
}

void AnswerReader::beginCall(const CallMarks &marks, std::string beginning) {
  state = State::kCall;
  callMarks = &marks;
  opening = std::move(beginning);
  followed = opening;
  searched = 0;
  ends = 0;
  progress.reset();
}

std::span<const ToolCall> AnswerReader::begunCalls() {
  if (state != State::kCall)
    return {};
  if (!progress)
    progress.emplace(*calls, *callMarks, *types);
  if (callMarks->open.empty())
    progress->advance(followed.append(held, followed.size() - opening.size()));
  else
    progress->advance(held);
  return progress->calls();
}

void AnswerReader::emitMarkup(std::string_view text, const Emit &emit) {
  const std::string whole = std::exchange(space, {}).append(text);
  if (!whole.empty())
    emit(AnswerPart::kMarkup, whole, nullptr);
  isAfterMarkup = true;
}

void AnswerReader::emitText(std::string_view text, const Emit &emit) {
  if (isAfterMarkup) {
    const size_t first = std::min(text.find_first_not_of(kSpace), text.size());
    if (first > 0)
      emit(AnswerPart::kMarkup, text.substr(0, first), nullptr);
    text.remove_prefix(first);
  }
  if (text.empty())
    return;
  space += text;
  const size_t end = space.find_last_not_of(kSpace) + 1;
  if (end == 0)
    return;
  isAfterMarkup = false;
  hasContent = hasContent || part == AnswerPart::kAnswer;
  const std::string rest = space.substr(end);
  space.resize(end);
  emit(part, std::exchange(space, rest), nullptr);
}

void AnswerReader::pass(const Marker &marker, const Emit &emit) {
  switch (marker.action) {
  case Action::kHide:
    return emitMarkup(marker.text, emit);
  case Action::kBeginReasoning:
    emitMarkup(marker.text, emit);
    return beginPart(AnswerPart::kReasoning, marker.close);
  case Action::kEndReasoning:
    emitMarkup(marker.text, emit);
    return beginPart(AnswerPart::kAnswer, {});
  case Action::kBeginHeader:
    state = State::kHeader;
    opening = marker.text;
    return;
  case Action::kBeginCall:
    beginCall(*marker.call, std::string(calls->isWholeMessage ? "" : marker.text));
    if (calls->isWholeMessage)
      held.insert(0, marker.text);
    return;
  }
}

bool AnswerReader::readText(bool isEnd, const Emit &emit) {
  const std::string_view text = held;
  bool isFirst = !hasContent;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    const Marker *found = nullptr;
    bool needsMore = false;
    for (const Marker &marker : markers) {
      if (marker.isFirst && !isFirst)
        continue;
      if (rest.starts_with(marker.text))
        found = found && found->text.size() > marker.text.size() ? found : &marker;
      else if (!isEnd && marker.text.starts_with(rest))
        needsMore = true;
    }
    isFirst = isFirst && kSpace.find(text[at]) != std::string_view::npos;
    if (!needsMore && !found)
      continue;
    emitText(text.substr(0, at), emit);
    held.erase(0, at);
    if (needsMore)
      return false;
    const Marker marker = *found; // A new part has other markers.
    held.erase(0, marker.text.size());
    pass(marker, emit);
    return true;
  }
  emitText(text, emit);
  held.clear();
  return false;
}

void AnswerReader::reject(bool isEnd, const Emit &emit) {
  state = State::kText;
  emitText(std::exchange(opening, {}), emit);
  if (isEnd) // Trying every marker in it would take quadratic time.
    emitText(std::exchange(held, {}), emit);
}

bool AnswerReader::readHeader(bool isEnd, const Emit &emit) {
  const size_t end = held.find(kEndHeader);
  if (end == std::string::npos || end > kMostHeaderBytes) {
    if (!isEnd && held.size() <= kMostHeaderBytes + kEndHeader.size())
      return false;
    // Unfinished at the answer's end: no text that anyone is to see.
    if (isEnd)
      emitMarkup(opening + std::exchange(held, {}), emit);
    else
      reject(isEnd, emit);
    state = State::kText;
    return true;
  }
  const std::string header = opening + held.substr(0, end);
  if (calls == &kChannelForm && !recipientOf(header).empty()) {
    held.erase(0, end + kEndHeader.size());
    beginCall(calls->marks[0], header + std::string(kEndHeader));
    return true;
  }
  held.erase(0, end + kEndHeader.size());
  emitMarkup(header + std::string(kEndHeader), emit);
  const bool isReasoning = header.find("analysis") != std::string::npos;
  beginPart(isReasoning ? AnswerPart::kReasoning : AnswerPart::kAnswer,
            isReasoning ? kEndMessage : "");
  return true;
}

bool AnswerReader::readCall(bool isEnd, const Emit &emit) {
  while (true) {
    // The first end, the longest where two begin together.
    size_t bodyBytes = std::string::npos, endBytes = 0, longest = 1;
    const std::string_view next = callMarks->close.empty() ? callMarks->open : std::string_view();
    for (const std::string_view mark : {callMarks->close, callMarks->otherClose, next}) {
      longest = std::max(longest, mark.size());
      const size_t at = mark.empty() ? std::string::npos : held.find(mark, searched);
      if (at >= bodyBytes)
        continue;
      bodyBytes = at;
      endBytes = next.empty() ? mark.size() : 0;
    }
    if (calls->isWholeMessage)
      bodyBytes = std::string::npos;
    const bool isClosed = bodyBytes != std::string::npos;
    if (!isClosed && !isEnd) {
      searched = held.size() - std::min(held.size(), longest - 1);
      return false;
    }
    std::vector<ToolCall> found;
    const std::string body = callBody(bodyBytes);
    const CallReading reading =
        isClosed || !calls->needsClose ? calls->read(body, *types, found) : CallReading::kNoCall;
    if (reading == CallReading::kIncomplete && isClosed && ++ends < kMostEnds) {
      searched = bodyBytes + 1;
      continue;
    }
    if (reading != CallReading::kCall) {
      reject(isEnd, emit);
      return true;
    }
    emitMarkup({}, emit);
    const size_t size = isClosed ? bodyBytes + endBytes : held.size();
    const std::string text = std::exchange(opening, {}) + held.substr(0, size);
    held.erase(0, size);
    for (const ToolCall &call : found)
      emit(AnswerPart::kCall, &call == &found.front() ? std::string_view(text) : "", &call);
    beginPart(AnswerPart::kAnswer, {});
    return true;
  }
}

bool AnswerReader::step(bool isEnd, const Emit &emit) {
  switch (state) {
  case State::kHeader:
    return readHeader(isEnd, emit);
  case State::kCall:
    return readCall(isEnd, emit);
  case State::kText:
    break;
  }
  return readText(isEnd, emit);
}

void AnswerReader::feed(std::string_view text, const Emit &emit) {
  held += text;
  while (step(false, emit)) {
  }
}

void AnswerReader::finish(const Emit &emit) {
  while (step(true, emit) || !held.empty()) {
  }
  if (!space.empty())
    emit(part, std::exchange(space, {}), nullptr);
}

} // namespace moert
