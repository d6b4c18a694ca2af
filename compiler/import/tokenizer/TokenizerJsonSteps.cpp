#include "compiler/import/tokenizer/TokenizerJsonSteps.h"

#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/Regex.h"

#include <algorithm>
#include <array>

namespace moert {
namespace {

template <typename Value> struct Named {
  std::string_view name;
  Value value;
};

// The value of a name in a table, or a refusal that lists the table's names: "normalizer 'X' is not
// supported; supported are ...".
template <typename Value, size_t size>
Result<Value> lookUp(const JsonNode &node, std::string_view what, const std::string &name,
                     const std::array<Named<Value>, size> &table,
                     std::string_view alsoSupported = "") {
  std::string supported;
  for (const Named<Value> &entry : table) {
    if (entry.name == name)
      return entry.value;
    supported += (supported.empty() ? "" : ", ") + std::string(entry.name);
  }
  return node.error(what, " '", excerpt(name), "' is not supported; supported are ", supported,
                    alsoSupported);
}

// Calls read(step) for the step itself or, for a Sequence, for each of its members, in order.
template <typename Read>
Status forEachStep(const JsonNode &node, std::string_view membersName, const Read &read) {
  if (node.isNull())
    return {};
  std::string type;
  MOERT_RETURN_IF_ERROR(node.readText("type", type));
  if (type != "Sequence")
    return read(node, type);
  MOERT_ASSIGN_OR_RETURN(JsonNode members, node.member(membersName));
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> steps, members.elements());
  for (const JsonNode &step : steps) {
    if (step.isNull())
      return step.wrong("a step");
    MOERT_RETURN_IF_ERROR(forEachStep(step, membersName, read));
  }
  return {};
}

Result<std::string> readCharacter(const JsonNode &node, std::string_view name) {
  MOERT_ASSIGN_OR_RETURN(JsonNode member, node.member(name));
  MOERT_ASSIGN_OR_RETURN(std::string text, member.text());
  if (text.empty() || utf8Length(text[0]) != text.size())
    return member.wrong("one character");
  return text;
}

// {"String": s} gives s; {"Regex": r} gives r and sets isRegex.
Result<std::string> readPattern(const JsonNode &node, bool &isRegex) {
  MOERT_ASSIGN_OR_RETURN(JsonNode pattern, node.member("pattern"));
  MOERT_ASSIGN_OR_RETURN(JsonNode plain, pattern.member("String"));
  MOERT_ASSIGN_OR_RETURN(JsonNode regex, pattern.member("Regex"));
  isRegex = plain.isNull();
  const JsonNode &given = isRegex ? regex : plain;
  if (given.isNull() || !(isRegex || regex.isNull()))
    return pattern.error("found neither or both of String and Regex, expected one of them");
  MOERT_ASSIGN_OR_RETURN(std::string text, given.text());
  if (text.empty())
    return given.wrong("a pattern that is not empty");
  return text;
}

// Metaspace has two spellings of its scheme: prepend_scheme, and the older add_prefix_space.
Result<PrependScheme> readPrependScheme(const JsonNode &node) {
  constexpr std::array<Named<PrependScheme>, 3> kSchemes = {{{"always", PrependScheme::kAlways},
                                                             {"first", PrependScheme::kFirst},
                                                             {"never", PrependScheme::kNever}}};
  MOERT_ASSIGN_OR_RETURN(JsonNode scheme, node.member("prepend_scheme"));
  bool addPrefixSpace = true;
  MOERT_RETURN_IF_ERROR(node.readOptionalFlag("add_prefix_space", addPrefixSpace));
  PrependScheme result = addPrefixSpace ? PrependScheme::kAlways : PrependScheme::kNever;
  if (scheme.isNull())
    return result;
  MOERT_ASSIGN_OR_RETURN(std::string name, scheme.text());
  MOERT_ASSIGN_OR_RETURN(result, lookUp(scheme, "scheme", name, kSchemes));
  if (!addPrefixSpace && result != PrependScheme::kNever)
    return scheme.error("found '", excerpt(name),
                        "' beside add_prefix_space false, expected 'never'");
  return result;
}

Status readNormalizer(const JsonNode &node, const std::string &type, TokenizerPipeline &pipeline) {
  using Kind = NormalizerStep::Kind;
  constexpr std::array<Named<Kind>, 9> kKinds = {{{"NFC", Kind::kNfc},
                                                  {"NFD", Kind::kNfd},
                                                  {"NFKC", Kind::kNfkc},
                                                  {"NFKD", Kind::kNfkd},
                                                  {"Prepend", Kind::kPrepend},
                                                  {"Replace", Kind::kReplace},
                                                  {"Strip", Kind::kStrip},
                                                  {"ByteLevel", Kind::kByteLevel},
                                                  {"Precompiled", Kind::kPrecompiled}}};
  NormalizerStep step;
  MOERT_ASSIGN_OR_RETURN(step.kind, lookUp(node, "normalizer", type, kKinds, ", Sequence"));
  if (step.kind == Kind::kPrepend) {
    MOERT_RETURN_IF_ERROR(node.readText("prepend", step.content));
    if (step.content.empty()) // The reference package misplaces the text then.
      return node.error("found an empty text to prepend");
  } else if (step.kind == Kind::kReplace) {
    bool isRegex = false;
    MOERT_ASSIGN_OR_RETURN(step.pattern, readPattern(node, isRegex));
    step.kind = isRegex ? Kind::kReplaceRegex : Kind::kReplace;
    MOERT_RETURN_IF_ERROR(node.readText("content", step.content));
  } else if (step.kind == Kind::kPrecompiled) {
    MOERT_ASSIGN_OR_RETURN(JsonNode charsmap, node.member("precompiled_charsmap"));
    MOERT_ASSIGN_OR_RETURN(step.charsmap, charsmap.bytes());
  } else if (step.kind == Kind::kStrip) {
    MOERT_RETURN_IF_ERROR(node.readFlag("strip_left", step.left));
    MOERT_RETURN_IF_ERROR(node.readFlag("strip_right", step.right));
  }
  pipeline.normalizers.push_back(std::move(step));
  return {};
}

Status readSplit(const JsonNode &node, PreTokenizerStep &step) {
  constexpr std::array<Named<SplitBehavior>, 5> kBehaviors = {
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  bool isRegex = false;
  MOERT_ASSIGN_OR_RETURN(step.pattern, readPattern(node, isRegex));
  step.kind = isRegex ? PreTokenizerStep::Kind::kSplitRegex : PreTokenizerStep::Kind::kSplitText;
  if (isRegex)
    if (Result<Regex> regex = Regex::compile(step.pattern); !regex.isOk())
      return node.error(regex.status().message());
  MOERT_ASSIGN_OR_RETURN(JsonNode behavior, node.member("behavior"));
  MOERT_ASSIGN_OR_RETURN(std::string name, behavior.text());
  MOERT_ASSIGN_OR_RETURN(step.behavior, lookUp(behavior, "behavior", name, kBehaviors));
  MOERT_RETURN_IF_ERROR(node.readFlag("invert", step.invert));
  return {};
}

Status readPreTokenizer(const JsonNode &node, const std::string &type,
                        TokenizerPipeline &pipeline) {
  using Kind = PreTokenizerStep::Kind;
  constexpr std::array<Named<Kind>, 5> kKinds = {{{"ByteLevel", Kind::kByteLevel},
                                                  {"Split", Kind::kSplitRegex},
                                                  {"Digits", Kind::kDigits},
                                                  {"Metaspace", Kind::kMetaspace},
                                                  {"WhitespaceSplit", Kind::kWhitespaceSplit}}};
  PreTokenizerStep step;
  MOERT_ASSIGN_OR_RETURN(step.kind, lookUp(node, "pre-tokenizer", type, kKinds, ", Sequence"));
  switch (step.kind) {
  case Kind::kByteLevel:
    MOERT_RETURN_IF_ERROR(node.readFlag("add_prefix_space", step.addPrefixSpace));
    step.useRegex = true;
    MOERT_RETURN_IF_ERROR(node.readOptionalFlag("use_regex", step.useRegex));
    break;
  case Kind::kSplitRegex:
  case Kind::kSplitText:
    MOERT_RETURN_IF_ERROR(readSplit(node, step));
    break;
  case Kind::kDigits:
    MOERT_RETURN_IF_ERROR(node.readFlag("individual_digits", step.individual));
    break;
  case Kind::kMetaspace: {
    MOERT_ASSIGN_OR_RETURN(step.pattern, readCharacter(node, "replacement"));
    MOERT_ASSIGN_OR_RETURN(step.prependScheme, readPrependScheme(node));
    step.split = true;
    MOERT_RETURN_IF_ERROR(node.readOptionalFlag("split", step.split));
    break;
  }
  case Kind::kWhitespaceSplit:
    break;
  }
  pipeline.preTokenizers.push_back(std::move(step));
  return {};
}

Status readDecoder(const JsonNode &node, const std::string &type, TokenizerPipeline &pipeline) {
  using Kind = DecoderStep::Kind;
  constexpr std::array<Named<Kind>, 6> kKinds = {{{"ByteLevel", Kind::kByteLevel},
                                                  {"ByteFallback", Kind::kByteFallback},
                                                  {"Replace", Kind::kReplace},
                                                  {"Strip", Kind::kStrip},
                                                  {"Fuse", Kind::kFuse},
                                                  {"Metaspace", Kind::kMetaspace}}};
  DecoderStep step;
  MOERT_ASSIGN_OR_RETURN(step.kind, lookUp(node, "decoder", type, kKinds, ", Sequence"));
  if (step.kind == Kind::kReplace) {
    bool isRegex = false;
    MOERT_ASSIGN_OR_RETURN(step.pattern, readPattern(node, isRegex));
    if (isRegex)
      return node.error("Replace of the regular expression ", excerpt(step.pattern),
                        " is not supported; supported is a plain String");
    MOERT_RETURN_IF_ERROR(node.readText("content", step.content));
  } else if (step.kind == Kind::kStrip) {
    MOERT_ASSIGN_OR_RETURN(step.pattern, readCharacter(node, "content"));
    MOERT_ASSIGN_OR_RETURN(JsonNode start, node.member("start"));
    MOERT_ASSIGN_OR_RETURN(int64_t startCount, start.integer(0, UINT32_MAX));
    MOERT_ASSIGN_OR_RETURN(JsonNode stop, node.member("stop"));
    MOERT_ASSIGN_OR_RETURN(int64_t stopCount, stop.integer(0, UINT32_MAX));
    step.start = static_cast<uint32_t>(startCount);
    step.stop = static_cast<uint32_t>(stopCount);
  } else if (step.kind == Kind::kMetaspace) {
    MOERT_ASSIGN_OR_RETURN(step.pattern, readCharacter(node, "replacement"));
    MOERT_ASSIGN_OR_RETURN(step.prependScheme, readPrependScheme(node));
  }
  pipeline.decoders.push_back(std::move(step));
  return {};
}

// The ids of the special token that a template names.
Result<std::vector<int32_t>> readSpecialToken(const JsonNode &processor, const std::string &name,
                                              size_t idCount) {
  MOERT_ASSIGN_OR_RETURN(JsonNode tokens, processor.member("special_tokens"));
  MOERT_ASSIGN_OR_RETURN(JsonNode token, tokens.member(name));
  MOERT_ASSIGN_OR_RETURN(JsonNode ids, token.member("ids"));
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> elements, ids.elements());
  std::vector<int32_t> result;
  for (const JsonNode &element : elements) {
    MOERT_ASSIGN_OR_RETURN(int64_t id, element.integer(0, static_cast<int64_t>(idCount) - 1));
    result.push_back(static_cast<int32_t>(id));
  }
  return result;
}

Status readTemplate(const JsonNode &node, size_t idCount, std::vector<int32_t> &prefix,
                    std::vector<int32_t> &suffix) {
  MOERT_ASSIGN_OR_RETURN(JsonNode single, node.member("single"));
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> pieces, single.elements());
  bool afterText = false;
  for (const JsonNode &piece : pieces) {
    MOERT_ASSIGN_OR_RETURN(JsonNode sequence, piece.member("Sequence"));
    MOERT_ASSIGN_OR_RETURN(JsonNode special, piece.member("SpecialToken"));
    if (sequence.isNull() == special.isNull())
      return piece.error(
          "found neither or both of Sequence and SpecialToken, expected one of them");
    const JsonNode &given = sequence.isNull() ? special : sequence;
    std::string id;
    MOERT_RETURN_IF_ERROR(given.readText("id", id));
    if (!special.isNull()) {
      MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, readSpecialToken(node, id, idCount));
      std::vector<int32_t> &target = afterText ? suffix : prefix;
      target.insert(target.end(), ids.begin(), ids.end());
      continue;
    }
    if (id != "A" || afterText)
      return sequence.error("found sequence '", excerpt(id), "', expected sequence A once");
    afterText = true;
  }
  if (!afterText)
    return single.error("found no sequence A, expected it once");
  return {};
}

// Bert and Roberta put one token before and one after: "cls": [text, id], "sep": [text, id].
Status readClassifierToken(const JsonNode &node, std::string_view name, size_t idCount,
                           std::vector<int32_t> &target) {
  MOERT_ASSIGN_OR_RETURN(JsonNode pair, node.member(name));
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> elements, pair.elements());
  if (elements.size() != 2)
    return pair.wrong("a token and its id");
  MOERT_ASSIGN_OR_RETURN(int64_t id, elements[1].integer(0, static_cast<int64_t>(idCount) - 1));
  target.push_back(static_cast<int32_t>(id));
  return {};
}

Status readPostProcessor(const JsonNode &node, const std::string &type, size_t idCount,
                         TokenizerPipeline &pipeline) {
  enum class Kind { kByteLevel, kTemplate, kClassifier };
  constexpr std::array<Named<Kind>, 4> kKinds = {{{"TemplateProcessing", Kind::kTemplate},
                                                  {"ByteLevel", Kind::kByteLevel},
                                                  {"BertProcessing", Kind::kClassifier},
                                                  {"RobertaProcessing", Kind::kClassifier}}};
  MOERT_ASSIGN_OR_RETURN(Kind kind, lookUp(node, "post-processor", type, kKinds, ", Sequence"));
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  if (kind == Kind::kTemplate) {
    MOERT_RETURN_IF_ERROR(readTemplate(node, idCount, prefix, suffix));
  } else if (kind == Kind::kClassifier) {
    MOERT_RETURN_IF_ERROR(readClassifierToken(node, "cls", idCount, prefix));
    MOERT_RETURN_IF_ERROR(readClassifierToken(node, "sep", idCount, suffix));
  }
  // A later post-processor works on the result of the earlier ones.
  pipeline.prefixIds.insert(pipeline.prefixIds.begin(), prefix.begin(), prefix.end());
  pipeline.suffixIds.insert(pipeline.suffixIds.end(), suffix.begin(), suffix.end());
  return {};
}

} // namespace

Status parseSteps(const JsonNode &root, size_t idCount, TokenizerPipeline &pipeline) {
  MOERT_ASSIGN_OR_RETURN(JsonNode normalizer, root.member("normalizer"));
  MOERT_ASSIGN_OR_RETURN(JsonNode preTokenizer, root.member("pre_tokenizer"));
  MOERT_ASSIGN_OR_RETURN(JsonNode postProcessor, root.member("post_processor"));
  MOERT_ASSIGN_OR_RETURN(JsonNode decoder, root.member("decoder"));
  MOERT_RETURN_IF_ERROR(
      forEachStep(normalizer, "normalizers", [&](const JsonNode &node, const std::string &type) {
        return readNormalizer(node, type, pipeline);
      }));
  MOERT_RETURN_IF_ERROR(forEachStep(preTokenizer, "pretokenizers",
                                    [&](const JsonNode &node, const std::string &type) {
                                      return readPreTokenizer(node, type, pipeline);
                                    }));
  MOERT_RETURN_IF_ERROR(
      forEachStep(postProcessor, "processors", [&](const JsonNode &node, const std::string &type) {
        return readPostProcessor(node, type, idCount, pipeline);
      }));
  pipeline.hasDecoder = !decoder.isNull();
  return forEachStep(decoder, "decoders", [&](const JsonNode &node, const std::string &type) {
    return readDecoder(node, type, pipeline);
  });
}

} // namespace moert
