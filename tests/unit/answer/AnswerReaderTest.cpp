// Reasoning in its published forms, and what holds for any text.
#include "tests/unit/answer/Reading.h"

#include <random>

using namespace moert;

namespace {

const AnswerFormat kPlain("");
const AnswerFormat kChannels("<|start|>{{ role }}<|message|>");
const AnswerFormat kGemma("<|turn>");

} // namespace

TEST_CASE("an answer without reasoning is unchanged, white space included") {
  for (const std::string text : {" \n Hello <b>there</b>\n\n", "\n\n", ""})
    for (const AnswerFormat *format : {&kPlain, &kChannels, &kGemma})
      CHECK(readBothWays(text, *format).content == text);
}

TEST_CASE("reasoning is separated, and the white space around it is left out") {
  for (const char *text :
       {"<think>\nLet me see.\n</think>\n\nIt is 4.", "\n<think>Let me see.</think>It is 4.",
        "[THINK]Let me see.[/THINK] It is 4."}) {
    const Reading reading = readBothWays(text, kPlain);
    CHECK(reading.reasoning == "Let me see.");
    CHECK(reading.content == "It is 4.");
  }
  const Reading spaces = readBothWays("<think>a\n\n b </think>\nc \n d", kPlain);
  CHECK(spaces.reasoning == "a\n\n b");
  CHECK(spaces.content == "c \n d");
}

TEST_CASE("a prompt that ends with the marker begins in reasoning") {
  const Reading open =
      readBothWays("Hm.\n</think>\nYes.", kPlain, nullptr, "<|im_start|>assistant\n<think>\n");
  CHECK(open.reasoning == "Hm.");
  CHECK(open.content == "Yes.");
  const Reading closed = readBothWays("Yes.", kPlain, nullptr, "<think>\n\n</think>\n\n");
  CHECK(closed.content == "Yes.");
  CHECK(closed.reasoning.empty());
}

TEST_CASE("an answer may mention the markers") {
  for (const char *text : {"Use <think> here </think>.", "Use <think> here", "<thin"})
    CHECK(readBothWays(text, kPlain).content == text);
  const Reading again = readBothWays("<think>a</think>b <think>c</think>", kPlain);
  CHECK(again.reasoning == "a");
  CHECK(again.content == "b <think>c</think>");
  CHECK(readBothWays("<think>a </thin b", kPlain).reasoning == "a </thin b");
}

TEST_CASE("the channels of gpt-oss are reasoning and answer, and their headers are markup") {
  const Reading reading =
      readBothWays("<|channel|>analysis<|message|>We need 4.<|end|><|start|>assistant"
                   "<|channel|>final<|message|>It is 4<|return|>",
                   kChannels);
  CHECK(reading.reasoning == "We need 4.");
  CHECK(reading.content == "It is 4");
  const Reading cut = readBothWays("<|channel|>analysis<|message|>We need", kChannels);
  CHECK(cut.reasoning == "We need");
  CHECK(readBothWays("<|channel|>fin", kChannels).content.empty());
  // A preamble to a call is for the user.
  const Reading call =
      readBothWays("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
                   "<|channel|>commentary to=functions.now<|message|>{}<|call|>",
                   kChannels, kChannels.calls());
  CHECK(call.content == "I look.");
  CHECK(call.calls.size() == 1);
}

TEST_CASE("the forms of Gemma 4, Granite and Seed are read with their templates only") {
  const std::string gemma = "<|channel>thought\nLet me see.<channel|>It is 4.";
  CHECK(readBothWays(gemma, kGemma).reasoning == "Let me see.");
  CHECK(readBothWays(gemma, kGemma).content == "It is 4.");
  CHECK(readBothWays(gemma, kPlain).content == gemma);
  const AnswerFormat granite("Write your thought process <response></response>");
  const Reading old =
      readBothWays("Here is my thought process: a b\n\nHere is my response: c", granite);
  CHECK(old.reasoning == "a b");
  CHECK(old.content == "c");
  const Reading tags = readBothWays("<think>a</think><response>b</response>", granite);
  CHECK(tags.reasoning == "a");
  CHECK(tags.content == "b");
  const AnswerFormat seed("<seed:think>");
  CHECK(readBothWays("<seed:think>a</seed:think>b", seed).reasoning == "a");
}

TEST_CASE("no text is lost or doubled, and cuts change nothing, in answers of random pieces") {
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "{\"name\": \"now\", \"arguments\": ",
                                           "{\"a\": 1}",
                                           "}",
                                           "<think>",
                                           "</think>",
                                           " ",
                                           "\n",
                                           "now",
                                           "<function=now>",
                                           "<parameter=a>",
                                           "1",
                                           "</parameter>",
                                           "</function>",
                                           "<arg_key>a</arg_key>",
                                           "<arg_value>1</arg_value>",
                                           "<|channel|>",
                                           "analysis",
                                           "<|message|>",
                                           "commentary to=functions.now ",
                                           "<|call|>",
                                           "<|end|>",
                                           "<|start|>assistant",
                                           "[TOOL_CALLS]",
                                           "[ARGS]",
                                           "[",
                                           "]",
                                           "now()",
                                           "\"",
                                           "<",
                                           "[THINK]",
                                           "[/THINK]",
                                           "{",
                                           "<|channel>thought",
                                           "<channel|>",
                                           "<minimax:tool_call>",
                                           "<invoke name=\"now\">",
                                           "</invoke>",
                                           "</minimax:tool_call>",
                                           "\xC3",
                                           "\xFF"};
  const std::vector<std::string> templates = {
      "",        "<tool_call>",  "<arg_key>",           "<function=",       "<|message|>",
      "<|turn>", "[TOOL_CALLS]", "<minimax:tool_call>", "<|python_start|>", "<|python_tag|>"};
  std::mt19937 random(20261128);
  for (const std::string &text : templates) {
    const AnswerFormat format(text);
    for (int run = 0; run < 2000; ++run) {
      std::string answer;
      for (size_t count = random() % 14; count > 0; --count)
        answer += pieces[random() % pieces.size()];
      CAPTURE(text);
      CAPTURE(answer);
      const Reading whole = readAnswer(answer, answer.size() + 1, format, format.calls());
      CHECK(whole == readAnswer(answer, 1 + random() % 3, format, format.calls()));
      CHECK(whole.raw == answer);
    }
  }
}
