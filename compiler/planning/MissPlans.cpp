#include "compiler/planning/MissPlans.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/AcceptanceTests.h"
#include "compiler/search/AcceptanceLog.h"
#include "moert/Engine.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/Excerpt.h"
#include "runtime/evaluation/EngineSource.h"
#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

//===-- Rules as text -------------------------------------------------------------------------===//

static constexpr const char *kRuleForms =
    "wait, lower:T1:T2 or lower:T1:T2:SLICES, skip:T1, substitute:T1:DISTANCE or mask, with T1 <= "
    "T2 and numbers from 0 to 1";

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
  size_t action = 0;
  while (action < kMissActions && missActionName(static_cast<MissAction>(action)) != parts[0])
    ++action;
  if (action == kMissActions)
    return refused;
  rule.action = static_cast<MissAction>(action);
  // The fractions of each action, in their order.
  std::vector<uint32_t *> fractions;
  if (rule.isLossy() && rule.action != MissAction::kMask)
    fractions.push_back(&rule.waitUpTo);
  if (rule.action == MissAction::kLower)
    fractions.push_back(&rule.skipBeyond);
  if (rule.action == MissAction::kSubstitute)
    fractions.push_back(&rule.substituteWithin);
  const bool hasSlices = rule.action == MissAction::kLower && parts.size() == fractions.size() + 2;
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

/// The rules of a plan, which has the name of its preset.
static std::vector<MissRule> rulesFor(const MissRequest &request, const Plan &plan) {
  if (!request.rules.empty())
    return request.rules;
  const Result<Preset> preset = presetOf(plan.preset);
  return {preset.isOk() ? missRuleOf(*preset) : MissRule{}};
}

Status checkMissRequest(const MissRequest &request, std::span<const Preset> presets) {
  bool isLossy = anyIsLossy(request.rules);
  for (size_t i = 0; i < presets.size() && request.rules.empty(); ++i)
    isLossy = isLossy || missRuleOf(presets[i]).isLossy();
  if (!isLossy && request.target)
    return invalidInput("--accuracy-loss is the loss that experts that are missing may cost, "
                        "expected --miss RULE, or a preset that loses accuracy (hobbit)");
  if (!isLossy)
    return {};
  if (request.referencePath.empty() || request.texts.files.empty())
    return invalidInput("--miss and --preset hobbit change the output, and the loss is measured: "
                        "expected --reference "
                        "REF.moe, the checkpoint compiled with --bits source, and --eval-text");
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

//===-- Measuring a plan ----------------------------------------------------------------------===//

namespace {

/// A plan's engine and the reference's, beside each other.
class PlanJudge {
public:
  PlanJudge(const MissRequest &asked, std::string path, const Session &with)
      : request(asked), artifactPath(std::move(path)), session(with) {}

  Status open() {
    MOERT_ASSIGN_OR_RETURN(reference, Model::open(request.referencePath));
    MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> artifact, Model::open(artifactPath));
    tokenizerOwner = std::move(artifact);
    Result<EvaluationSet> read = EvaluationSet::read(
        request.texts, *tokenizerOwner, [this](const std::string &note) { sayTo(session, note); });
    MOERT_RETURN_IF_ERROR(read.status());
    set.emplace(std::move(read).value());
    return {};
  }

  std::span<const EvaluatedText> texts() const { return set->textsRead(); }

  /// Decodes all texts with the plan's cache, which is empty or as the plan starts it.
  Result<PlanLoss> measure(const Plan &plan, double confidence) const {
    MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::openWith(artifactPath, {plan}));
    EngineOptions options = set->engineOptions({});
    options.threads = request.threads;
    options.takesFewerThreads = true;
    EngineOptions ofReference = options;
    ofReference.sharesProcess = true;
    options.plan = 0;
    options.extraBytes = set->memoryBytes(true);
    MOERT_ASSIGN_OR_RETURN(const Loaded candidate, load(*model, options));
    Result<Loaded> beside = load(*reference, ofReference);
    if (!beside.isOk())
      return beside.status().withContext("reference");
    Progress *progress = session.progress;
    if (progress)
      progress->beginCounting(strCat("decoding with ", plan.name, ", ", missRuleText(plan.miss)),
                              "windows", 1, set->samples(), 0);
    auto scores = set->evaluate(
        *candidate.source, beside->source.get(),
        [progress](uint64_t done, uint64_t) {
          if (progress)
            progress->advanceTo(done);
        },
        session.stop);
    if (progress)
      progress->end();
    MOERT_RETURN_IF_ERROR(scores.status());
    return lossOfScores(*scores, confidence);
  }

private:
  struct Loaded {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<EngineSource> source;
  };

  static Result<Loaded> load(const Model &model, const EngineOptions &options) {
    Loaded loaded;
    MOERT_ASSIGN_OR_RETURN(MemoryAccount account, accountMemory(model, options));
    MOERT_ASSIGN_OR_RETURN(loaded.engine, Engine::load(model, options, account));
    MOERT_ASSIGN_OR_RETURN(loaded.source, EngineSource::create(*loaded.engine));
    return loaded;
  }

  Result<PlanLoss> lossOfScores(std::span<const SampleScore> scores, double confidence) const {
    const LossMetric metric = request.texts.metric;
    const SampleScore sum = sumOf(scores);
    const std::optional<double> loss = lossOf(sum, metric);
    const std::optional<double> bound = lossUpperBound(scores, metric, confidence);
    if (!loss || !bound)
      return invalidInput("--eval-text has ", unitCount(scores),
                          " units, and a bound of the loss takes ", kMinimumBoundUnits,
                          " documents or more, not longer ones");
    PlanLoss measured;
    measured.metric = metricName(metric);
    measured.loss = *loss;
    measured.upperBound = *bound;
    measured.confidence = confidence;
    measured.klNats = valueOf(sum, LossMetric::kKl).value_or(0);
    measured.topDisagreement = 1 - valueOf(sum, LossMetric::kTop1).value_or(1);
    measured.units = unitCount(scores);
    measured.windows = scores.size();
    measured.windowTokens = request.texts.windows.windowTokens;
    for (size_t i = 0; i < texts().size(); ++i) {
      const EvaluatedText &text = texts()[i];
      measured.documents += text.documents;
      measured.texts.push_back({std::filesystem::path(request.texts.files[i]).filename().string(),
                                text.hash, text.bytes});
    }
    return measured;
  }

  const MissRequest &request;
  std::string artifactPath;
  const Session &session;
  std::unique_ptr<Model> reference, tokenizerOwner;
  std::optional<EvaluationSet> set;
};

} // namespace

//===-- Deciding ------------------------------------------------------------------------------===//

static std::string measuredText(const PlanLoss &loss) {
  return strCat("loses ", lossText(loss.metric, loss.loss), ", at most ",
                lossText(loss.metric, loss.upperBound), " with ", fixed(loss.confidence * 100, 2),
                "% confidence, decoding ", loss.windows, " windows of ", loss.units,
                " units with this cache");
}

static Plan withRule(Plan plan, const MissRule &rule, const PlanLoss &loss,
                     const std::string &why) {
  plan.miss = rule;
  plan.loss = loss;
  plan.forecast.reset();
  plan.reasons.push_back({"miss", missRuleText(rule), why, Origin::kMeasured});
  return plan;
}

/// One plan for each rule; where there are several, names and presets distinguish them.
static Result<std::vector<Plan>> measureRules(const MissRequest &request, const PlanJudge &judge,
                                              const Plan &plan) {
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
    named.miss = rule;
    MOERT_ASSIGN_OR_RETURN(const PlanLoss loss, judge.measure(named, 0.95));
    made.push_back(withRule(std::move(named), rule, loss,
                            strCat("It was asked for, and ", measuredText(loss), ".")));
  }
  return made;
}

/// The last rule that passes.
static Result<Plan> acceptRule(const MissRequest &request, const PlanJudge &judge, const Plan &plan,
                               double confidence) {
  Plan accepted = plan;
  const std::string target =
      lossText(std::string(metricName(request.texts.metric)), *request.target);
  std::string reason;
  for (const MissRule &rule : rulesFor(request, plan)) {
    if (!rule.isLossy())
      continue;
    Plan tried = plan;
    tried.miss = rule;
    MOERT_ASSIGN_OR_RETURN(const PlanLoss loss, judge.measure(tried, confidence));
    if (!(loss.upperBound <= *request.target)) {
      reason = strCat(missRuleText(rule), " ", measuredText(loss), ", more than the ", target,
                      " that was allowed.");
      break;
    }
    reason.clear();
    accepted =
        withRule(plan, rule, loss,
                 strCat("It ", measuredText(loss), ", within the ", target, " that was allowed."));
  }
  if (!accepted.miss.isLossy() && !reason.empty())
    accepted.reasons.push_back(
        {"miss", missRuleText({}), strCat("No loss on misses: ", reason), Origin::kMeasured});
  return accepted;
}

/// The confidence of each plan's chain of tests: the level of a compile, divided by the plans.
static Result<double> acceptanceConfidence(const MissRequest &request, const PlanJudge &judge,
                                           const std::string &artifactPath,
                                           std::span<const Plan> plans) {
  std::string path = request.acceptanceLogPath;
  if (path.empty()) {
    MOERT_ASSIGN_OR_RETURN(path, defaultAcceptanceLog());
  }
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::open(artifactPath));
  const Artifact &artifact = model->artifact();
  uint64_t checkpoint = artifact.residentChecksum;
  for (const auto &[key, value] : artifact.provenance)
    if (key == "checkpoint_sample")
      checkpoint = parseChecksum(value).value_or(checkpoint);
  std::string decides = strCat("miss ", formatChecksum(artifact.residentChecksum), " ",
                               *request.target, " ", metricName(request.texts.metric));
  for (const MissRule &rule : request.rules)
    decides += strCat(" ", missRuleText(rule));
  for (const Plan &plan : plans)
    decides += strCat(" '", plan.name, "' ", plan.preset, " ", plan.stagingPages);
  std::vector<uint64_t> hashes;
  for (const EvaluatedText &text : judge.texts())
    hashes.push_back(text.hash);
  MOERT_ASSIGN_OR_RETURN(
      const uint32_t number,
      addToAcceptanceLog(path,
                         {checkpoint, checksum64(std::as_bytes(std::span(decides))), hashes}));
  const std::optional<AcceptanceLevels> levels = acceptanceLevels(number);
  if (!levels)
    return invalidInput(kMaxCompilesOfText,
                        " compiles have tested this checkpoint on these texts (", path,
                        "), which leaves no probability of error for another one; expected "
                        "other documents with --eval-text");
  constexpr double kLeastError = 0.0001; // No bound is computed beyond 99.99%.
  const double error = levels->main / double(plans.size());
  if (error < kLeastError)
    return invalidInput(plans.size(), " plans at once need a confidence of ",
                        fixed((1 - error) * 100, 4), "% each, as this is compile ", number,
                        " that tests this checkpoint on these texts (", path,
                        "); expected fewer of --memory and --preset, or other documents");
  return 1 - error;
}

Result<std::vector<Plan>> decideMissRules(const MissRequest &request,
                                          const std::string &artifactPath,
                                          const std::vector<Plan> &plans, const Session &session) {
  const bool isLossy = std::any_of(plans.begin(), plans.end(), [&request](const Plan &plan) {
    return anyIsLossy(rulesFor(request, plan));
  });
  if (!isLossy)
    return plans;
  PlanJudge judge(request, artifactPath, session);
  MOERT_RETURN_IF_ERROR(judge.open());
  double confidence = 0.95;
  if (request.target) {
    MOERT_ASSIGN_OR_RETURN(confidence, acceptanceConfidence(request, judge, artifactPath, plans));
  }
  std::vector<Plan> decided;
  for (const Plan &plan : plans) {
    if (request.target) {
      MOERT_ASSIGN_OR_RETURN(Plan accepted, acceptRule(request, judge, plan, confidence));
      decided.push_back(std::move(accepted));
      continue;
    }
    MOERT_ASSIGN_OR_RETURN(std::vector<Plan> measured, measureRules(request, judge, plan));
    std::move(measured.begin(), measured.end(), std::back_inserter(decided));
  }
  return decided;
}

} // namespace moec
