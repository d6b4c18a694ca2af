// Chat templates: the Jinja templates with which checkpoints turn a conversation into a prompt. A
// small interpreter, for the part of Jinja that published templates use; the rest is refused by
// name and line. What is supported renders byte for byte as Python's jinja2 does in transformers.
// docs/chat-templates.md lists both.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace moert {

/// Limits of one rendering. A template comes with a checkpoint, so it is untrusted.
struct TemplateLimits {
  /// One step is one evaluated node of the template, 16 bytes of a new string, or one element of a
  /// new list. Together with the context they bound time and memory.
  uint64_t steps = 4'000'000;
  /// Nested statements and expressions that are being evaluated, macros included.
  uint32_t depth = 500;
  uint64_t outputBytes = 16 << 20;
};

/// The largest template that compile() accepts. Published ones have up to 30 KB.
inline constexpr size_t kMaxTemplateBytes = 1 << 20;

/// The local date and time that strftime_now prints.
using LocalClock = std::tm (*)();
/// The system's.
std::tm systemLocalTime();

/// A parsed template. Immutable: copies share it, and several threads may render at a time.
class ChatTemplate {
public:
  /// Parses `source`; `name` names it in errors.
  static Result<ChatTemplate> compile(std::string source, std::string name);

  /// Renders with the members of `context`, an object, as variables: messages, tools,
  /// add_generation_prompt, bos_token and so on. An error names the template and its line; it is an
  /// error too if the template calls raise_exception.
  Result<std::string> render(const nlohmann::ordered_json &context,
                             const TemplateLimits &limits = {},
                             LocalClock clock = systemLocalTime) const;

private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsedTemplate)
      : parsed(std::move(parsedTemplate)) {}

  std::shared_ptr<const Parsed> parsed; // Shared, because copies are cheap and nothing changes it.
};

} // namespace moert
