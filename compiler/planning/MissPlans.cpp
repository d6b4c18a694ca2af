#include "compiler/planning/MissPlans.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/MissSearch.h"
#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanReasons.h"
#include "compiler/planning/PlanJudge.h"
#include "compiler/search/AcceptanceTurn.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/Excerpt.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

//===-- Rules as text -------------------------------------------------------------------------===//

static constexpr const char *kRuleForms =
    "auto alone, or wait, lower:T1:T2 or lower:T1:T2:SLICES, skip:T1, substitute:T1:DISTANCE, "
    "mask, "
    "prompts:PART or prompts:PART:SLICES, with T1 <= T2 and numbers from 0 to 1";

static std::vector<std::string_view> partsOf(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

static std::optional<uint32_t> fractionOf(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1))
    return std::nullopt;
  return static_cast<uint32_t>(std::lround(value * kFixedPointOne));
}

static std::optional<uint8_t> slicesOf(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > UINT8_MAX)
    return std::nullopt;
  return static_cast<uint8_t>(value);
}

Result<MissRule> parseMissRule(const std::string &text) {
  const Status refused = invalidInput("--miss '", excerpt(text), "', expected ", kRuleForms);
  const std::vector<std::string_view> parts = partsOf(text);
  MissRule rule;
  const std::optional<MissAction> action = valueNamed<MissAction>(parts[0]);
  if (!action)
    return refused;
  rule.action = *action;
  const MissActionRow &row = rowOf(*action);
  std::vector<uint32_t *> fractions;
  for (uint32_t MissRule::*fraction : row.fractions)
    if (fraction)
      fractions.push_back(&(rule.*fraction));
  const bool hasSlices = row.takesSlices && parts.size() == fractions.size() + 2;
  if (parts.size() != fractions.size() + 1 + hasSlices)
    return refused;
  for (size_t i = 0; i < fractions.size(); ++i) {
    const std::optional<uint32_t> fraction = fractionOf(parts[i + 1]);
    if (!fraction)
      return refused;
    *fractions[i] = *fraction;
  }
  const std::optional<uint8_t> slices = hasSlices ? slicesOf(parts.back()) : rule.lowSlices;
  if (!slices || rule.waitUpTo > rule.skipBeyond)
    return refused;
  rule.lowSlices = *slices;
  return rule;
}

static bool anyIsLossy(std::span<const MissRule> rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const MissRule &rule) { return rule.isLossy(); });
}

/// Fate, section 4.5: the part of a prompt's experts in low precision is searched for within a
/// loss. From safe to lossy; the last one leaves the most popular expert of a chunk alone.
static std::vector<MissRule> promptRules() {
  std::vector<MissRule> rules;
  for (uint32_t eighths : {7, 6, 5, 4, 3, 2, 0})
    rules.push_back(
        {.action = MissAction::kLowerPrompts, .waitUpTo = kFixedPointOne / 8 * eighths});
  return rules;
}

/// The rules of a plan, which has the name of its preset.
static std::vector<MissRule> rulesFor(const MissRequest &request, const Plan &plan) {
  if (!request.rules.empty())
    return request.rules;
  const Result<Preset> preset = presetOf(plan.preset);
  if (request.target.isGiven() && preset.isOk() && *preset == Preset::kFate)
    return promptRules();
  return {preset.isOk() ? missRuleOf(*preset) : MissRule{}};
}

static Status checkProfileTexts(const MissRequest &request, std::span<const Preset> presets) {
  if (request.profileFiles.empty())
    return {};
  if (std::ranges::count(presets, Preset::kSwapMoe) == 0)
    return invalidInput("--profile-text profiles virtual experts, expected --preset swapmoe");
  if (request.referencePath.empty())
    return invalidInput("--profile-text compares virtual experts with the checkpoint, expected "
                        "--reference REF.moe, the checkpoint compiled with --bits source and "
                        "--resident-bits source");
  for (const std::string &file : request.profileFiles)
    if (std::ranges::count(request.texts.files, file) > 0)
      return invalidInput("--profile-text ", file,
                          " is a text of --eval-text, expected another one: quotas are chosen by "
                          "what they lose on profiling texts, so that is not a measure of their "
                          "loss");
  return {};
}

bool measuresLosses(const MissRequest &request, std::span<const Preset> presets) {
  if (request.isSearched || anyIsLossy(request.rules))
    return true;
  return request.rules.empty() && std::ranges::any_of(presets, [&request](Preset preset) {
           return missRuleOf(preset).isLossy() ||
                  (request.target.isGiven() && preset == Preset::kFate);
         });
}

Status checkMissRequest(const MissRequest &request, std::span<const Preset> presets) {
  MOERT_RETURN_IF_ERROR(checkProfileTexts(request, presets));
  const bool isLossy = measuresLosses(request, presets);
  const bool hasTarget = request.target.isGiven();
  if (request.isSearched && !hasTarget)
    return invalidInput("--miss auto searches for rules within a loss, expected --accuracy-loss "
                        "LOSS or --accuracy-quantile FRACTION:LOSS");
  if (!isLossy && hasTarget)
    return invalidInput(request.target.mean ? "--accuracy-loss" : "--accuracy-quantile",
                        " is the loss that experts that are missing may cost, "
                        "expected --miss RULE, or a preset that loses accuracy (hobbit, "
                        "swapmoe, pruning) or may lose some (fate)");
  if (!hasTarget && !request.calibrationTexts.empty())
    return invalidInput("--calibration-text names documents that test no loss, expected it with "
                        "--accuracy-loss or --accuracy-quantile");
  if (!isLossy && !request.profileFiles.empty())
    return invalidInput("--profile-text profiles virtual experts, which --miss wait does not use; "
                        "expected another --miss or none");
  if (!isLossy)
    return {};
  if (request.referencePath.empty() || request.texts.files.empty())
    return invalidInput(
        "--miss, --preset hobbit, swapmoe and pruning, and fate with --accuracy-loss change the "
        "output, and the loss is measured: expected --reference REF.moe, the checkpoint compiled "
        "with --bits source and --resident-bits source, and --eval-text");
  if (isOfItems(request.texts.metric))
    return invalidInput("--metric ", metricName(request.texts.metric),
                        " is measured on items; the loss of a miss rule is measured on texts, by "
                        "perplexity, kl or top1");
  for (size_t i = 0; i < request.rules.size(); ++i)
    for (const MissRule &earlier : std::span(request.rules).first(i))
      if (earlier == request.rules[i])
        return invalidInput("--miss ", missRuleText(earlier), " is given twice");
  return {};
}

//===-- Deciding ------------------------------------------------------------------------------===//

static std::string measuredText(const MissRule &rule, const PlanLoss &loss) {
  return strCat(
      "loses ", boundedLossText(loss), ", ", rule.changesPrompts() ? "reading " : "decoding ",
      loss.windows, " windows of ", loss.units, " units ",
      rule.changesPrompts() ? strCat("as prompts of ", loss.windowTokens, " tokens with this cache")
                            : "with this cache");
}

void dropUnusedPool(Plan &plan) {
  if (plan.rules.baseSlices > 0)
    return;
  plan.rules.upperPart = 0;
  eraseReasons(kPoolsReason, plan.reasons);
}

/// A plan whose rule was measured.
static Result<Plan> withLoss(Plan plan, const PlanLoss &loss, const std::string &why,
                             const MissSimulation &simulation) {
  plan.loss = loss;
  eraseReasons(kPromptsReason, plan.reasons);
  MOERT_ASSIGN_OR_RETURN(plan.forecast, simulation.forecast(plan));
  plan.reasons.push_back({"miss", missRuleText(plan.miss), why, Origin::kMeasured});
  return plan;
}

/// One plan for each rule; where there are several, names and presets distinguish them.
static Result<std::vector<Plan>> measureRules(const MissRequest &request, PlanJudge &judge,
                                              const Plan &plan, const MissSimulation &simulation) {
  std::vector<Plan> made;
  const std::vector<MissRule> rules = rulesFor(request, plan);
  for (const MissRule &rule : rules) {
    Plan named = plan;
    if (!rule.isLossy()) {
      made.push_back(std::move(named));
      continue;
    }
    if (rules.size() > 1) {
      const std::string text = missRuleText(rule);
      named.name = strCat(named.name, " ", text);
      named.preset = strCat(named.preset, named.preset.empty() ? "" : " ", text);
    }
    setMiss(rule, named);
    dropUnusedPool(named);
    MOERT_ASSIGN_OR_RETURN(const PlanLoss loss, judge.measure(named, 0.95));
    MOERT_ASSIGN_OR_RETURN(Plan lossy,
                           withLoss(std::move(named), loss,
                                    strCat("It was asked for, and ", measuredText(rule, loss), "."),
                                    simulation));
    made.push_back(std::move(lossy));
  }
  return made;
}

/// The plan with each lossy rule, in their order: a chain of tests.
static std::vector<Plan> chainOf(const MissRequest &request, const Plan &plan) {
  std::vector<Plan> chain;
  for (const MissRule &rule : rulesFor(request, plan)) {
    if (!rule.isLossy())
      continue;
    Plan &tried = chain.emplace_back(plan);
    setMiss(rule, tried);
    dropUnusedPool(tried);
  }
  return chain;
}

static bool isWithin(const PlanLoss &loss, const AcceptanceTarget &target) {
  return target.isMetBy(loss.upperBound,
                        loss.quantile ? std::optional(loss.quantile->upperBound) : std::nullopt);
}

/// "2.00%", "at least 90% of units lose at most 3.00% each", or both.
static std::string allowedText(const MissRequest &request) {
  const std::string metric(metricName(request.texts.metric));
  const auto &[mean, quantile] = request.target;
  std::string text = mean ? lossText(metric, *mean) : "";
  if (quantile)
    text += strCat(mean ? ", and " : "",
                   unitsText(quantile->fraction, lossText(metric, quantile->loss)));
  return text;
}

/// The last plan of the chain that passes.
static Result<Plan> acceptRule(const MissRequest &request, PlanJudge &judge, const Plan &plan,
                               const std::vector<Plan> &chain, const MissSimulation &simulation,
                               double confidence) {
  Plan accepted = plan;
  const std::string target = allowedText(request);
  std::string reason;
  for (const Plan &tried : chain) {
    MOERT_ASSIGN_OR_RETURN(const PlanLoss loss, judge.measure(tried, confidence));
    if (!isWithin(loss, request.target)) {
      reason = strCat(missRuleText(tried.miss), " ", measuredText(tried.miss, loss),
                      ", more than was allowed: ", target, ".");
      break;
    }
    reason.clear();
    MOERT_ASSIGN_OR_RETURN(accepted, withLoss(tried, loss,
                                              strCat("It ", measuredText(tried.miss, loss),
                                                     ", within what was allowed: ", target, "."),
                                              simulation));
  }
  if (!accepted.miss.isLossy() && !reason.empty()) {
    eraseReasons(kPromptsReason, accepted.reasons);
    accepted.reasons.push_back({"miss", missRuleText({}),
                                strCat("No rule is within the loss: ", reason), Origin::kMeasured});
  }
  return accepted;
}

/// The confidence of each chain's tests: the level of the command's turn, divided by the chains
/// that test anything.
static Result<double> takeTurn(const MissRequest &request, const PlanJudge &judge,
                               std::span<const std::vector<Plan>> chains) {
  AcceptanceSubject subject;
  subject.checkpoint = judge.checkpoint();
  ChecksumStream candidates;
  for (const std::vector<Plan> &chain : chains) {
    std::vector<uint64_t> artifacts = {chain.size()};
    for (const Plan &plan : chain) {
      MOERT_ASSIGN_OR_RETURN(const uint64_t artifact, judge.artifactWith(plan));
      artifacts.push_back(artifact);
    }
    candidates.update(std::as_bytes(std::span(artifacts)));
  }
  subject.candidates = candidates.digest();
  subject.samples = judge.samplesHash();
  subject.metric = request.texts.metric;
  subject.target = request.target;
  for (const EvaluatedText &text : judge.texts()) {
    subject.files.push_back(text.hash);
    subject.documents.insert(subject.documents.end(), text.documentIds.begin(),
                             text.documentIds.end());
  }
  const auto tested = static_cast<size_t>(
      std::ranges::count_if(chains, [](const std::vector<Plan> &chain) { return !chain.empty(); }));
  if (tested == 0)
    return 1;
  MOERT_RETURN_IF_ERROR(judge.checkUnits());
  const std::string &log = request.acceptanceLogPath;
  MOERT_ASSIGN_OR_RETURN(const AcceptanceTurn next, findAcceptanceTurn(log, subject));
  MOERT_ASSIGN_OR_RETURN(const double expected, confidenceOfChains(next, tested));
  MOERT_RETURN_IF_ERROR(checkQuantileUnits(request.target, judge.units(), expected, next));
  MOERT_ASSIGN_OR_RETURN(const AcceptanceTurn turn, takeAcceptanceTurn(log, subject));
  return confidenceOfChains(turn, tested);
}

//===-- Searching -----------------------------------------------------------------------------===//

/// The rule, and exchanges, without which `mask` is another one.
static std::string rungText(const Plan &plan) {
  return strCat(missRuleText(plan.miss), plan.rules.exchange.exchanges() ? " with exchanges" : "");
}

namespace {

/// Climbs a plan's ladders. Borrows its inputs.
class LadderClimb {
public:
  LadderClimb(const MissRequest &asked, PlanJudge &measuring, const MissSimulation &simulating,
              double testConfidence)
      : request(asked), judge(measuring), simulation(simulating), confidence(testConfidence),
        target(allowedText(asked)) {}

  /// The fastest plan that passed and is forecast to be faster, or `waiting` with a reason.
  Result<Plan> climb(const Plan &waiting, const LossyLadders &found) {
    tried = strCat("Waiting takes ", timeText(found.waitingNs),
                   " a token where plans are decided; ", found.tried, " rules were simulated");
    if (found.ladders.empty())
      return withReason(waiting,
                        strCat(tried, ", none is ", fixed(kMinRungGain * 100, 0), "% faster."));
    for (size_t i = 0; i < found.ladders.size(); ++i)
      MOERT_RETURN_IF_ERROR(
          climbLadder(found.ladders[i], strCat("ladder ", i + 1, " of ", found.ladders.size())));
    std::stable_sort(passed.begin(), passed.end(),
                     [](const LossyPlan &a, const LossyPlan &b) { return a.tokenNs < b.tokenNs; });
    for (LossyPlan &candidate : passed) {
      Plan &plan = candidate.plan;
      MOERT_ASSIGN_OR_RETURN(plan.forecast, simulation.forecast(plan));
      if (plan.forecast && waiting.forecast &&
          plan.forecast->tokenNs <= waiting.forecast->tokenNs * (1 - kMinRungGain)) {
        plan.reasons.push_back(
            {"miss", missRuleText(plan.miss), strCat(tried, "."), Origin::kMeasured});
        return plan;
      }
      tried += strCat("; ", rungText(plan), " is not ", fixed(kMinRungGain * 100, 0),
                      "% faster on the other part of the trace");
    }
    return withReason(waiting, strCat(tried, "."));
  }

private:
  /// Until the first rung that loses too much.
  Status climbLadder(const std::vector<LossyPlan> &ladder, const std::string &which) {
    for (size_t i = 0; i < ladder.size(); ++i) {
      const LossyPlan &rung = ladder[i];
      Plan plan = rung.plan;
      MOERT_ASSIGN_OR_RETURN(
          const PlanLoss loss,
          judge.measure(plan, confidence,
                        strCat(", rung ", i + 1, " of at most ", ladder.size(), ", ", which)));
      const bool hasPassed = isWithin(loss, request.target);
      tried += strCat("; ", rungText(plan), " takes ", timeText(rung.tokenNs), " and loses ",
                      boundedLossText(loss),
                      hasPassed ? "" : strCat(", more than was allowed: ", target));
      if (!hasPassed)
        break;
      plan.loss = loss;
      passed.push_back({std::move(plan), rung.tokenNs});
    }
    return {};
  }

  static Plan withReason(Plan waiting, const std::string &why) {
    waiting.reasons.push_back(
        {"miss", missRuleText({}), strCat("No loss on misses. ", why), Origin::kMeasured});
    return waiting;
  }

  const MissRequest &request;
  PlanJudge &judge;
  const MissSimulation &simulation;
  double confidence;
  std::string target, tried;
  std::vector<LossyPlan> passed;
};

} // namespace

static Result<std::vector<Plan>> acceptSearched(const MissRequest &request, PlanJudge &judge,
                                                const std::vector<Plan> &plans,
                                                const MissSimulation &simulation) {
  // All ladders are made before anything is measured, because they divide the level.
  std::vector<LossyLadders> ladders;
  std::vector<std::vector<Plan>> chains;
  for (const Plan &plan : plans) {
    MOERT_ASSIGN_OR_RETURN(LossyLadders found, simulation.search(plan));
    for (const std::vector<LossyPlan> &ladder : found.ladders) {
      std::vector<Plan> &chain = chains.emplace_back();
      for (const LossyPlan &rung : ladder)
        chain.push_back(rung.plan);
    }
    ladders.push_back(std::move(found));
  }
  MOERT_ASSIGN_OR_RETURN(const double confidence, takeTurn(request, judge, chains));
  std::vector<Plan> decided;
  for (size_t i = 0; i < plans.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(
        Plan plan, LadderClimb(request, judge, simulation, confidence).climb(plans[i], ladders[i]));
    decided.push_back(std::move(plan));
  }
  return decided;
}

static Result<std::vector<Plan>> acceptRules(const MissRequest &request, PlanJudge &judge,
                                             const std::vector<Plan> &plans,
                                             const MissSimulation &simulation) {
  std::vector<std::vector<Plan>> chains;
  for (const Plan &plan : plans)
    chains.push_back(chainOf(request, plan));
  MOERT_ASSIGN_OR_RETURN(const double confidence, takeTurn(request, judge, chains));
  std::vector<Plan> decided;
  for (size_t i = 0; i < plans.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(Plan plan,
                           acceptRule(request, judge, plans[i], chains[i], simulation, confidence));
    decided.push_back(std::move(plan));
  }
  return decided;
}

/// Where every expert is one slice, a rule that lowers experts would lower none.
static Status checkSlices(const MissRule &rule, const std::string &artifactPath) {
  if (rule.action != MissAction::kLower && !rule.changesPrompts())
    return {};
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::open(artifactPath));
  for (const MoeLayer &layer : model->artifact().moeLayers)
    for (const Expert &expert : layer.experts)
      if (expert.slices.size() > rule.lowSlices)
        return {};
  return invalidInput(artifactPath, ": ", missRuleText(rule), " computes experts ",
                      rule.changesPrompts() ? "of prompts " : "", "with ", uint32_t(rule.lowSlices),
                      rule.lowSlices == 1 ? " slice" : " slices",
                      ", and no expert has more; expected experts of several slices (moec compile "
                      "--nested on, with more than 2 bits, or --low-copy)");
}

Result<std::vector<Plan>> decideMissRules(const MissRequest &request,
                                          const std::string &artifactPath,
                                          const std::vector<Plan> &plans,
                                          const MissSimulation &simulation, const ReadTexts &read,
                                          const WorkDirectory &work, const Session &session) {
  if (!request.isSearched)
    for (const Plan &plan : plans)
      for (const MissRule &rule : rulesFor(request, plan))
        MOERT_RETURN_IF_ERROR(checkSlices(rule, artifactPath));
  PlanJudge judge(
      {artifactPath, request.referencePath, request.texts, work, request.threads, request.target},
      session);
  const bool hasTarget = request.target.isGiven();
  MOERT_RETURN_IF_ERROR(judge.open(hasTarget ? &read.seen : nullptr));
  MOERT_RETURN_IF_ERROR(checkUnread(read, judge.texts(), request.texts.files));
  if (request.isSearched)
    return acceptSearched(request, judge, plans, simulation);
  if (hasTarget)
    return acceptRules(request, judge, plans, simulation);
  std::vector<Plan> decided;
  for (const Plan &plan : plans) {
    MOERT_ASSIGN_OR_RETURN(std::vector<Plan> measured,
                           measureRules(request, judge, plan, simulation));
    std::move(measured.begin(), measured.end(), std::back_inserter(decided));
  }
  return decided;
}

} // namespace moec
