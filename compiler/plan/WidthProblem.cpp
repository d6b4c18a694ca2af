#include "compiler/plan/WidthProblem.h"

#include <cmath>

using namespace moert;

namespace moec {

static Status checkOption(const WidthOption &option) {
  if (!std::isfinite(option.cost) || option.cost < 0)
    return invalidInput("a cost of ", option.cost, " at ", option.bits,
                        " bits, expected a finite number of at least 0");
  if (!std::isfinite(option.loss) || option.loss < 0)
    return invalidInput("a loss of ", option.loss, " at ", option.bits,
                        " bits, expected a finite number of at least 0");
  return {};
}

static Status checkItem(const WidthItem &item) {
  if (item.options.empty())
    return invalidInput("no option to store it");
  for (size_t i = 0; i < item.options.size(); ++i) {
    MOERT_RETURN_IF_ERROR(checkOption(item.options[i]));
    if (i > 0 && item.options[i].bits >= item.options[i - 1].bits)
      return invalidInput("an option of ", item.options[i].bits, " bits after one of ",
                          item.options[i - 1].bits, ", expected fewer bits with every option");
  }
  return {};
}

Status check(const WidthProblem &problem) {
  if (problem.items.empty())
    return invalidInput("nothing to choose a width for");
  if (std::isnan(problem.lossLimit) || problem.lossLimit < 0)
    return invalidInput("a loss limit of ", problem.lossLimit, ", expected at least 0");
  for (const WidthItem &item : problem.items)
    MOERT_RETURN_IF_ERROR(checkItem(item).withContext(item.name));
  return {};
}

Status verify(const WidthProblem &problem, std::span<const uint32_t> assignment) {
  if (assignment.size() != problem.items.size())
    return invalidInput("widths for ", assignment.size(), " items, expected ",
                        problem.items.size());
  for (size_t i = 0; i < assignment.size(); ++i)
    if (assignment[i] >= problem.items[i].options.size())
      return invalidInput(problem.items[i].name, " has option ", assignment[i],
                          ", expected one of ", problem.items[i].options.size());
  double loss = totalsOf(problem, assignment).loss;
  if (loss > problem.lossLimit)
    return invalidInput("the losses add up to ", loss, ", the limit is ", problem.lossLimit);
  return {};
}

WidthTotals totalsOf(const WidthProblem &problem, std::span<const uint32_t> assignment) {
  WidthTotals totals;
  for (size_t i = 0; i < assignment.size(); ++i) {
    const WidthOption &option = problem.items[i].options[assignment[i]];
    totals.cost += option.cost;
    totals.loss += option.loss;
  }
  return totals;
}

} // namespace moec
