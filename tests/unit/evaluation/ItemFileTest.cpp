#include "runtime/evaluation/ItemFile.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("choice items are read line by line, other keys and empty lines left alone") {
  auto items = parseChoiceItems("\n"
                                R"({"subject": "s", "question": "q\u00e9", "choices": ["a", "b"],)"
                                R"( "answer": 1, "id": {"question": [1, "x"]}, "more": [["y"], 2]})"
                                "\r\n  \n"
                                R"({"question": "r", "choices": ["c", "d", "e"], "answer": 0})",
                                "f");
  REQUIRE_MESSAGE(items.isOk(), items.status().message());
  REQUIRE(items->size() == 2);
  CHECK((*items)[0].line == 2);
  CHECK((*items)[0].subject == "s");
  CHECK((*items)[0].question == "q\xC3\xA9");
  CHECK((*items)[0].choices == std::vector<std::string>{"a", "b"});
  CHECK((*items)[0].answer == 1);
  CHECK((*items)[1].line == 4);
  CHECK((*items)[1].subject.empty());
}

TEST_CASE("an answer is a text or a list of texts") {
  auto items = parseAnswerItems(R"({"prompt": "p ", "answer": "a"})"
                                "\n"
                                R"({"prompt": "q", "answer": ["b", "c"]})"
                                "\n",
                                "f");
  REQUIRE_MESSAGE(items.isOk(), items.status().message());
  REQUIRE(items->size() == 2);
  CHECK((*items)[0].prompt == "p ");
  CHECK((*items)[0].answers == std::vector<std::string>{"a"});
  CHECK((*items)[1].answers == std::vector<std::string>{"b", "c"});
}

static void checkRefused(const Status &status, const char *mention) {
  CHECK(status.code() == StatusCode::kInvalidInput);
  INFO(status.message());
  CHECK(status.message().find("f line 2: found ") != std::string::npos);
  CHECK(status.message().find(mention) != std::string::npos);
}

TEST_CASE("an invalid choice item is refused with its line") {
  const std::string first = R"({"question": "q", "choices": ["a", "b"], "answer": 0})"
                            "\n";
  struct Broken {
    const char *line, *mention;
  };
  for (auto [line, mention] :
       {Broken{R"({"choices": ["a", "b"], "answer": 0})", "no key \"question\""},
        Broken{R"({"question": "q", "answer": 0})", "no key \"choices\""},
        Broken{R"({"question": "q", "choices": ["a", "b"]})", "whole number from 0 to 1"},
        Broken{R"({"question": 3, "choices": ["a", "b"], "answer": 0})", "another kind of value"},
        Broken{R"({"question": "q", "choices": ["a", 1, "b"], "answer": 0})", "a list of texts"},
        Broken{R"({"question": "q", "choices": ["a"], "answer": 0})", "1 choices"},
        Broken{R"({"question": "q", "choices": ["a", "b"], "answer": 2})", "the answer 2"},
        Broken{R"({"question": "q", "choices": ["a", "b"], "answer": -1})", "from 0 to 1"},
        Broken{R"({"question": "q", "choices": ["a", "b"], "answer": "B"})", "from 0 to 1"},
        Broken{R"({"question": "q", "question": "r"})", "a key twice"},
        Broken{R"({"question": "q")", "no JSON"}, Broken{R"(["question"])", "no object"},
        Broken{R"("question")", "no object"}, Broken{"{} {}", "no JSON"},
        Broken{"{\"question\": \"\xFF\"}", "no JSON"}})
    checkRefused(parseChoiceItems(first + line, "f").status(), mention);
  checkRefused(parseChoiceItems(first + R"({"a": )" + std::string(100, '['), "f").status(),
               "nested deeper");
  checkRefused(parseChoiceItems(first + std::string("{}\0", 3), "f").status(), "zero byte");
}

TEST_CASE("an invalid answer item is refused with its line") {
  const std::string first = R"({"prompt": "p", "answer": "a"})"
                            "\n";
  struct Broken {
    const char *line, *mention;
  };
  for (auto [line, mention] :
       {Broken{R"({"answer": "a"})", "no key \"prompt\""},
        Broken{R"({"prompt": "", "answer": "a"})", "empty prompt"},
        Broken{R"({"prompt": "p"})", "no key \"answer\""},
        Broken{R"({"prompt": "p", "answer": []})", "empty list"},
        Broken{R"({"prompt": "p", "answer": ["a", null]})", "another kind of value"}})
    checkRefused(parseAnswerItems(first + line, "f").status(), mention);
}

TEST_CASE("a file without items is refused") {
  CHECK(parseChoiceItems("\n \n", "f").status().code() == StatusCode::kInvalidInput);
  CHECK(parseAnswerItems("", "f").status().message().find("no items") != std::string::npos);
}
