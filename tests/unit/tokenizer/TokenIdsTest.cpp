#include "runtime/text/tokenizer/TokenIds.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("ids are whole numbers between any white space") {
  auto ids = parseTokenIds(" 0\t12\r\n\n99 ", 100, "f");
  REQUIRE(ids.isOk());
  CHECK(*ids == std::vector<int32_t>{0, 12, 99});
  CHECK(parseTokenIds("7", 8, "f")->size() == 1);
  CHECK(parseTokenIds(" \n", 8, "f")->empty());
}

TEST_CASE("anything but an id below the vocabulary size is refused by file, text and place") {
  for (const char *word : {"12x", "x", "-1", "+3", "100", "1.0", "1e1", "0x1",
                           "99999999999999999999", "\xFF", "1,2"}) {
    CAPTURE(word);
    auto ids = parseTokenIds("5 " + std::string(word) + " 7", 100, "ids.txt");
    REQUIRE_FALSE(ids.isOk());
    CHECK(ids.status().code() == StatusCode::kInvalidInput);
    for (const char *part : {"ids.txt", word, "number 2", "0 to 99"})
      CHECK(ids.status().message().find(part) != std::string::npos);
  }
}

TEST_CASE("a long broken word is shortened in the message") {
  auto ids = parseTokenIds(std::string(1 << 20, 'x'), 100, "f");
  CHECK(ids.status().message().size() < 200);
}

TEST_CASE("written ids read back") {
  std::vector<int32_t> ids = {3, 0, 2147483646};
  std::string text;
  appendTokenIds(ids, text);
  CHECK(text == "3 0 2147483646");
  CHECK(*parseTokenIds(text, 2147483647, "f") == ids);
}
