#include "compiler/search/AcceptanceTurn.h"

#include "runtime/base/Checksum.h"

#include <bit>
#include <cstdio>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

static AcceptanceRecord recordOf(const AcceptanceSubject &subject) {
  std::vector<uint64_t> decisive = {subject.candidates, subject.samples, uint64_t(subject.metric),
                                    std::bit_cast<uint64_t>(subject.target.mean.value_or(0))};
  if (const auto &quantile = subject.target.quantile)
    decisive.insert(decisive.end(), {std::bit_cast<uint64_t>(quantile->fraction),
                                     std::bit_cast<uint64_t>(quantile->loss)});
  return {subject.checkpoint, checksum64(std::as_bytes(std::span(decisive))), subject.files,
          subject.documents};
}

std::string AcceptanceTurn::text() const {
  return strCat("compile ", compile, " that tests this checkpoint on these documents (", logPath,
                ")");
}

static Result<AcceptanceTurn> turnOf(const std::string &given, const AcceptanceSubject &subject,
                                     Result<uint32_t> (*number)(const std::string &,
                                                                const AcceptanceRecord &)) {
  AcceptanceTurn turn;
  turn.logPath = given;
  if (given.empty()) {
    MOERT_ASSIGN_OR_RETURN(turn.logPath, defaultAcceptanceLog());
  }
  MOERT_ASSIGN_OR_RETURN(turn.compile, number(turn.logPath, recordOf(subject)));
  const std::optional<AcceptanceLevels> levels = acceptanceLevels(turn.compile);
  if (!levels)
    return invalidInput(kMaxCompilesOfText,
                        " compiles have tested this checkpoint on documents of "
                        "these texts (",
                        turn.logPath,
                        "), which leaves no probability of error for another one; expected new "
                        "documents: --eval-text, or --self-text with another --seed");
  turn.levels = *levels;
  return turn;
}

Result<AcceptanceTurn> findAcceptanceTurn(const std::string &logPath,
                                          const AcceptanceSubject &subject) {
  return turnOf(logPath, subject, numberInAcceptanceLog);
}

Result<AcceptanceTurn> takeAcceptanceTurn(const std::string &logPath,
                                          const AcceptanceSubject &subject) {
  return turnOf(logPath, subject, addToAcceptanceLog);
}

static std::string percentText(double fraction, const char *format = "%.4g%%") {
  char text[32];
  std::snprintf(text, sizeof text, format, fraction * 100);
  return text;
}

std::string formatConfidence(double confidence) {
  return percentText(confidence, confidence < 0.999 ? "%.1f%%" : "%.3f%%");
}

Status checkQuantileUnits(const AcceptanceTarget &target, uint64_t units, double confidence,
                          const AcceptanceTurn &turn) {
  if (!target.quantile)
    return {};
  const double fraction = target.quantile->fraction;
  const uint64_t least = leastUnitsOfQuantile(fraction, confidence);
  if (units >= least)
    return {};
  return invalidInput("--accuracy-quantile of ", fraction * 100, "% on ", units, " units in ",
                      turn.text(), ", expected ", least,
                      " documents or more, or windows of short ones: fewer show nothing about this "
                      "fraction with ",
                      formatConfidence(confidence), " confidence. A lower fraction takes fewer");
}

Result<double> confidenceOfChains(const AcceptanceTurn &turn, size_t chains) {
  const double error = turn.levels.main / double(chains);
  if (error >= kLeastError)
    return 1 - error;
  const std::string found = strCat(
      chains, " series of tests, plan by plan, have an error of ", percentText(turn.levels.main),
      " together, and no bound has less than ", percentText(kLeastError), " for each");
  if (turn.compile > 1)
    return invalidInput(found, ". This is ", turn.text(),
                        ", and the first has used most of their error; expected new documents with "
                        "--eval-text");
  return invalidInput(found, "; expected fewer of --memory and --preset");
}

} // namespace moec
