// Templates that try to take more time, memory or stack than they may.
#include "tests/unit/chat/ChatTestData.h"

using namespace moert;

namespace {

std::string refusal(const std::string &source, const TemplateLimits &limits = {}) {
  const Result<std::string> text = renderText(source, nlohmann::ordered_json::object(), limits);
  REQUIRE_FALSE(text.isOk());
  CHECK(text.status().code() == StatusCode::kInvalidInput);
  return text.status().message();
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

std::string repeated(const std::string &part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += part;
  return text;
}

} // namespace

TEST_CASE("a template bomb is stopped by the limit of steps") {
  const std::string bombs[] = {
      // Nested loops.
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% for a in range(100000) %}{% for b in range(100000) %}{{ '' }}{% endfor %}{% endfor %}",
      // Large texts and lists.
      "{{ 'x' * 1000000000 }}",
      "{{ 'x' * 9223372036854775807 }}",
      "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor %}",
      "{% set ns = namespace(s='x' * 1000) %}{% for i in range(100) %}"
      "{% set ns.s = ns.s.replace('x', ns.s) %}{% endfor %}",
      "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
      "{{ ('y' * 1000000).join(range(100000)|map('string')) }}",
      "{{ ('x\n' * 100000)|indent(1000000, true) }}",
      "{{ [[[1]]]|tojson(indent=1000000000) }}",
      "{% for i in range(100000) %}{{ [i]|tojson(indent=100000) }}{% endfor %}",
      // A small value that is large when it is written or compared.
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}"
      "{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}"
      "{{ ns.l|tojson }}",
      "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
      // Reading a large text over and over.
      "{% set s = 'x' * 10000000 %}{% for i in range(100000) %}{% if s == s ~ 'y' %}{% endif %}{% "
      "endfor %}",
      "{% set s = 'é' * 1000000 %}{% for i in range(100000) %}{{ s[500000] }}{% endfor %}",
      "{% set s = 'x' * 10000000 %}{% for i in range(100000) %}{{ s.find('y') }}{% endfor %}",
      "{% set s = 'x' * 10000000 %}{% for i in range(100000) %}{{ 'y' in s }}{% endfor %}",
  };
  TemplateLimits limits;
  limits.steps = 400'000; // A tenth of the default, so that the test is quick.
  for (const std::string &bomb : bombs) {
    CAPTURE(bomb);
    CHECK(has(refusal(bomb, limits), "takes more than 400000 steps"));
  }
  CHECK(has(refusal(bombs[0]), "takes more than 4000000 steps"));
}

TEST_CASE("recursion is stopped by the limit of depth") {
  const std::string macro = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
  CHECK(has(refusal(macro), "nested deeper than 500 levels"));
  const std::string both =
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}";
  CHECK(has(refusal(both), "nested deeper than 500 levels"));
  TemplateLimits limits;
  limits.depth = 3;
  CHECK(has(refusal("{{ 1 + (2 + (3 + 4)) }}", limits), "nested deeper than 3 levels"));
}

TEST_CASE("output is stopped by its limit, also inside macros and blocks") {
  TemplateLimits limits;
  limits.outputBytes = 10;
  CHECK(renderText("{{ 'x' * 10 }}", nlohmann::ordered_json::object(), limits).isOk());
  for (const char *source : {"{{ 'x' * 11 }}", "abcdefghijk", "abcde{{ 123456 }}",
                             "{% set x %}{{ 'x' * 11 }}{% endset %}",
                             "{% macro m() %}{{ 'x' * 11 }}{% endmacro %}{% set x = m() %}",
                             "{% generation %}abcdefghijk{% endgeneration %}"}) {
    CAPTURE(source);
    CHECK(has(refusal(source, limits), "more than 10 bytes of output"));
  }
}

TEST_CASE("values that are nested too deep are refused") {
  const std::string lists =
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}";
  CHECK(has(refusal(lists), "nested deeper than 100 levels"));
  const std::string methods = "{% set ns = namespace(l={}) %}{% for i in range(1000) %}{% set ns.l "
                              "= {1: ns.l.get} %}{% endfor %}";
  CHECK(has(refusal(methods), "nested deeper than 100 levels"));
  const std::string loops = "{% set ns = namespace(l=1) %}{% for i in range(1000) %}"
                            "{% for x in [ns.l] %}{% set ns.l = loop %}{% endfor %}{% endfor %}";
  CHECK(has(refusal(loops), "nested deeper than 100 levels"));
}

TEST_CASE("a namespace that holds itself is released, and not printed") {
  CHECK(has(refusal("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a }}"),
            "printing a value of type Namespace is not supported"));
  const auto text =
      renderText("{% set ns = namespace() %}{% set ns.a = ns %}{% macro m() %}{% endmacro %}"
                 "{% set ns.m = m %}{% for x in [1] %}x"
                 "{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}",
                 nlohmann::ordered_json::object());
  REQUIRE_MESSAGE(text.isOk(), text.status().message());
  CHECK(text.value() == "x1");
}

TEST_CASE("a chain of namespaces of any length is released") {
  const auto text = renderText("{% set ns = namespace(a=0) %}{% for i in range(20000) %}"
                               "{% set ns.a = namespace(a=ns.a) %}{% endfor %}done",
                               nlohmann::ordered_json::object());
  REQUIRE_MESSAGE(text.isOk(), text.status().message());
  CHECK(text.value() == "done");
}

TEST_CASE("sources that nest too deep are refused before they are rendered") {
  const size_t many = 100000;
  for (const std::string &source :
       {"{{ " + repeated("(", many) + "1" + repeated(")", many) + " }}",
        "{{ " + repeated("[", many) + repeated("]", many) + " }}",
        "{{ " + repeated("{1:", many) + "1" + repeated("}", many) + " }}",
        "{{ " + repeated("-", many) + "1 }}", "{{ " + repeated("not ", many) + "1 }}",
        "{{ 1" + repeated(" + 1", many) + " }}", "{{ a" + repeated(".a", many) + " }}",
        "{{ a" + repeated("[0]", many) + " }}", "{{ a" + repeated("()", many) + " }}",
        "{{ a" + repeated("|list", many) + " }}", "{{ a" + repeated(" if a", many) + " }}",
        "{{ a" + repeated(" if a else a", many / 2) + " }}",
        "{{ a" + repeated(" or a", many) + " }}",
        "{{ a" + repeated("(b", many) + repeated(")", many) + " }}",
        repeated("{% if a %}", many / 2), repeated("{% for a in a %}", many / 2)}) {
    CAPTURE(source.substr(0, 40));
    const Result<ChatTemplate> compiled = ChatTemplate::compile(source, "test");
    REQUIRE_FALSE(compiled.isOk());
    const std::string &message = compiled.status().message();
    const bool isNamed =
        has(message, "deeper than 100 levels") || has(message, "more than 200 levels");
    CHECK_MESSAGE(isNamed, message);
  }
  CHECK(ChatTemplate::compile("{{ " + repeated("(", 40) + "1" + repeated(")", 40) + " }}", "t")
            .isOk());
}

TEST_CASE("a template above the largest size is refused, and one of that size is not") {
  CHECK(ChatTemplate::compile(std::string(kMaxTemplateBytes, 'x'), "t").isOk());
  const auto compiled = ChatTemplate::compile(std::string(kMaxTemplateBytes + 1, 'x'), "big.jinja");
  REQUIRE_FALSE(compiled.isOk());
  CHECK(compiled.status().message() ==
        "big.jinja: found a template of 1048577 bytes, expected at most 1048576");
}
