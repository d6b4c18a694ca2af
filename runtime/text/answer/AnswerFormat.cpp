#include "runtime/text/answer/AnswerFormat.h"

#include <array>

namespace moert {

namespace {

/// The first form with a sign in the template is its form: a sign may contain a later one's.
constexpr std::array kForms = {
    &kGemma4Form,  &kFunctionGemmaForm, &kDsmlForm, &kDeepSeekForm, &kKimiForm,   &kMistralForm,
    &kMiniMaxForm, &kArgKeyForm,        &kSeedForm, &kFunctionForm, &kLfm2Form,   &kNemotronForm,
    &kGraniteForm, &kListForm,          &kJsonForm, &kChannelForm,  &kLlama4Form, &kMessageForm,
};

constexpr std::array kReasoning = {
    // DeepSeek-R1, GLM-4.5, Hunyuan, MiniMax-M2, Qwen3, Magistral of 2506 and many others.
    ReasoningMarks{"<think>", "</think>"},
    // Mistral's reasoning models since Magistral of 2507.
    ReasoningMarks{"[THINK]", "[/THINK]"},
    ReasoningMarks{"<seed:think>", "</seed:think>", "<seed:think>"},
    ReasoningMarks{"<|channel>thought", "<channel|>", "<|turn>", true}, // Gemma 4.
    // Granite 3.2: plain text, as its system message asks for.
    ReasoningMarks{"Here is my thought process:", "Here is my response:", "thought process"},
};

/// Around the answer of Granite 3.3.
constexpr std::string_view kBeginResponse = "<response>", kEndResponse = "</response>";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

} // namespace

AnswerFormat::AnswerFormat(std::string_view chatTemplate) {
  for (const ReasoningMarks &each : kReasoning)
    if (each.sign.empty() || contains(chatTemplate, each.sign))
      marks.push_back(each);
  for (const ReasoningMarks &each : marks)
    if (ownMark.empty() && (contains(chatTemplate, each.close) || !each.sign.empty()))
      ownMark = each.open;
  if (contains(chatTemplate, kBeginResponse))
    hiddenMarks = {kBeginResponse, kEndResponse};
  for (const CallForm *each : kForms)
    for (const std::string_view sign : each->signs)
      if (!form && !sign.empty() && contains(chatTemplate, sign))
        form = each;
  if (hasChannels())
    ownMark = "<|channel|>analysis";
  if (form)
    usedWriting =
        contains(chatTemplate, form->writings[0].sign) ? &form->writings[0] : &form->writings[1];
}

std::string_view AnswerFormat::reasoningEndOf(std::string_view prompt) const {
  prompt = prompt.substr(0, prompt.find_last_not_of(" \t\r\n") + 1);
  for (const ReasoningMarks &each : marks)
    if (prompt.ends_with(each.open))
      return each.close;
  if (hasChannels() && prompt.ends_with("<|channel|>analysis<|message|>"))
    return "<|end|>";
  return {};
}

std::vector<int32_t> AnswerFormat::tokens(const Tokenizer &tokenizer,
                                          const CallForm *usedCalls) const {
  std::vector<std::string_view> texts(hiddenMarks);
  for (const ReasoningMarks &each : marks) {
    // The "thought" of Gemma is no part of the token.
    texts.push_back(each.open.substr(0, each.open.find_first_of(">]") + 1));
    texts.push_back(each.close);
  }
  if (hasChannels())
    texts.insert(texts.end(), {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>",
                               "<|call|>", "<|constrain|>"});
  if (usedCalls) {
    for (const CallMarks &each : usedCalls->marks)
      texts.insert(texts.end(), {each.open, each.close});
    texts.insert(texts.end(), usedCalls->hidden.begin(), usedCalls->hidden.end());
    texts.insert(texts.end(), usedCalls->tokens.begin(), usedCalls->tokens.end());
  }
  std::vector<int32_t> ids;
  for (const std::string_view text : texts)
    if (const auto id = tokenizer.idOf(text); id && tokenizer.isSpecial(*id))
      ids.push_back(*id);
  return ids;
}

} // namespace moert
