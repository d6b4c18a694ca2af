#include "runtime/generation/ReasoningText.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moert;

namespace {

/// What an answer's pieces become. A piece in brackets "<| ... |>" is a special token.
struct Parts {
  std::string reasoning, answer;
  bool hasReasoning = false;

  Parts(std::string_view prompt, const std::vector<std::string> &pieces) {
    ReasoningText text(prompt);
    auto emit = [this](AnswerPart part, std::string_view piece) {
      (part == AnswerPart::kAnswer ? answer : reasoning) += piece;
    };
    for (const std::string &piece : pieces) {
      if (piece.starts_with("<|"))
        text.feedSpecial(piece, emit);
      else
        text.feed(piece, emit);
    }
    text.finish(emit);
    hasReasoning = text.hasReasoning();
  }
};

/// The same, in pieces of one byte.
Parts bytewise(std::string_view prompt, std::string_view text) {
  std::vector<std::string> pieces;
  for (char byte : text)
    pieces.emplace_back(1, byte);
  return Parts(prompt, pieces);
}

} // namespace

TEST_CASE("an answer without reasoning is unchanged, white space included") {
  const std::string text = " \n Hello <b>there</b>\n\n";
  CHECK(Parts("", {text}).answer == text);
  CHECK(bytewise("", text).answer == text);
  CHECK(bytewise("", "\n\n").answer == "\n\n");
  CHECK_FALSE(bytewise("", text).hasReasoning);
}

TEST_CASE("reasoning is separated, and the white space around it is left out") {
  for (const char *text :
       {"<think>\nLet me see.\n</think>\n\nIt is 4.", "\n<think>Let me see.</think>It is 4.",
        "[THINK]Let me see.[/THINK] It is 4."}) {
    for (const Parts &parts : {Parts("", {text}), bytewise("", text)}) {
      CHECK(parts.reasoning == "Let me see.");
      CHECK(parts.answer == "It is 4.");
      CHECK(parts.hasReasoning);
    }
  }
}

TEST_CASE("white space within reasoning and within the answer is kept") {
  const Parts parts = bytewise("", "<think>a\n\n b </think>\nc \n d");
  CHECK(parts.reasoning == "a\n\n b");
  CHECK(parts.answer == "c \n d");
}

TEST_CASE("a prompt that ends with the marker begins in reasoning") {
  const Parts parts = bytewise("<|im_start|>assistant\n<think>\n", "Hm.\n</think>\nYes.");
  CHECK(parts.reasoning == "Hm.");
  CHECK(parts.answer == "Yes.");
  CHECK(bytewise("<think>\n\n</think>\n\n", "Yes.").answer == "Yes.");
  CHECK(bytewise("<think>\n\n</think>\n\n", "Yes.").reasoning.empty());
}

TEST_CASE("an answer may mention the markers") {
  CHECK(bytewise("", "Use <think> here </think>.").answer == "Use <think> here </think>.");
  CHECK(Parts("", {"Use <think> here"}).answer == "Use <think> here");
  const Parts again = bytewise("", "<think>a</think>b <think>c</think>");
  CHECK(again.reasoning == "a");
  CHECK(again.answer == "b <think>c</think>");
}

TEST_CASE("the beginning of a marker that does not go on is text") {
  CHECK(bytewise("", "<thin").answer == "<thin");
  CHECK(bytewise("", "<th<think>a</think>").answer == "<th<think>a</think>");
  CHECK(bytewise("", "<think>a </thin b").reasoning == "a </thin b");
}

TEST_CASE("an answer that ends within reasoning has no answer") {
  const Parts parts = bytewise("", "<think>Let me");
  CHECK(parts.reasoning == "Let me");
  CHECK(parts.answer.empty());
}

TEST_CASE("the channels of gpt-oss are reasoning and answer, and their headers are not shown") {
  const Parts parts("<|start|>assistant", {"<|channel|>", "analysis", "<|message|>", "We need",
                                           " 4.", "<|end|>", "<|start|>", "assistant",
                                           "<|channel|>", "final", "<|message|>", "It is", " 4"});
  CHECK(parts.reasoning == "We need 4.");
  CHECK(parts.answer == "It is 4");
}

TEST_CASE("special tokens outside of markers are not shown") {
  CHECK(Parts("", {"a", "<|im_end|>", "b"}).answer == "ab");
}
