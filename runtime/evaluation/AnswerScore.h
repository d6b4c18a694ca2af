// Scores a generated text against the answers of an item: ROUGE-2 and exact match, from 0 to 1.
//
// ROUGE-2 (C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004), as the
// package rouge-score computes it without stemming:
//
//   words    ASCII letters in lower case; every run of a-z and 0-9 is a word, all else separates
//   match    summed over the distinct pairs of neighbouring words: the smaller of the pair's counts
//            in the generated text and in the answer
//   P, R     match / pairs of the generated text, match / pairs of the answer; 0 without pairs
//   F1       2 P R / (P + R), 0 where both are 0
//
// Several answers: the best F1. Text in other scripts than ASCII has no words.
//
// Exact match: 1 if the generated text is one of the answers, both normalized:
//
//   1. with answerAfter, only the text after its last occurrence counts ("####": GSM8K's final
//      number); a text without it counts whole
//   2. ASCII letters become lower case; white space at both ends is removed, and each run of it
//      within the text becomes one space
//   3. commas between two digits are removed (1,000 is 1000)
//   4. one full stop at the end is removed
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moert {

double rouge2(std::string_view generated, std::string_view answer);

/// The best of several answers.
double rouge2(std::string_view generated, std::span<const std::string> answers);

std::string normalizedAnswer(std::string_view text, std::string_view answerAfter);

bool isExactMatch(std::string_view generated, std::span<const std::string> answers,
                  std::string_view answerAfter);

} // namespace moert
