// The rules about chat templates, special tokens' texts and sampling defaults. Whether a template
// can be rendered is checked where it is used.
#include "runtime/format/Validate.h"

#include "runtime/base/Utf8.h"
#include "runtime/format/ValidateRules.h"

namespace moert {

static Status checkNames(std::string_view what, std::string_view name, std::string_view previous,
                         bool isFirst) {
  MOERT_RETURN_IF_ERROR(checkText(name, what));
  if (name.empty() || name.size() > kMaxChatNameBytes)
    return invalidInput(what, " has ", name.size(), " bytes, expected 1 to ", kMaxChatNameBytes);
  if (!isFirst && name <= previous)
    return invalidInput("'", name, "' follows '", previous, "', expected ascending names");
  return {};
}

static Status checkTemplates(const std::vector<NamedTemplate> &templates) {
  MOERT_RETURN_IF_ERROR(
      checkRange("the number of templates", templates.size(), 0, kMaxChatTemplates));
  for (size_t i = 0; i < templates.size(); ++i) {
    const NamedTemplate &named = templates[i];
    MOERT_RETURN_IF_ERROR(
        checkNames("a template's name", named.name, i > 0 ? templates[i - 1].name : "", i == 0));
    if (named.text.size() > kMaxChatTemplateBytes)
      return invalidInput("template '", named.name, "' has ", named.text.size(),
                          " bytes, expected at most ", kMaxChatTemplateBytes);
    if (!isValidUtf8(named.text))
      return invalidInput("template '", named.name, "' is not UTF-8");
  }
  return {};
}

static Status
checkSpecialTokens(const std::vector<std::pair<std::string, std::string>> &specialTokens) {
  MOERT_RETURN_IF_ERROR(
      checkRange("the number of special tokens", specialTokens.size(), 0, kMaxChatSpecialTokens));
  for (size_t i = 0; i < specialTokens.size(); ++i) {
    const auto &[name, text] = specialTokens[i];
    MOERT_RETURN_IF_ERROR(checkNames("a special token's name", name,
                                     i > 0 ? specialTokens[i - 1].first : "", i == 0));
    if (text.size() > kMaxSpecialTokenBytes)
      return invalidInput("special token '", name, "' has ", text.size(),
                          " bytes, expected at most ", kMaxSpecialTokenBytes);
    if (!isValidUtf8(text))
      return invalidInput("special token '", name, "' is not UTF-8");
  }
  return {};
}

Status validateChat(const Chat &chat) {
  MOERT_RETURN_IF_ERROR(checkTemplates(chat.templates));
  return checkSpecialTokens(chat.specialTokens);
}

Status validateSampling(const SamplingDefaults &sampling) {
  MOERT_RETURN_IF_ERROR(checkFields(sampling));
  if (sampling.topP == 0.f)
    return invalidInput("top_p is 0, expected a number above 0 and at most 1");
  return {};
}

} // namespace moert
