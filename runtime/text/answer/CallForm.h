// The forms in which models write calls of tools. Each form is a table in a file of its own; a new
// one is added there and to kForms in AnswerFormat.cpp.
#pragma once

#include "runtime/text/answer/ToolTypes.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct ToolCall {
  std::string name;
  std::string arguments; // A JSON object as text.
};

enum class CallReading {
  kCall,       // One call or more.
  kIncomplete, // Its end lies further on: what looked like it is within a string.
  kNoCall,     // It is text.
};

/// What begins and ends a call.
struct CallMarks {
  std::string_view open = {};
  /// Empty: the next call's beginning, or the answer's end.
  std::string_view close = {};
  std::string_view otherClose = {};
};

/// How calls are written: open, start, a call, and for each further one `between` and the call,
/// then end. A call is beforeName, the name, afterName, its arguments and afterArguments. Arguments
/// are a JSON object, or without it beforeKey, the name, afterKey, the value and afterValue for
/// each one.
struct CallWriting {
  /// Used where the template contains it.
  std::string_view sign = {};
  /// A prompt that asks for a call ends with it.
  std::string_view open = {};
  /// '#' in afterName is the call's number.
  std::string_view start = {}, beforeName = {}, afterName = {};
  std::string_view beforeKey = {}, afterKey = {}, afterValue = {}, separator = {};
  /// Around texts, which are as they are then; empty: around none.
  std::string_view quote = {};
  /// Instead of afterKey before texts, if not empty.
  std::string_view afterKeyOfText = {};
  std::string_view afterArguments = {}, between = {}, end = {};

  bool hasJsonArguments() const { return afterKey.empty(); }
  /// Texts are not JSON's strings.
  bool hasPlainTexts() const { return !quote.empty() || !afterValue.empty(); }
};

/// Immutable. Views are of literals.
struct CallForm {
  std::string_view name;
  /// A template that contains one of these texts writes calls in this form.
  std::array<std::string_view, 3> signs = {};
  std::array<CallMarks, 2> marks = {};
  /// Markers outside of calls that are no text, such as those around all calls.
  std::array<std::string_view, 2> hidden = {};
  /// Further texts within calls that are special tokens in a tokenizer.
  std::array<std::string_view, 3> tokens = {};
  /// The call begins the answer's text, and its first mark is a part of it.
  bool isWholeMessage = false;
  /// A call without its end is text: nothing else shows whether it is complete.
  bool needsClose = false;
  /// The first one whose sign the template contains is used. Without `between` only one call can be
  /// written.
  std::array<CallWriting, 2> writings = {};
  /// Reads the text between the marks.
  CallReading (*read)(std::string_view body, const ToolTypes &types,
                      std::vector<ToolCall> &calls) = nullptr;
};

extern const CallForm kJsonForm, kNemotronForm, kListForm, kGraniteForm, kMessageForm; // JsonCalls
extern const CallForm kFunctionForm, kSeedForm;        // FunctionCalls
extern const CallForm kArgKeyForm;                     // ArgKeyCalls
extern const CallForm kMiniMaxForm, kDsmlForm;         // InvokeCalls
extern const CallForm kMistralForm;                    // MistralCalls
extern const CallForm kDeepSeekForm;                   // DeepSeekCalls
extern const CallForm kKimiForm;                       // KimiCalls
extern const CallForm kChannelForm;                    // ChannelCalls
extern const CallForm kLlama4Form, kLfm2Form;          // PythonCalls
extern const CallForm kGemma4Form, kFunctionGemmaForm; // GemmaCalls

/// The recipient in a message's header of gpt-oss, without "functions."; empty without one.
std::string_view recipientOf(std::string_view header);

/// Adds a call whose arguments are the JSON object `json`; nothing, or null, is no arguments.
CallReading addCall(std::string_view name, std::string_view json, std::vector<ToolCall> &calls);

/// The JSON value at the front of a text, which may have more after it. Empty if there is none;
/// absent if the text ends within it.
std::optional<std::string_view> jsonAtFront(std::string_view text);

/// Builds the JSON object of a call's arguments.
class ArgumentList {
public:
  void add(std::string_view name, std::string_view json);
  std::string text() const { return "{" + members + "}"; }

private:
  std::string members;
};

/// Takes `prefix` from the front of a text after white space. False if it is not there.
bool take(std::string_view &text, std::string_view prefix);
/// Takes what comes before `mark`, and the mark. Absent if there is none.
std::optional<std::string_view> takeUntil(std::string_view &text, std::string_view mark);

} // namespace moert
