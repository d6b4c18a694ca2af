#include "runtime/evaluation/AnswerScore.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moert;

using Answers = std::vector<std::string>;

TEST_CASE("ROUGE-2 is the harmonic mean of the fractions of pairs that both texts have") {
  // Generated: the cat, cat sat, sat down. Answer: the cat, cat sat, sat on, on the, the mat.
  // Both have 2: P = 2/3, R = 2/5, F1 = 2 * (4/15) / (16/15) = 1/2.
  CHECK(rouge2("The cat sat down.", "the cat sat on the mat") == doctest::Approx(0.5));
}

TEST_CASE("a pair counts as often as the text has it that has it less often") {
  // Generated: a b three times, b a twice. Answer: a b, b c. Both: a b once.
  // P = 1/5, R = 1/2, F1 = 2/7.
  CHECK(rouge2("a b a b a b", "a b c") == doctest::Approx(2.0 / 7));
}

TEST_CASE("words are runs of ASCII letters and digits in lower case") {
  CHECK(rouge2("State-of-the-art: 3.5x", "STATE of THE art 3 5X") == 1);
  // "café au" is "caf" and "au" here.
  CHECK(rouge2("caf\xC3\xA9 au lait", "caf au lait") == 1);
}

TEST_CASE("texts without any pair score nothing") {
  CHECK(rouge2("", "") == 0);
  CHECK(rouge2("word", "word") == 0);
  CHECK(rouge2("two words", "word") == 0);
  CHECK(rouge2("a b", "b a") == 0);
}

TEST_CASE("of several answers the best one counts") {
  CHECK(rouge2("one two three", Answers{"nothing alike", "one two three", "one two"}) == 1);
}

TEST_CASE("exact match disregards case, white space, commas in numbers and one full stop") {
  CHECK(normalizedAnswer("  The \n answer\tIS 1,234,567. ", "") == "the answer is 1234567");
  CHECK(normalizedAnswer("a, b", "") == "a, b");
  CHECK(normalizedAnswer("1, 2,", "") == "1, 2,");
  CHECK(normalizedAnswer("wait..", "") == "wait.");
  CHECK(normalizedAnswer("3.5", "") == "3.5");
  CHECK(normalizedAnswer("-3", "") == "-3");
  CHECK(normalizedAnswer(" . ", "") == "");
}

TEST_CASE("texts match where their normalized forms are the same and not otherwise") {
  CHECK(isExactMatch(" Paris.", Answers{"London", "paris"}, ""));
  CHECK_FALSE(isExactMatch("Paris, France", Answers{"London", "paris"}, ""));
  CHECK_FALSE(isExactMatch("3.5", Answers{"35"}, ""));
}

TEST_CASE("behind a mark the last one counts, and a text without it is taken whole") {
  CHECK(isExactMatch("2 + 2 = 4 #### 5 no #### 4.", Answers{"so\n#### 4"}, "####"));
  CHECK(isExactMatch("4", Answers{"#### 4"}, "####"));
  CHECK_FALSE(isExactMatch("#### 4 or #### 5", Answers{"#### 4"}, "####"));
}
