#include "tools/moert/TemplateFlags.h"

#include "runtime/base/InputText.h"
#include "runtime/text/chat/ChatTemplate.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace moert::cli {

CLI::Option *addTemplateFlags(CLI::App &command, TemplateFlags &flags, const std::string &group) {
  command
      .add_option("--template-arg", flags.arguments,
                  "A variable for the template, such as enable_thinking=false. Can be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group(group);
  return command
      .add_option("--template", flags.file,
                  "Render with the chat template of this file (default: the checkpoint's)")
      ->type_name("FILE")
      ->group(group);
}

Result<NamedTemplate> readTemplate(const TemplateFlags &flags) {
  MOERT_ASSIGN_OR_RETURN(std::string text, readInput(*flags.file, kMaxTemplateBytes));
  return NamedTemplate{inputName(*flags.file), std::move(text)};
}

Status addTemplateArguments(const TemplateFlags &flags, nlohmann::ordered_json &variables) {
  for (const std::string &argument : flags.arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalidInput("--template-arg '", argument,
                          "', expected NAME=VALUE, such as enable_thinking=false");
    MOERT_RETURN_IF_ERROR(checkUtf8(argument, "--template-arg"));
    const std::string name = argument.substr(0, equals);
    if (name == "messages" || name == "add_generation_prompt")
      return invalidInput("--template-arg '", argument, "': the conversation sets ", name,
                          ", expected another variable");
    const std::string value = argument.substr(equals + 1);
    nlohmann::ordered_json parsed =
        nlohmann::ordered_json::parse(std::string_view(value), nullptr, false);
    variables[name] = parsed.is_discarded() ? nlohmann::ordered_json(value) : parsed;
  }
  return {};
}

} // namespace moert::cli
