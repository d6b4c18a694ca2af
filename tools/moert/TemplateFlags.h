// --template and --template-arg: another chat template than the checkpoint's, and its variables.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace moert::cli {

struct TemplateFlags {
  std::optional<std::string> file;
  std::vector<std::string> arguments; // NAME=VALUE
};

/// Returns the option --template.
CLI::Option *addTemplateFlags(CLI::App &command, TemplateFlags &flags, const std::string &group);

/// The file's template; call with one.
Result<NamedTemplate> readTemplate(const TemplateFlags &flags);

/// Adds NAME=VALUE to the template's variables; VALUE is JSON, or else a text.
Status addTemplateArguments(const TemplateFlags &flags, nlohmann::ordered_json &variables);

} // namespace moert::cli
