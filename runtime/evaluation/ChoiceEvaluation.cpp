#include "runtime/evaluation/ChoiceEvaluation.h"

#include "runtime/evaluation/RowScore.h"
#include "runtime/text/answer/ToolTypes.h"

#include <algorithm>

namespace moert {

uint64_t EncodedChoice::longestTokens() const {
  size_t longest = 0;
  for (const std::vector<int32_t> &choice : choices)
    longest = std::max(longest, choice.size());
  return question.size() + longest;
}

static char letterOf(size_t choice) {
  return static_cast<char>('A' + choice);
}

std::string choicePrompt(const ChoiceItem &item, ChoiceBy by) {
  const std::string_view question = trimmed(item.question, " \t\r\n\v\f"); // As the harness.
  std::string prompt;
  if (!item.subject.empty()) {
    std::string subject = item.subject;
    std::replace(subject.begin(), subject.end(), '_', ' ');
    prompt = strCat("The following are multiple choice questions (with answers) about ", subject,
                    ".\n\n");
  }
  if (by == ChoiceBy::kText)
    return strCat(prompt, "Question: ", question, "\nAnswer:");
  prompt += question;
  for (size_t i = 0; i < item.choices.size(); ++i)
    prompt += strCat("\n", letterOf(i), ". ", item.choices[i]);
  return prompt + "\nAnswer:";
}

Result<EncodedChoice> encodeChoice(const ChoiceItem &item, ChoiceBy by,
                                   const Tokenizer &tokenizer) {
  const std::string prompt = choicePrompt(item, by);
  MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> question, tokenizer.encode(prompt, true));
  EncodedChoice encoded;
  encoded.line = item.line;
  encoded.answer = item.answer;
  // The common prefix of all choices and the prompt, leaving at least one token of each choice.
  size_t common = question.size();
  for (size_t i = 0; i < item.choices.size(); ++i) {
    const std::string choice =
        by == ChoiceBy::kLetter ? std::string(1, letterOf(i)) : item.choices[i];
    MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> whole,
                           tokenizer.encode(strCat(prompt, " ", choice), true));
    if (whole.size() < 2)
      return invalidInput("a question and a choice of ", whole.size(),
                          " tokens, expected at least 2");
    const auto differs =
        std::mismatch(question.begin(), question.end(), whole.begin(), whole.end()).first;
    common = std::min({common, static_cast<size_t>(differs - question.begin()), whole.size() - 1});
    encoded.choices.push_back(std::move(whole));
  }
  common = std::max<size_t>(common, 1);
  encoded.question.assign(encoded.choices[0].begin(),
                          encoded.choices[0].begin() + static_cast<std::ptrdiff_t>(common));
  for (std::vector<int32_t> &choice : encoded.choices)
    choice.erase(choice.begin(), choice.begin() + static_cast<std::ptrdiff_t>(common));
  return encoded;
}

namespace {

/// One item through both models.
class ChoiceRun {
public:
  ChoiceRun(PairedPass &pairedPass, const EncodedChoice &encodedItem)
      : pass(pairedPass), item(encodedItem), losses(item.choices.size()),
        referenceLosses(item.choices.size()) {}

  Result<SampleScore> run() {
    MOERT_RETURN_IF_ERROR(passOfAnswer());
    for (size_t choice = 0; choice < item.choices.size(); ++choice)
      if (choice != item.answer && item.choices[choice].size() > 1)
        MOERT_RETURN_IF_ERROR(passOfRest(choice));
    score.text = item.text;
    score.unit = item.line;
    score.items = 1;
    score.points = likeliest(losses) == item.answer;
    score.referencePoints = likeliest(referenceLosses) == item.answer;
    return score;
  }

private:
  std::vector<int32_t> tokensWith(size_t choice) const {
    std::vector<int32_t> tokens = item.question;
    tokens.insert(tokens.end(), item.choices[choice].begin(), item.choices[choice].end());
    return tokens;
  }

  void add(size_t choice, const RowScore &row) {
    losses[choice] += row.lossNats;
    referenceLosses[choice] += row.referenceLossNats;
  }

  /// Scores question and right choice, and the first token of every other choice.
  Status passOfAnswer() {
    const std::vector<int32_t> tokens = tokensWith(item.answer);
    return pass.run(tokens, 0,
                    [&](uint32_t index, std::span<const float> logits,
                        std::span<const float> reference) -> Status {
                      MOERT_ASSIGN_OR_RETURN(RowScore row,
                                             scoreRow(logits, reference, tokens[index + 1]));
                      score.add(row);
                      if (index + 1 >= item.question.size())
                        add(item.answer, row);
                      if (index + 1 != item.question.size())
                        return {};
                      for (size_t choice = 0; choice < item.choices.size(); ++choice) {
                        if (choice == item.answer)
                          continue;
                        MOERT_ASSIGN_OR_RETURN(
                            RowScore first, scoreRow(logits, reference, item.choices[choice][0]));
                        add(choice, first);
                      }
                      return {};
                    });
  }

  /// Scores a choice from its second token on.
  Status passOfRest(size_t choice) {
    const std::vector<int32_t> tokens = tokensWith(choice);
    return pass.run(tokens, static_cast<uint32_t>(item.question.size()),
                    [&](uint32_t index, std::span<const float> logits,
                        std::span<const float> reference) -> Status {
                      MOERT_ASSIGN_OR_RETURN(RowScore row,
                                             scoreRow(logits, reference, tokens[index + 1]));
                      add(choice, row);
                      return {};
                    });
  }

  static size_t likeliest(const std::vector<double> &choiceLosses) {
    return static_cast<size_t>(std::min_element(choiceLosses.begin(), choiceLosses.end()) -
                               choiceLosses.begin());
  }

  PairedPass &pass;
  const EncodedChoice &item;
  std::vector<double> losses, referenceLosses; // -log of each choice's probability.
  SampleScore score;
};

} // namespace

Result<SampleScore> evaluateChoice(const EncodedChoice &item, PairedPass &pass) {
  MOERT_RETURN_IF_ERROR(pass.beginUnit());
  return ChoiceRun(pass, item).run();
}

} // namespace moert
