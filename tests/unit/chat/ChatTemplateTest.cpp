// What callers see: errors with their places, variables, the clock, and what is refused by name.
#include "tests/unit/chat/ChatTestData.h"

#include "runtime/text/chat/ConversationTemplate.h"

#include <sstream>
#include <tuple>

using namespace moert;
using Json = nlohmann::ordered_json;

namespace {

std::string messageOf(const std::string &source, const Json &context = Json::object()) {
  const Result<std::string> text = renderText(source, context);
  REQUIRE_FALSE(text.isOk());
  return text.status().message();
}

} // namespace

TEST_CASE("an error names the template and the line of the expression") {
  CHECK(messageOf("a\nb {{ x.y }}") == "test: line 2: 'x' is undefined");
  CHECK(messageOf("{% macro m() %}\n\n{{ 1 / 0 }}\n{% endmacro %}\n{{ m() }}") ==
        "test: line 3: division by zero");
  CHECK(messageOf("{{ 1 +\n'a' }}").starts_with("test: line 1: unsupported operand type(s) for +"));
  CHECK(messageOf("{# a\nb\n#}{{ 1 1 }}") == "test: line 3: found '1', expected '}}'");
  CHECK(messageOf("{%- if 1 -%}\n\n\n{{ x() }}{% endif %}") == "test: line 4: 'x' is undefined");
}

TEST_CASE("a refusal by the template carries its message, with control characters escaped") {
  CHECK(messageOf("{{ raise_exception('roles must alternate\x1b') }}") ==
        "test: line 1: the template refuses the conversation: roles must alternate\\x1b");
}

TEST_CASE("what is not supported is refused by its name and line") {
  const std::pair<const char *, const char *> cases[] = {
      {"\n{{ x|pprint }}", "test: line 2: the filter 'pprint' is not supported"},
      {"{{ x is escaped }}", "test: line 1: the test 'escaped' is not supported"},
      {"{% include 'a' %}", "test: line 1: the tag 'include' is not supported here"},
      {"{% block a %}{% endblock %}", "test: line 1: the tag 'block' is not supported here"},
      {"{{ 'a'.format(1) }}", "test: line 1: the attribute 'format' of type str is not supported"},
      {"{{ (1).real }}", "test: line 1: the attribute 'real' of type int is not supported"},
      {"{{ lipsum() }}", "test: line 1: 'lipsum' is not supported"},
      {"{{ super() }}", "test: line 1: 'super' is not supported"},
      {"{{ x[1, 2] }}", "test: line 1: a subscript of several values is not supported"},
      {"{{ '\\N{DASH}' }}", "test: line 1: the escape \\N is not supported"},
      {"{{ strftime_now('%s') }}",
       "test: line 1: strftime_now: the directive '%s' is not supported"},
      {"{{ [1]|map('nope')|list }}", "test: line 1: the filter 'nope' is not supported"},
      {"{{ 1 < 2 < 3 }}", "test: line 1: a chain of comparisons is not supported"},
  };
  for (const auto &refused : cases) {
    CAPTURE(refused.first);
    CHECK(messageOf(refused.first) == refused.second);
  }
}

TEST_CASE("what jinja2 has by default and this program does not is refused by its name") {
  const std::tuple<const char *, std::string, std::string> kinds[] = {
      {"abs attr batch center e escape filesizeformat float forceescape format groupby max min "
       "pprint random round slice sort striptags sum title truncate unique urlencode urlize "
       "wordcount wordwrap xmlattr",
       "{{ [1]|", "the filter '@'"},
      {"callable divisibleby escaped filter lower sameas test upper", "{{ 1 is ", "the test '@'"},
      {"caller cycler dict joiner kwargs lipsum self super varargs", "{{ ", "'@'"},
      {"changed cycle depth depth0", "{% for x in [1] %}{{ loop.",
       "the attribute '@' of type LoopContext"},
      {"casefold center count encode expandtabs format format_map index isalnum isalpha isascii "
       "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper ljust "
       "maketrans partition removeprefix removesuffix rfind rindex rjust rpartition splitlines "
       "swapcase translate zfill",
       "{{ 'a'.", "the attribute '@' of type str"},
      {"clear copy fromkeys pop popitem setdefault update", "{{ {}.",
       "the attribute '@' of type dict"},
      {"append clear copy count extend index insert pop remove reverse sort", "{{ [].",
       "the attribute '@' of type list"},
      {"count index", "{{ ().", "the attribute '@' of type tuple"},
  };
  for (const auto &[names, before, what] : kinds) {
    std::istringstream words(names);
    for (std::string name; words >> name;) {
      const std::string source =
          before + name + " }}" + (before.starts_with("{%") ? "{% endfor %}" : "");
      CAPTURE(source);
      std::string message = what;
      message.replace(message.find('@'), 1, name);
      CHECK(messageOf(source) == "test: line 1: " + message + " is not supported");
    }
  }
  for (const char *name : {"block", "call", "extends", "filter", "from", "import", "include",
                           "print", "with", "debug", "trans"}) {
    CAPTURE(name);
    CHECK(messageOf("{% " + std::string(name) + " x %}") ==
          "test: line 1: the tag '" + std::string(name) + "' is not supported here");
  }
}

TEST_CASE("an unknown filter or test matters only where it is reached") {
  const Result<std::string> text =
      renderText("{% if false %}{{ x|from_json(1) }}{{ [1, 2]|map('abs') }}{% endif %}"
                 "{{ 1 if false and x is odder 3 else 2 }}",
                 Json::object());
  REQUIRE(text.isOk());
  CHECK(*text == "2");
  CHECK(messageOf("{% if true %}\n{{ x|from_json }}{% endif %}") ==
        "test: line 2: the filter 'from_json' is not supported");
}

TEST_CASE("an integer of more than 64 bits is refused by name wherever it comes from") {
  const std::string overflow = "an integer needs more than 64 bits, which is not supported";
  for (const char *source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}",
        "{{ 4294967296 * 4294967296 }}", "{{ '1e30'|int }}", "{{ '9223372036854775808'|int }}",
        "{{ 9223372036854775808 }}", "{{ (-9223372036854775807 - 1) // -1 }}"}) {
    CAPTURE(source);
    CHECK(messageOf(source) == "test: line 1: " + overflow);
  }
  CHECK(messageOf("", {{"n", 18446744073709551615U}}) == "test: the variables: " + overflow);
}

TEST_CASE("variables have to be an object of valid UTF-8 that is not nested too deep") {
  CHECK(messageOf("", Json::array()) == "test: the variables: found a array, expected an object");
  CHECK(messageOf("", {{"a", "\xff"}}) ==
        "test: the variables: found a text that is not valid UTF-8");
  Json deep = 1;
  for (int i = 0; i < 200; ++i)
    deep = Json::array({deep});
  CHECK(messageOf("", {{"a", deep}}) ==
        "test: the variables: lists and objects are nested deeper than 100 levels");
  const auto compiled = ChatTemplate::compile("\xc3", "t");
  REQUIRE_FALSE(compiled.isOk());
  CHECK(compiled.status().message() == "t: the template is not valid UTF-8");
}

TEST_CASE("members of objects keep their order, and a repeated rendering gives the same text") {
  const Json context = Json::parse(R"({"o": {"z": 1, "a": {"y": 2, "b": 3}}})");
  const auto compiled = ChatTemplate::compile("{{ o }}{{ o|tojson }}", "t");
  REQUIRE(compiled.isOk());
  for (int i = 0; i < 2; ++i)
    CHECK(compiled->render(context).value() ==
          "{'z': 1, 'a': {'y': 2, 'b': 3}}{\"z\": 1, \"a\": {\"y\": 2, \"b\": 3}}");
}

TEST_CASE("a variable of the context hides a global function, supported or not") {
  CHECK(renderText("{{ range }}{{ cycler }}", {{"range", 5}, {"cycler", 6}}).value() == "56");
}

TEST_CASE("a template that shows only lists of parts gets texts as such") {
  const auto shown = [](const std::string &content, const Json &messages) {
    const std::string source = "{% for m in messages %}" + content + "{% endfor %}";
    const auto compiled = ConversationTemplate::compile(source, "test", Json::object());
    return compiled.value().render(messages).value();
  };
  const std::string list = "{% for part in m.content %}{{ part.text }}{% endfor %}";
  const Json message = {{{"role", "user"}, {"content", "a"}}};
  CHECK(shown(list, message) == "a");
  CHECK(shown("{{ m.content }}", message) == "a");
  CHECK(shown("{% if m.content is string %}{{ m.content }}b{% else %}" + list + "{% endif %}",
              message) == "ab");
  CHECK(shown("no content", message) == "no content");
  const Json mixed = Json::parse(R"([{"role": "user", "content": "a"}, {"role": "tool",
      "content": [{"type": "text", "text": "b"}]}, {"role": "assistant", "content": null}])");
  CHECK(shown("{% if m.content %}" + list + "{% else %}none{% endif %}", mixed) == "abnone");
}

TEST_CASE("variables of one rendering replace those of the template") {
  const auto compiled =
      ConversationTemplate::compile("{{ a }}{{ b }}", "test", {{"a", 1}, {"b", 2}});
  CHECK(compiled.value().render(Json::array()).value() == "12");
  CHECK(compiled.value().render(Json::array(), {{"b", 3}}).value() == "13");
}
