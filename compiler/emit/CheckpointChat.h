// What a checkpoint has for people: chat templates, the texts of the special tokens that they use,
// how its authors sample, and the names of classes. None of it can stop a compile: what cannot be
// used is left out, with a warning, since the model runs without it.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "runtime/format/Artifact.h"

#include <functional>
#include <optional>
#include <string_view>

namespace moec {

/// The checkpoint's files, a later one replacing templates of the same name:
///   tokenizer_config.json               "chat_template", a text or a list of {"name", "template"}
///   chat_template.jinja                 the template "default"
///   chat_templates/NAME.jinja, additional_chat_templates/NAME.jinja
/// and the texts of all "..._token" of tokenizer_config.json, texts or objects with "content".
/// Or what the keys of a GGUF file hold of these. nullopt if there is none of these. `warn` may be
/// empty.
std::optional<moert::Chat> readChat(const Checkpoint &checkpoint,
                                    const std::function<void(std::string_view)> &warn);

/// The fields of generation_config.json that change how tokens are drawn; nullopt if there is none.
std::optional<moert::SamplingDefaults>
readSamplingDefaults(const Checkpoint &checkpoint,
                     const std::function<void(std::string_view)> &warn);

/// The names of a vision model's classes, "id2label" of config.json; empty if there are none.
std::vector<std::string> readClassNames(const Checkpoint &checkpoint, uint32_t classes,
                                        const std::function<void(std::string_view)> &warn);

/// Sets all three in an artifact that is about to be written.
void addConversation(const Checkpoint &checkpoint,
                     const std::function<void(std::string_view)> &warn, moert::Artifact &artifact);

} // namespace moec
