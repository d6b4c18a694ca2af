#include "tools/moert-serve/CallGrammar.h"

#include "runtime/base/Excerpt.h"
#include "runtime/text/grammar/JsonRules.h"
#include "runtime/text/grammar/SchemaParts.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace moert::serve {

namespace {

using Json = nlohmann::ordered_json;
using Sequence = Grammar::Sequence;

/// Definitions that are copied for each parameter that refers to them.
constexpr size_t kMostDefinitionBytes = 64 * 1024;
/// Alternatives of a parameter, those of references included, which may repeat them.
constexpr uint32_t kMostAlternatives = 1000;

bool isPlainName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

/// What a parameter without quotes may be.
struct TextKinds {
  bool isText = false; // Any text.
  bool isNull = false, isOther = false;
  bool isUnknown = false;              // A keyword that may restrict texts.
  std::vector<std::string> texts = {}; // An enumeration.
  uint32_t alternatives = 0;           // Read so far.
};

/// A reference's schema, or the schema itself. Null if there is none at that place.
const Json *resolved(const Json &schema, const Json &root) {
  if (!schema.is_object() || !schema.contains("$ref"))
    return &schema;
  UnenforcedKeywords unenforced;
  const auto place = SchemaPartFinder(root, unenforced).placeOf({&schema, "#"});
  return place.isOk() ? *place : nullptr;
}

void addType(const Json &type, TextKinds &kinds) {
  if (type == "string")
    kinds.isText = true;
  else if (type == "null")
    kinds.isNull = true;
  else
    kinds.isOther = true;
}

void addKinds(const Json &stated, const Json &root, TextKinds &kinds, uint32_t levels) {
  if (kinds.isUnknown)
    return;
  const Json *schema = resolved(stated, root);
  if (!schema || !schema->is_object() || levels == 0 || ++kinds.alternatives > kMostAlternatives) {
    kinds.isUnknown = true;
    return;
  }
  const auto values = schema->find("enum");
  if (schema->contains("const") || values != schema->end()) {
    for (const Json &value :
         values == schema->end() ? Json::array({(*schema)["const"]}) : *values) {
      if (value.is_string())
        kinds.texts.push_back(value.get<std::string>());
      else
        addType(value.is_null() ? "null" : "other", kinds);
    }
    return;
  }
  for (const char *name : {"anyOf", "allOf"})
    if (const auto list = schema->find(name); list != schema->end()) {
      for (const Json &one : *list)
        addKinds(one, root, kinds, levels - 1);
      return;
    }
  const auto type = schema->find("type");
  if (type == schema->end()) {
    kinds.isUnknown = true;
    return;
  }
  for (const Json &one : type->is_array() ? *type : Json::array({*type}))
    addType(one, kinds);
  constexpr std::array kDescribing = {"type", "title", "description", "default", "examples"};
  for (const auto &member : schema->items())
    if (kinds.isText &&
        std::find(kDescribing.begin(), kDescribing.end(), member.key()) == kDescribing.end())
      kinds.isUnknown = true;
}

class CallGrammar : private RuleWriter {
public:
  CallGrammar(Grammar &built, const CallWriting &callWriting, const ToolTypes &toolTypes)
      : RuleWriter(built), writing(callWriting), types(toolTypes) {}

  Result<SchemaGrammar> build(std::span<const FunctionSchema> functions, bool allowsSeveral) {
    const uint32_t answer = grammar.addRule(), call = grammar.addRule(), rest = grammar.addRule();
    for (const FunctionSchema &function : functions) {
      MOERT_ASSIGN_OR_RETURN(const Sequence sequence, callOf(function));
      grammar.addAlternative(call, sequence);
      if (grammar.size() > Grammar::kMostElements)
        return invalidInput("the tools' schemas are too large");
    }
    grammar.addAlternative(answer, join({text(writing.start), one(call), one(rest)}));
    grammar.addAlternative(rest, text(writing.end));
    if (allowsSeveral && !writing.between.empty())
      grammar.addAlternative(rest, join({text(writing.between), one(call), one(rest)}));
    if (const std::optional<Grammar::Fault> fault = grammar.findFault())
      return invalidInput("the tools' schemas: ", fault->reason);
    grammar.shrink();
    return SchemaGrammar{std::move(grammar), unenforced.list()};
  }

private:
  Result<Sequence> callOf(const FunctionSchema &function) {
    static const Json kNone = {
        {"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
    const std::string context = strCat("function '", excerpt(function.name), "'");
    place = context + ": ";
    const bool isQuoted = writing.beforeName.ends_with('"');
    if (!isQuoted && !isPlainName(function.name))
      return invalidInput(context, ": its name has other characters");
    const std::string name = jsonString(function.name); // Within quotes.
    const Json &parameters = function.parameters ? *function.parameters : kNone;
    const Result<uint32_t> arguments = writing.hasJsonArguments()
                                           ? schemaRule(parameters, parameters)
                                           : listRule(function.name, parameters);
    if (!arguments.isOk())
      return Status(arguments.status()).withContext(context);
    return join({text(writing.beforeName),
                 text(isQuoted ? std::string_view(name).substr(1, name.size() - 2) : function.name),
                 afterName(), one(*arguments), text(writing.afterArguments)});
  }

  Sequence afterName() {
    const size_t number = writing.afterName.find('#');
    if (number == std::string_view::npos)
      return text(writing.afterName);
    ByteSet digits;
    digits.add('0', '9');
    const uint32_t second = newRule({{}, {grammar.bytes(digits)}});
    return join({text(writing.afterName.substr(0, number)),
                 {grammar.bytes(digits)},
                 one(second),
                 text(writing.afterName.substr(number + 1))});
  }

  /// The JSON values of a schema within another one, whose definitions it may refer to.
  Result<uint32_t> schemaRule(const Json &schema, const Json &root) {
    if (&schema == &root)
      return addSchema(schema);
    const std::string text = schema.dump();
    const bool refers = text.find("\"$ref\"") != std::string::npos;
    if (const auto known = schemas.find(text); known != schemas.end() && !refers)
      return known->second;
    Json whole = schema;
    for (const char *name : {"$defs", "definitions"}) {
      if (!refers || !whole.is_object() || !root.contains(name))
        continue;
      if (root[name].dump().size() > kMostDefinitionBytes)
        return invalidInput("'", name, "' is too large");
      whole[name] = root[name];
    }
    MOERT_ASSIGN_OR_RETURN(const uint32_t rule, addSchema(whole));
    schemas[text] = rule;
    return rule;
  }

  Result<uint32_t> addSchema(const Json &schema) {
    MOERT_ASSIGN_OR_RETURN(const SchemaGrammar values, grammarOfSchema(schema));
    if (grammar.size() + values.grammar.size() > Grammar::kMostElements)
      return invalidInput("the tools' schemas are too large");
    for (const std::string &keyword : values.unenforced)
      unenforced.add(place + keyword);
    return grammar.append(values.grammar);
  }

  /// Parameters in the schema's order, of which optional ones may be left out.
  Result<uint32_t> listRule(const std::string &function, const Json &parameters) {
    constexpr std::array kKept = {
        "type",    "properties",  "required", "additionalProperties", "$defs",
        "$schema", "definitions", "title",    "description",          "strict"};
    if (!parameters.is_object())
      return invalidInput("'parameters' is no object");
    for (const auto &member : parameters.items())
      if (std::find(kKept.begin(), kKept.end(), member.key()) == kKept.end())
        return invalidInput("the keyword '", excerpt(member.key()), "' is not supported");
    static const Json kNoProperties = Json::object(), kNoneRequired = Json::array();
    const auto memberOf = [&](const char *name, const Json &otherwise) -> const Json & {
      return parameters.contains(name) ? parameters[name] : otherwise;
    };
    const Json &properties = memberOf("properties", kNoProperties);
    const Json &required = memberOf("required", kNoneRequired);
    if (!properties.is_object() || !required.is_array())
      return invalidInput("'properties' or 'required' has another type");
    for (const Json &name : required)
      if (!name.is_string() || !properties.contains(name.get<std::string>()))
        return invalidInput("'required' names other properties");
    std::vector<std::pair<Sequence, bool>> pairs; // Whether it is required.
    for (const auto &member : properties.items()) {
      MOERT_ASSIGN_OR_RETURN(Sequence pair,
                             pairOf(function, member.key(), member.value(), parameters));
      pairs.emplace_back(std::move(pair), std::find(required.begin(), required.end(),
                                                    member.key()) != required.end());
    }
    uint32_t first = newRule({{}}), rest = first; // As in the grammars of objects.
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      std::vector<Sequence> begins = {join({pair->first, one(rest)})};
      std::vector<Sequence> follows = {join({text(writing.separator), pair->first, one(rest)})};
      if (!pair->second) {
        begins.push_back(one(first));
        follows.push_back(one(rest));
      }
      first = newRule(begins);
      rest = newRule(follows);
    }
    return first;
  }

  Result<Sequence> pairOf(const std::string &function, const std::string &name, const Json &schema,
                          const Json &root) {
    if (!isPlainName(name))
      return invalidInput("parameter '", excerpt(name), "': its name has other characters");
    const Sequence key = join({text(writing.beforeKey), text(name)});
    TextKinds kinds;
    if (writing.hasPlainTexts())
      addKinds(schema, root, kinds, 8);
    if (!kinds.isUnknown && !kinds.isText && kinds.texts.empty()) {
      const std::string outer = place;
      place += strCat("parameter '", name, "': ");
      const Result<uint32_t> value = schemaRule(schema, root);
      place = outer;
      MOERT_RETURN_IF_ERROR(value.status());
      return join({key, text(writing.afterKey), one(*value), text(writing.afterValue)});
    }
    const std::string context = strCat("parameter '", excerpt(name), "'");
    if (kinds.isUnknown || kinds.isOther)
      return invalidInput(context, ": a text has bounds, or may be something else");
    const std::string_view end = writing.quote.empty() ? writing.afterValue : writing.quote;
    std::string_view mark = end; // A text that is not listed ends with it.
    mark.remove_prefix(mark.find_first_not_of('\n'));
    const std::string_view tail = mark.substr(mark.find_last_not_of('\n') + 1);
    mark.remove_suffix(tail.size());
    // A text that looks like JSON has to stay one.
    const auto isRead = [&](const std::string &value) {
      return value.find(mark) == std::string::npos &&
             (!writing.quote.empty() || !writing.afterKeyOfText.empty() ||
              types.valueOf(function, name, value) == jsonString(value));
    };
    std::vector<std::string> texts = kinds.isText ? std::vector<std::string>{"0"} : kinds.texts;
    if (!std::all_of(texts.begin(), texts.end(), isRead))
      return invalidInput(context, ": a text would be read as something else");
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    const std::string_view afterKey =
        writing.afterKeyOfText.empty() ? writing.afterKey : writing.afterKeyOfText;
    const uint32_t value = kinds.isText ? textUntil(mark) : oneOf(texts, 0);
    return join({key, text(afterKey), text(writing.quote), one(value),
                 text(kinds.isText ? tail : end),
                 text(writing.quote.empty() ? "" : writing.afterValue)});
  }

  /// A text up to the first mark, and the mark. Rule i: the text so far ends with i bytes of it.
  uint32_t textUntil(std::string_view mark) {
    if (untilMark)
      return *untilMark;
    const uint32_t first = grammar.ruleCount();
    untilMark = first;
    for (size_t i = 0; i < mark.size(); ++i)
      grammar.addRule();
    for (size_t i = 0; i < mark.size(); ++i) {
      std::map<size_t, ByteSet> sets; // By the bytes of the mark that the text ends with then.
      for (unsigned byte = 0; byte < 256; ++byte) {
        if (byte < ' ' && byte != '\n' && byte != '\t')
          continue;
        const std::string seen = std::string(mark.substr(0, i)) + static_cast<char>(byte);
        size_t size = seen.size();
        while (size > 0 && !mark.starts_with(std::string_view(seen).substr(seen.size() - size)))
          --size;
        sets[size].add(static_cast<unsigned char>(byte));
      }
      for (const auto &[size, set] : sets) {
        Sequence next = {grammar.bytes(set)};
        if (size < mark.size())
          next.push_back(Grammar::ruleOf(first + static_cast<uint32_t>(size)));
        grammar.addAlternative(first + static_cast<uint32_t>(i), next);
      }
    }
    return first;
  }

  const CallWriting &writing;
  const ToolTypes &types;
  UnenforcedKeywords unenforced;
  std::string place;                       // The schema that is read has it.
  std::map<std::string, uint32_t> schemas; // By the parameter's text.
  std::optional<uint32_t> untilMark;       // The form's only one.
};

} // namespace

Result<SchemaGrammar> grammarOfCalls(const CallWriting &writing,
                                     std::span<const FunctionSchema> functions,
                                     const ToolTypes &types, bool allowsSeveral) {
  Grammar grammar;
  return CallGrammar(grammar, writing, types).build(functions, allowsSeveral);
}

} // namespace moert::serve
