// The calls that a text has begun, before it is complete: names and arguments for clients that
// receive them while they are generated.
//
// The form's own reader reads beginnings that are completed: where a JSON object begins, with an
// empty one, which gives the call's name; where an argument begins, without it. So the arguments
// of JSON come byte by byte, those of elements one by one. Forms of other values come at the end.
#pragma once

#include "runtime/text/answer/CallForm.h"

namespace moert {

/// Follows one text with one call or more. The form and the types must outlive it.
class CallProgress {
public:
  CallProgress(const CallForm &callForm, const CallMarks &callMarks, const ToolTypes &toolTypes);

  /// body: as at the last time, with more after it.
  void advance(std::string_view body);
  /// Arguments only grow; those of the last call may be a beginning.
  const std::vector<ToolCall> &calls() const { return begun; }

private:
  bool reads(std::string_view body, std::string_view completion);

  const CallForm &form;
  const CallMarks &marks;
  const ToolTypes &types;
  std::vector<ToolCall> begun;
  size_t next = 0;    // No call or argument begins before it, except those that are known.
  uint32_t tries = 0; // Beginnings that were read.
  uint32_t depth = 0; // Within a JSON object.
  bool isInString = false, isEscaped = false;
};

} // namespace moert
