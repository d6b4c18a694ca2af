#include "tools/moert-serve/ToolFields.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "runtime/text/grammar/JsonSchema.h"
#include "tools/moert-serve/CallGrammar.h"
#include "tools/moert-serve/SchemaFields.h"

#include <optional>
#include <string>
#include <vector>

namespace moert::serve {

namespace {

struct ToolChoice {
  bool isAllowed = true, isRequired = false;
  std::optional<std::string> name = {}; // The function that has to be called.
};

/// "none", "auto", "required", or {"type": "function", "function": {"name": ...}}.
ToolChoice readToolChoice(Fields &fields) {
  const Json *choice = fields.any("tool_choice");
  if (!choice || *choice == "auto")
    return {};
  if (*choice == "none")
    return {false};
  if (*choice == "required")
    return {true, true};
  if (choice->is_string()) {
    fields.fail(invalidField(strCat("Invalid value: '", excerpt(choice->get<std::string>()),
                                    "'. Supported values are: 'none', 'auto' and 'required'."),
                             "tool_choice"));
    return {};
  }
  const Json *object = fields.objectAt("tool_choice");
  if (!object)
    return {};
  Fields inner(*object, "tool_choice.");
  inner.require("type");
  inner.only("type", "function", "tools are functions");
  inner.require("function");
  ToolChoice named = {true, true};
  if (const Json *function = inner.objectAt("function")) {
    Fields innermost(*function, "tool_choice.function.");
    innermost.require("name");
    named.name = innermost.text("name");
    innermost.refuseOthers();
    if (innermost.error())
      inner.fail(*innermost.error());
  }
  inner.refuseOthers();
  if (inner.error())
    fields.fail(*inner.error());
  return named;
}

void checkTool(Fields &fields, const Json &tool, const std::string &name) {
  const bool isFunction = tool.is_object() && tool.contains("type") && tool["type"] == "function" &&
                          tool.contains("function") && tool["function"].is_object();
  if (!isFunction || !tool["function"].contains("name") || !tool["function"]["name"].is_string())
    fields.fail(invalidField(strCat("Invalid value for '", name,
                                    "': expected an object with the type \"function\" and a "
                                    "function that has a name."),
                             name));
}

/// Reads the schemas of the tools, or of the one that the choice names; where no call is required,
/// those of strict tools only. Where one is, constrains the answer to calls in the template's form;
/// where that cannot keep the schemas, to one in the generic form.
void readToolSchemas(const Json &tools, const ToolChoice &choice, Fields &fields,
                     const ServedModelInfo &info, ApiCall &call, AnswerRequest &base) {
  std::vector<FunctionSchema> functions;
  bool isStrict = false;
  for (const Json &tool : tools) {
    const Json &function = tool["function"];
    const std::string name = function["name"].get<std::string>();
    if (choice.name && *choice.name != name)
      continue;
    const bool isStrictTool = function.contains("strict") && function["strict"] == true;
    if (!choice.isRequired && !isStrictTool)
      continue;
    const auto parameters = function.find("parameters");
    const bool hasParameters = parameters != function.end() && !parameters->is_null();
    functions.push_back({name, hasParameters ? &*parameters : nullptr});
    isStrict = isStrict || isStrictTool;
  }
  if (functions.empty() && !choice.isRequired)
    return;
  if (functions.empty())
    return fields.fail(
        invalidField(strCat("Tool choice '", excerpt(choice.name.value_or("required")),
                            "' not found in 'tools' parameter."),
                     "tool_choice"));
  const bool allowsSeveral = call.allowsCalls && !choice.name;
  const CallWriting *writing = &info.chatFormat->callWriting();
  const CallForm &generic = AnswerFormat::genericCalls();
  if (!choice.isRequired)
    writing = &generic.writings[0];
  Result<SchemaGrammar> made = grammarOfCalls(*writing, functions, call.toolTypes, allowsSeveral);
  if (!made.isOk() && choice.isRequired) {
    call.toolCalls = &generic;
    writing = &generic.writings[0];
    made = grammarOfCalls(*writing, functions, call.toolTypes, allowsSeveral);
  }
  std::optional<Grammar> grammar =
      readGrammarOf(std::move(made), isStrict, "", fields, "tools", call);
  if (!grammar || !choice.isRequired)
    return;
  base.grammar = std::make_shared<const Grammar>(std::move(*grammar));
  base.tokenTexts = info.callTexts;
  call.forcesTool = true;
  call.callBegin = writing->open;
}

} // namespace

Json readTools(Fields &fields, const ServedModelInfo &info, ApiCall &call, AnswerRequest &base) {
  call.allowsCalls = fields.flag("parallel_tool_calls").value_or(true);
  const Json *tools = fields.array("tools");
  const ToolChoice choice = readToolChoice(fields);
  const bool hasTools = tools && !tools->empty();
  if (!hasTools && choice.isRequired)
    fields.fail(invalidField("Invalid value for 'tool_choice': 'tool_choice' is only allowed when "
                             "'tools' are specified.",
                             "tool_choice"));
  if (!hasTools || !choice.isAllowed)
    return {};
  for (size_t i = 0; i < tools->size(); ++i)
    checkTool(fields, (*tools)[i], strCat("tools[", i, "]"));
  if (fields.error())
    return {};
  call.toolCalls = &info.chatFormat->calls();
  call.toolTypes = ToolTypes(*tools);
  readToolSchemas(*tools, choice, fields, info, call, base);
  return *tools;
}

} // namespace moert::serve
