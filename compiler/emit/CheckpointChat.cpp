#include "compiler/emit/CheckpointChat.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/OptionalFile.h"
#include "runtime/base/Excerpt.h"
#include "runtime/format/Validate.h"
#include "runtime/images/ClassNames.h"
#include "runtime/text/chat/ChatTemplate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

using namespace moert;

namespace moec {

// The largest published tokenizer_config.json has 1.2 MB, mostly added tokens.
constexpr uint64_t kMaxTokenizerConfigBytes = uint64_t(16) << 20;

namespace {

/// Collects templates and special tokens, by ascending name.
class ChatReader {
public:
  ChatReader(const Checkpoint &source, const std::function<void(std::string_view)> &warner)
      : checkpoint(source), directory(source.directory()), warn(warner) {}

  std::optional<Chat> read() {
    readTokenizerConfig();
    if (!checkpoint.madeFiles()) {
      readTemplateFile("default", directory + "/chat_template.jinja");
      readTemplateFolder(directory + "/chat_templates");
      readTemplateFolder(directory + "/additional_chat_templates");
    }
    Chat chat;
    for (auto &[name, text] : templates)
      chat.templates.push_back({name, std::move(text)});
    chat.specialTokens.assign(specialTokens.begin(), specialTokens.end());
    if (chat.templates.empty() && chat.specialTokens.empty())
      return std::nullopt;
    return chat;
  }

private:
  void leaveOut(const Status &reason, std::string_view what) const {
    if (warn)
      warn(strCat("warning: ", reason.message(), "; the artifact has no ", what, " from it"));
  }

  /// nullopt if there is no such file, and with a warning if it cannot be read.
  std::optional<std::string> readOptional(const std::string &path, uint64_t mostBytes,
                                          std::string_view what) const {
    const Result<bool> isThere = hasReadableFile(path);
    if (isThere.isOk() && !*isThere)
      return std::nullopt;
    Result<std::string> text =
        isThere.isOk() ? readTextFile(path, mostBytes) : Result<std::string>(isThere.status());
    if (!text.isOk()) {
      leaveOut(text.status(), what);
      return std::nullopt;
    }
    return std::move(text).value();
  }

  void addTemplate(const std::string &name, std::string text, const std::string &path) {
    Chat one;
    one.templates.push_back({name, std::move(text)});
    if (Status status = validateChat(one); !status.isOk()) {
      leaveOut(std::move(status).withContext(path), "chat template");
      return;
    }
    if (templates.size() == kMaxChatTemplates && !templates.contains(name)) {
      leaveOut(invalidInput(path, ": more than ", kMaxChatTemplates, " chat templates"),
               "further chat template");
      return;
    }
    const std::string &kept = templates[name] = std::move(one.templates.front().text);
    if (const Status parsed = ChatTemplate::compile(kept, name).status(); !parsed.isOk() && warn)
      warn(strCat("warning: ", path, ": ", parsed.message(),
                  "; the artifact keeps this chat template, but cannot use it"));
  }

  void readTemplateFile(const std::string &name, const std::string &path) {
    if (auto text = readOptional(path, kMaxChatTemplateBytes, "chat template"))
      addTemplate(name, std::move(*text), path);
  }

  void readTemplateFolder(const std::string &folder) {
    std::error_code error;
    std::vector<std::filesystem::path> files; // Sorted: the system's order is not defined.
    for (const auto &entry : std::filesystem::directory_iterator(folder, error))
      if (entry.path().extension() == ".jinja")
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path &file : files)
      readTemplateFile(file.stem().string(), file.string());
  }

  void readTokenizerConfig() {
    const MadeFiles *const made = checkpoint.madeFiles();
    const std::string path = made ? directory : directory + "/tokenizer_config.json";
    const auto text = made ? std::optional(made->tokenizerConfig)
                           : readOptional(path, kMaxTokenizerConfigBytes, "chat template");
    if (!text)
      return;
    const nlohmann::json config = nlohmann::json::parse(*text, nullptr, false);
    if (!config.is_object()) {
      leaveOut(invalidInput(path, ": found no JSON object, expected one"), "chat template");
      return;
    }
    for (const auto &[key, value] : config.items())
      if (key.ends_with("_token"))
        addSpecialToken(key, value, path);
    if (config.contains("chat_template"))
      addTemplates(config["chat_template"], path);
  }

  void addTemplates(const nlohmann::json &value, const std::string &path) {
    if (value.is_null())
      return;
    if (value.is_string()) {
      addTemplate("default", value.get<std::string>(), path);
      return;
    }
    const auto isText = [](const nlohmann::json &entry, const char *key) {
      return entry.is_object() && entry.contains(key) && entry[key].is_string();
    };
    bool isList = value.is_array();
    for (const nlohmann::json &entry : value)
      isList = isList && isText(entry, "name") && isText(entry, "template");
    if (!isList) {
      leaveOut(invalidInput(path, ": 'chat_template' is neither a text nor a list of objects with "
                                  "'name' and 'template'"),
               "chat template");
      return;
    }
    std::set<std::string> names;
    for (const nlohmann::json &entry : value) {
      const std::string name = entry["name"].get<std::string>();
      if (!names.insert(name).second && warn)
        warn(strCat("warning: ", path, ": 'chat_template' has two templates named '", excerpt(name),
                    "'; the artifact has the last one, as transformers does"));
      addTemplate(name, entry["template"].get<std::string>(), path);
    }
  }

  /// Other values of such keys are switches ("add_bos_token") or null.
  void addSpecialToken(const std::string &key, const nlohmann::json &value,
                       const std::string &path) {
    const nlohmann::json *text = &value;
    if (value.is_object() && value.contains("content"))
      text = &value["content"];
    if (!text->is_string())
      return;
    Chat one;
    one.specialTokens.emplace_back(key, text->get<std::string>());
    if (Status status = validateChat(one); !status.isOk())
      leaveOut(std::move(status).withContext(path), "special token");
    else if (specialTokens.size() < kMaxChatSpecialTokens)
      specialTokens[key] = std::move(one.specialTokens.front().second);
  }

  const Checkpoint &checkpoint;
  std::string directory;
  const std::function<void(std::string_view)> &warn;
  std::map<std::string, std::string> templates, specialTokens;
};

/// Reads numbers of generation_config.json. A wrong one is left out with a warning.
class SamplingReader {
public:
  SamplingReader(const ConfigObject &object, const std::function<void(std::string_view)> &warner)
      : config(object), warn(warner) {}

  std::optional<float> real(const char *key, double least, double most) const {
    if (!config.has(key))
      return std::nullopt;
    auto value = config.real(key, least, most);
    if (!value.isOk()) {
      leaveOut(value.status());
      return std::nullopt;
    }
    return static_cast<float>(*value);
  }

  std::optional<uint32_t> topK() const {
    constexpr uint32_t kMost = INT32_MAX;
    if (!config.has("top_k"))
      return std::nullopt;
    // Some files have -1 for all tokens, as vLLM does.
    if (auto value = config.real("top_k", -1, -1); value.isOk())
      return 0;
    auto value = config.integer("top_k", 0, kMost);
    if (!value.isOk()) {
      leaveOut(value.status());
      return std::nullopt;
    }
    return *value;
  }

  std::optional<bool> doSample() const {
    if (!config.has("do_sample"))
      return std::nullopt;
    auto value = config.boolean("do_sample");
    if (!value.isOk()) {
      leaveOut(value.status());
      return std::nullopt;
    }
    return *value;
  }

private:
  void leaveOut(const Status &reason) const {
    if (warn)
      warn(strCat("warning: ", reason.message(),
                  "; the artifact's sampling defaults are without "
                  "it"));
  }

  const ConfigObject &config;
  const std::function<void(std::string_view)> &warn;
};

} // namespace

std::optional<Chat> readChat(const Checkpoint &checkpoint,
                             const std::function<void(std::string_view)> &warn) {
  return ChatReader(checkpoint, warn).read();
}

std::optional<SamplingDefaults>
readSamplingDefaults(const Checkpoint &checkpoint,
                     const std::function<void(std::string_view)> &warn) {
  const std::optional<ConfigObject> config = checkpoint.generationConfig();
  if (!config)
    return std::nullopt;
  const SamplingReader reader(*config, warn);
  SamplingDefaults defaults;
  defaults.doSample = reader.doSample();
  defaults.temperature = reader.real("temperature", 0, double(kMaxDefaultTemperature));
  defaults.topK = reader.topK();
  // Above 0: the least float is the least probability that top-p can have.
  defaults.topP = reader.real("top_p", double(std::numeric_limits<float>::min()), 1);
  defaults.minP = reader.real("min_p", 0, 1);
  defaults.repetitionPenalty = reader.real("repetition_penalty", 0.01, 100);
  if (defaults == SamplingDefaults())
    return std::nullopt;
  return defaults;
}

static Result<std::vector<std::string>> classNamesOf(const ConfigObject &config, uint32_t classes) {
  MOERT_ASSIGN_OR_RETURN(const ConfigObject labels, config.object("id2label"));
  std::vector<std::string> names;
  for (uint32_t number = 0; number < classes; ++number) {
    MOERT_ASSIGN_OR_RETURN(names.emplace_back(), labels.string(strCat(number)));
  }
  if (const size_t found = labels.keys().size(); found != classes)
    return config.mismatch("id2label", strCat("names of ", classes, " classes"));
  MOERT_RETURN_IF_ERROR(checkClassNames(names, classes));
  return names;
}

std::vector<std::string> readClassNames(const Checkpoint &checkpoint, uint32_t classes,
                                        const std::function<void(std::string_view)> &warn) {
  const ConfigObject config = checkpoint.config();
  if (!config.has("id2label"))
    return {};
  Result<std::vector<std::string>> names = classNamesOf(config, classes);
  if (names.isOk())
    return std::move(names).value();
  if (warn)
    warn(strCat("warning: ", names.status().message(), "; the artifact has no names of classes"));
  return {};
}

void addConversation(const Checkpoint &checkpoint,
                     const std::function<void(std::string_view)> &warn, Artifact &artifact) {
  artifact.chat = readChat(checkpoint, warn);
  artifact.sampling = readSamplingDefaults(checkpoint, warn);
  if (!imagesOf(artifact))
    return;
  const auto names = readClassNames(checkpoint, artifact.model.vocabularySize, warn);
  if (!names.empty())
    addClassNames(names, artifact);
}

} // namespace moec
