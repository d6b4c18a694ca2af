// What an artifact has for conversations: templates, special tokens, sampling defaults.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "runtime/format/FieldJson.h"
#include "runtime/text/answer/AnswerFormat.h"

using namespace moert;

namespace moec {

using Align = TextTable::Align;

static std::string samplingText(const SamplingDefaults &sampling) {
  std::string text;
  auto add = [&](const char *name, const auto &value) {
    if (value)
      text += strCat(text.empty() ? "" : ", ", name, " ", *value);
  };
  if (sampling.doSample)
    text = *sampling.doSample ? "drawn" : "greedy";
  add("temperature", sampling.temperature);
  add("top-k", sampling.topK);
  add("top-p", sampling.topP);
  add("min-p", sampling.minP);
  add("repetition penalty", sampling.repetitionPenalty);
  return text;
}

/// How the templates' answers are read.
static AnswerFormat answersOf(const Chat &chat) {
  std::string text;
  for (const NamedTemplate &named : chat.templates)
    text += named.text;
  return AnswerFormat(text);
}

static std::string nameOf(const CallForm *form) {
  return form ? std::string(form->name) : std::string();
}

std::string describeChat(const Artifact &artifact) {
  TextTable table({{"", Align::kLeft}, {"", Align::kLeft}});
  if (artifact.chat) {
    for (const NamedTemplate &named : artifact.chat->templates)
      table.addRow({strCat("template ", named.name), strCat(named.text.size(), " bytes")});
    const AnswerFormat answers = answersOf(*artifact.chat);
    const auto orNone = [](std::string_view name) { return name.empty() ? "none known" : name; };
    table.addRow({"reasoning", std::string(orNone(answers.ownReasoning()))});
    table.addRow({"calls of tools", std::string(orNone(nameOf(answers.calls())))});
    for (const auto &[name, text] : artifact.chat->specialTokens)
      table.addRow({name, excerpt(text)});
  }
  if (artifact.sampling)
    table.addRow({"sampling", samplingText(*artifact.sampling)});
  return artifact.chat || artifact.sampling ? strCat("conversations:\n", table.text(kIndent), "\n")
                                            : "";
}

void writeChat(JsonWriter &json, const Artifact &artifact) {
  if (artifact.chat) {
    json.key("chat").beginObject();
    json.key("templates").beginObject();
    for (const NamedTemplate &named : artifact.chat->templates)
      json.key(named.name).string(named.text);
    json.endObject();
    const AnswerFormat answers = answersOf(*artifact.chat);
    json.key("answers").beginObject();
    json.key("reasoning").string(answers.ownReasoning());
    json.key("calls").string(nameOf(answers.calls()));
    json.endObject();
    json.key("special_tokens").beginObject();
    for (const auto &[name, text] : artifact.chat->specialTokens)
      json.key(name).string(text);
    json.endObject();
    json.endObject();
  }
  if (artifact.sampling)
    writeField(json.key("sampling"), *artifact.sampling);
}

} // namespace moec
