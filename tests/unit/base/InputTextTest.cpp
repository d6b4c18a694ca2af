#include "runtime/base/InputText.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace moert;

TEST_CASE("a file's content is read unchanged") {
  const std::string path = "input_text_test.txt";
  const std::string content = std::string("a\0b\r\n", 5) + std::string(200000, 'x');
  std::ofstream(path, std::ios::binary) << content;
  auto text = readInput(path);
  REQUIRE(text.isOk());
  CHECK(*text == content);
  std::remove(path.c_str());
}

TEST_CASE("a missing file and a directory are refused by name") {
  for (const char *path : {"no such file", "/"}) {
    auto text = readInput(path);
    CHECK(text.status().code() == StatusCode::kInvalidInput);
    CHECK(text.status().message().find(path) != std::string::npos);
  }
}

TEST_CASE("a file of more than 1 GiB is refused by its size, without being read") {
  const std::string path = "input_text_test.txt";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, (uint64_t(1) << 30) + 1); // A sparse file.
  auto text = readInput(path);
  CHECK(text.status().code() == StatusCode::kInvalidInput);
  CHECK(text.status().message() ==
        "'input_text_test.txt' has 1073741825 bytes, expected at most 1.00 GiB");
  std::remove(path.c_str());
}

TEST_CASE("an error while reading is a system error, not invalid input") {
  auto text = readInput("/proc/self/mem"); // Nothing is mapped at its beginning.
  CHECK(text.status().code() == StatusCode::kFailed);
  CHECK(text.status().message().find("cannot read '/proc/self/mem'") != std::string::npos);
}

TEST_CASE("UTF-8 is accepted and otherwise the first wrong byte is named") {
  CHECK(checkUtf8("", "p").isOk());
  CHECK(checkUtf8("Zw\xC3\xB6lf \xF0\x9F\x99\x82", "p").isOk());
  struct Broken {
    const char *text, *mention;
  };
  for (auto [text, mention] :
       {Broken{"ab\xFF", "0xff at offset 2"}, Broken{"\xC3", "0xc3"},
        Broken{"\xED\xA0\x80", "offset 0"}, Broken{"a\xC0\xAF", "offset 1"}}) {
    Status status = checkUtf8(text, "prompt.txt");
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK(status.message().find("prompt.txt") != std::string::npos);
    CHECK(status.message().find(mention) != std::string::npos);
  }
}
