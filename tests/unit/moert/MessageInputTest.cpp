#include "tools/moert/chat/MessageInput.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moert::cli;

/// The messages of lines and of their end; a command's begins with "command:".
static std::vector<std::string> messagesOf(const std::vector<std::string> &lines) {
  MessageInput input;
  std::vector<std::string> messages;
  auto keep = [&](const std::optional<InputMessage> &message) {
    if (message)
      messages.push_back((message->isCommand ? "command:" : "") + message->text);
  };
  for (const std::string &line : lines)
    keep(input.addLine(line));
  keep(input.finish());
  return messages;
}

using Messages = std::vector<std::string>;

TEST_CASE("a line is a message, and lines of white space are none") {
  CHECK(messagesOf({"Hello", "", "  ", "there "}) == Messages{"Hello", "there "});
}

TEST_CASE("a line that ends in a backslash continues on the next one") {
  CHECK(messagesOf({"one\\", "two\\", "", "next"}) == Messages{"one\ntwo\n", "next"});
  CHECK(messagesOf({"one\\"}) == Messages{"one"});
}

TEST_CASE("pasted lines are one message and no command") {
  CHECK(messagesOf({"/one\n\ntwo", "next"}) == Messages{"/one\n\ntwo", "next"});
  CHECK(messagesOf({"one\ntwo\\", "three"}) == Messages{"one\ntwo\nthree"});
  CHECK(messagesOf({"\"\"\"one\ntwo\"\"\""}) == Messages{"one\ntwo"});
}

TEST_CASE("three quotes begin and end a message of any lines") {
  CHECK(messagesOf({"\"\"\"", "a\\", "", "/b", "\"\"\"", "next"}) == Messages{"a\\\n\n/b", "next"});
  CHECK(messagesOf({"\"\"\"a", "b\"\"\""}) == Messages{"a\nb"});
  CHECK(messagesOf({"\"\"\"/quit\"\"\""}) == Messages{"/quit"});
  CHECK(messagesOf({"\"\"\"", "unfinished"}) == Messages{"unfinished"});
  CHECK(messagesOf({"\"\"\"\"\"\"", "next"}) == Messages{"next"});
  CHECK(messagesOf({"say \"\"\"", "next"}) == Messages{"say \"\"\"", "next"});
}

TEST_CASE("a message that begins with a slash is a command") {
  CHECK(messagesOf({"/system Be\\", "brief"}) == Messages{"command:/system Be\nbrief"});
  CHECK(messagesOf({" /quit"}) == Messages{" /quit"});
}

TEST_CASE("lines from Windows lose their carriage return") {
  CHECK(messagesOf({"one\\\r", "two\r"}) == Messages{"one\ntwo"});
}

TEST_CASE("a message that was given up leaves nothing") {
  MessageInput input;
  CHECK_FALSE(input.addLine("\"\"\"one").has_value());
  CHECK(input.isContinued());
  input.clear();
  CHECK_FALSE(input.isContinued());
  CHECK(input.addLine("two")->text == "two");
}
