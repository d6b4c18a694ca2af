#include "runtime/evaluation/TextDocuments.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace moert;

using Documents = std::vector<std::string>;

static Documents textsOf(const std::vector<TextDocument> &documents) {
  Documents texts;
  for (const TextDocument &document : documents) {
    CHECK(document.ids.empty());
    texts.push_back(document.text);
  }
  return texts;
}

static std::string write(const TemporaryDirectory &directory, const char *name,
                         const std::string &content) {
  const std::string path = directory.path(name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST_CASE("a text without separator lines is one document, as it is in the file") {
  const std::string text = "\n one\ntwo <|endoftext|> \n<|endoftext|> three\n\n";
  CHECK(textsOf(splitDocuments(text, "<|endoftext|>")) == Documents{text});
  CHECK(textsOf(splitDocuments("a\n---\nb\n", "")) == Documents{"a\n---\nb\n"}); // Never split.
}

TEST_CASE("separator lines and the line breaks around them are part of no document") {
  CHECK(textsOf(splitDocuments("one\n1\n---\ntwo\n---\nthree\n", "---")) ==
        Documents{"one\n1", "two", "three"});
  CHECK(textsOf(splitDocuments("one\r\n---\r\n two\n\n---\nthree", "---")) ==
        Documents{"one", " two\n", "three"}); // One line break alone.
}

TEST_CASE("documents of nothing but white space are skipped") {
  CHECK(textsOf(splitDocuments("---\n---\none\n---\n \n\n---\ntwo\n---\n", "---")) ==
        Documents{"one", "two"});
  CHECK(splitDocuments("---", "---").empty());
  CHECK(splitDocuments(" \n\n", "---").empty());
  CHECK(splitDocuments("", "---").empty());
}

TEST_CASE("a JSONL file has a document a line, its other keys and blank lines left alone") {
  auto documents = parseDocumentLines("{\"text\": \"one\\n\\u00e9\", \"meta\": {\"text\": [1]}}\r\n"
                                      "  \n{\"id\": 7, \"text\": \"two\\n---\\nx\"}\n"
                                      "{\"text\": \" \\n\"}\n{\"text\": \"three\"}",
                                      "f");
  REQUIRE_MESSAGE(documents.isOk(), documents.status().message());
  CHECK(textsOf(*documents) == Documents{"one\n\xC3\xA9", "two\n---\nx", "three"});
}

TEST_CASE("a line with ids is a document whatever its text, and says where it is") {
  auto documents =
      parseDocumentLines("{\"text\": \"one\"}\n\n"
                         "{\"text\": \" \\n\", \"ids\": [0, 2147483647]}\n"
                         "{\"text\": \"\", \"ids\": [3], \"more\": [-1, 0.5, \"x\", 1]}\n",
                         "f");
  REQUIRE_MESSAGE(documents.isOk(), documents.status().message());
  REQUIRE(documents->size() == 3);
  CHECK((*documents)[0].ids.empty());
  CHECK((*documents)[1].ids == std::vector<int32_t>{0, INT32_MAX});
  CHECK((*documents)[1].line == 3);
  CHECK((*documents)[2].ids == std::vector<int32_t>{3});
}

TEST_CASE("an invalid line is refused with its number, what was found and what was expected") {
  struct Broken {
    const char *line, *found;
  };
  for (const Broken &broken :
       {Broken{"{\"txt\": \"a\"}", "no key \"text\", expected one document a line as"},
        Broken{"{\"text\": 3}", "another kind of value for \"text\""},
        Broken{"{\"text\": [\"a\"]}", "another kind of value for \"text\""},
        Broken{"{\"text\": null}", "another kind of value for \"text\""},
        Broken{"{\"text\": \"a\", \"ids\": []}", "\"ids\", expected one or more token ids"},
        Broken{"{\"text\": \"a\", \"ids\": 1}", "another kind of value for \"ids\""},
        Broken{"{\"text\": \"a\", \"ids\": [1, -1]}", "another kind of value for \"ids\""},
        Broken{"{\"text\": \"a\", \"ids\": [1, \"b\", 2]}", "another kind of value for \"ids\""},
        Broken{"{\"text\": \"a\", \"ids\": [\"b\", 2]}", "another kind of value for \"ids\""},
        Broken{"{\"text\": \"a\", \"ids\": [1, 2.0]}", "another kind of value for \"ids\""},
        Broken{"{\"text\": \"a\", \"ids\": [[1]]}", "another kind of value for \"ids\""},
        Broken{"{\"text\": \"a\", \"ids\": [2147483648]}", "another kind of value for \"ids\""},
        Broken{"{\"text\": \"a\", \"text\": \"b\"}", "a key twice"},
        Broken{"[\"a\"]", "expected one object a line"}, Broken{"\"a\"", "no object"},
        Broken{"{\"text\": \"a\"", "no JSON from byte"},
        Broken{"{\"text\": \"a\"} {\"text\": \"b\"}", "no JSON from byte"},
        Broken{"{\"text\": \"\\ud800\"}", "no JSON from byte"}, Broken{"plain text", "no JSON"}}) {
    CAPTURE(broken.line);
    auto documents =
        parseDocumentLines(std::string("{\"text\": \"good\"}\n") + broken.line + "\n", "FILE");
    CHECK(documents.status().code() == StatusCode::kInvalidInput);
    INFO(documents.status().message());
    CHECK(documents.status().message().find("FILE line 2: found ") == 0);
    CHECK(documents.status().message().find(broken.found) != std::string::npos);
  }
}

TEST_CASE("the file's name decides how it is read, and its bytes decide its identity") {
  TemporaryDirectory directory;
  const std::string content = "{\"text\": \"one\"}\n---\n{\"text\": \"two\"}\n";
  const std::string lines = write(directory, "a.jsonl", "{\"text\": \"one\"}\n"),
                    text = write(directory, "a.txt", content);
  auto fromLines = readTextFile(lines, "---"), fromText = readTextFile(text, "---");
  REQUIRE(fromLines.isOk());
  REQUIRE(fromText.isOk());
  CHECK(textsOf(fromLines->documents) == Documents{"one"});
  CHECK(textsOf(fromText->documents) == Documents{"{\"text\": \"one\"}", "{\"text\": \"two\"}"});
  CHECK(fromText->bytes == content.size());
  CHECK(fromText->hash != fromLines->hash);
  CHECK(fromText->name == "'" + text + "'");
}

TEST_CASE("a document is known in any file, at any place, and with text after it") {
  auto idOf = [](std::string text) { return documentIdOf({.text = std::move(text), .ids = {}}); };
  const DocumentId known = idOf("one two\n\nthree");
  CHECK(known.begin == known.end);
  CHECK(idOf(" one\ttwo\r\nthree\n") == known);
  CHECK(idOf("one two four") != known);
  std::string text;
  for (int i = 0; text.size() < 2 * kDocumentIdBytes; ++i)
    text += strCat(i, " ");
  const DocumentId whole = idOf(text), longer = idOf(text + "and a line\n"),
                   later = idOf("first " + text);
  CHECK(whole.begin != whole.end);
  CHECK(longer.begin == whole.begin);
  CHECK(longer.end != whole.end);
  CHECK(later.end == whole.end);
  CHECK(later.begin != whole.begin);
  CHECK(documentIdOf({.text = " ", .ids = {1, 2}}) != documentIdOf({.text = " ", .ids = {1, 3}}));
}

TEST_CASE("files that cannot be read as text are refused by name") {
  TemporaryDirectory directory;
  for (const std::string &path :
       {directory.path("none.jsonl"), write(directory, "bad.txt", "a\xFF"),
        write(directory, "bad.jsonl", "{\"text\": \"a\xFF\"}"), directory.path("")}) {
    auto file = readTextFile(path, "---");
    CHECK(file.status().code() == StatusCode::kInvalidInput);
    INFO(file.status().message());
    CHECK(file.status().message().find(path) != std::string::npos);
  }
}

TEST_CASE("a separator that no line can equal is refused") {
  CHECK(checkDocumentSeparator(kDocumentSeparator).isOk());
  CHECK(checkDocumentSeparator("").isOk());
  CHECK(checkDocumentSeparator("a\nb").code() == StatusCode::kInvalidInput);
  CHECK(checkDocumentSeparator("\xFF").code() == StatusCode::kInvalidInput);
}
