// How much a generated text is worth beside the answers that an item states: ROUGE-2 and exact
// match, from 0 to 1.
//
// ROUGE-2 (C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004), as the
// package rouge-score computes it without stemming:
//
//   words    ASCII letters in lower case; every run of a-z and 0-9 is a word, all else separates
//   match    the sum over the distinct pairs of neighbouring words of the smaller of the numbers of
//            times that generated text and answer have it
//   P, R     match / pairs of the generated text, match / pairs of the answer; 0 where there are
//   none F1       2 P R / (P + R), 0 where both are 0
//
// Several answers: the best F1. A language that is not written in ASCII has no words here.
//
// Exact match: 1 if the generated text is one of the answers, both normalized:
//
//   1. with answerAfter, only what stands behind its last occurrence counts ("####": GSM8K's final
//      number); a text without it counts whole
//   2. ASCII letters in lower case, white space at both ends away, within the text one space each
//   3. commas between two digits away (1,000 is 1000)
//   4. one full stop at the end away
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
