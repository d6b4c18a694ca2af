#include "runtime/chat/ChatTemplate.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/chat/Evaluator.h"
#include "runtime/chat/JsonContext.h"
#include "runtime/chat/Parser.h"

#include <ctime>

namespace moert {

struct ChatTemplate::Parsed {
  std::string name;
  chat::Body body;
};

std::tm systemLocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

Result<ChatTemplate> ChatTemplate::compile(std::string source, std::string name) {
  if (source.size() > kMaxTemplateBytes)
    return invalidInput(name, ": found a template of ", source.size(), " bytes, expected at most ",
                        kMaxTemplateBytes);
  if (!isValidUtf8(source))
    return invalidInput(name, ": the template is not valid UTF-8");
  Result<chat::Body> body = chat::parseTemplate(source);
  if (!body.isOk())
    return body.status().withContext(name);
  return ChatTemplate(
      std::make_shared<const Parsed>(Parsed{std::move(name), std::move(body).value()}));
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json &context,
                                         const TemplateLimits &limits, LocalClock clock) const {
  Result<chat::Dict> variables = chat::readContext(context);
  if (!variables.isOk())
    return variables.status().withContext(parsed->name + ": the variables");
  chat::Evaluator evaluator(variables.value(), limits, clock);
  Result<std::string> text = evaluator.run(parsed->body);
  if (!text.isOk())
    return text.status().withContext(strCat(parsed->name, ": line ", evaluator.errorLine()));
  return text;
}

} // namespace moert
