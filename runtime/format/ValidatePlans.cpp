// The rules about plans: room for every record, lists that name experts once, guesses that the
// program makes, numbers that can be printed.
#include "runtime/format/Validate.h"

#include "runtime/format/ValidateRules.h"
#include "runtime/policy/CacheAllotment.h"

#include <string_view>
#include <unordered_set>

namespace moert {

static Status checkQuotas(const Artifact &artifact, const Plan &plan) {
  if (plan.quotaPages.size() != artifact.moeLayers.size())
    return invalidInput("quotas of ", plan.quotaPages.size(), " layers, expected ",
                        artifact.moeLayers.size());
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    CacheShape::Layer pages =
        cacheLayerOf(recordBytesOf(artifact.moeLayers[i]), artifact.pageBytes, 1);
    uint64_t room = uint64_t(plan.quotaPages[i]) + plan.transitPages;
    if (room < pages.recordPages)
      return invalidInput("MoE layer ", i, " has ", room, " pages with those in transit, its ",
                          "largest record needs ", pages.recordPages);
    if (plan.quotaPages[i] > pages.allPages)
      return invalidInput("MoE layer ", i, " has a quota of ", plan.quotaPages[i],
                          " pages, all its records need ", pages.allPages);
  }
  return {};
}

// Lists of every MoE layer, or none at all.
static Status checkCount(const char *what, size_t count, const Artifact &artifact) {
  if (count != 0 && count != artifact.moeLayers.size())
    return invalidInput(what, " of ", count, " layers, expected none or ",
                        artifact.moeLayers.size());
  return {};
}

static Status checkExperts(const std::vector<uint32_t> &experts, size_t expertCount) {
  std::vector<bool> isNamed(expertCount);
  for (uint32_t expert : experts) {
    if (expert >= expertCount)
      return invalidInput("expert ", expert, ", there are ", expertCount);
    if (isNamed[expert])
      return invalidInput("expert ", expert, " twice");
    isNamed[expert] = true;
  }
  return {};
}

// The directory itself says how much may be pinned: it is what pins when the plan is played.
static Status checkPinnedPages(const Artifact &artifact, const Plan &plan) {
  DirectorySize size = {artifact.moeLayers.size(), 0, 0};
  for (const MoeLayer &layer : artifact.moeLayers) {
    size.experts += layer.experts.size();
    size.widestLayer = std::max(size.widestLayer, layer.experts.size());
  }
  CacheDirectory directory(plan.rules, plan.transitPages, size);
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    directory.addLayer(plan.quotaPages[i]);
    for (uint64_t bytes : recordBytesOf(artifact.moeLayers[i]))
      directory.addExpert(uint32_t(bytes / artifact.pageBytes + (bytes % artifact.pageBytes != 0)));
  }
  for (uint32_t i = 0; i < plan.pinned.size(); ++i)
    for (uint32_t expert : plan.pinned[i]) {
      uint32_t id = directory.idOf(i, expert);
      if (!directory.pin(id))
        return invalidInput(
            "expert ", expert, " of MoE layer ", i, " is pinned: ", directory.at(id).pages,
            " pages, ", directory.pinnedPages(id), " before it, expected at most ",
            directory.pinLimitPages(id), ", which leave room for the largest record");
    }
  return {};
}

static Status checkPins(const Artifact &artifact, const Plan &plan) {
  MOERT_RETURN_IF_ERROR(checkCount("pins", plan.pinned.size(), artifact));
  if (plan.pinned.empty())
    return {};
  for (size_t i = 0; i < plan.pinned.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkExperts(plan.pinned[i], artifact.moeLayers[i].experts.size())
                              .withContext(strCat("pins of MoE layer ", i)));
  return checkPinnedPages(artifact, plan);
}

static Status checkStart(const Artifact &artifact, const Plan &plan) {
  MOERT_RETURN_IF_ERROR(checkRange("start tokens", plan.startTokens, 1, UINT32_MAX));
  MOERT_RETURN_IF_ERROR(checkCount("starts", plan.start.size(), artifact));
  for (size_t i = 0; i < plan.start.size(); ++i) {
    const LayerStart &start = plan.start[i];
    std::string where = strCat("start of MoE layer ", i);
    MOERT_RETURN_IF_ERROR(
        checkExperts(start.experts, artifact.moeLayers[i].experts.size()).withContext(where));
    if (start.uses.size() != start.experts.size())
      return invalidInput(where, ": uses of ", start.uses.size(), " experts, expected ",
                          start.experts.size());
    for (uint32_t uses : start.uses)
      MOERT_RETURN_IF_ERROR(checkRange("uses", uses, 0, plan.startTokens).withContext(where));
  }
  return {};
}

// Bit a of a MoE layer: the program "decode" can guess it a MoE layers ahead. Programs are checked
// after plans.
static std::vector<uint8_t> guessesOf(const Artifact &artifact) {
  std::vector<uint8_t> guesses(artifact.moeLayers.size());
  for (const Program &program : artifact.programs)
    if (program.name == "decode")
      for (const Instruction &instruction : program.instructions)
        if (const auto *predict = std::get_if<PredictInstruction>(&instruction))
          if (predict->moeLayer < guesses.size() && predict->ahead <= kMostAhead)
            guesses[predict->moeLayer] |= uint8_t(1 << predict->ahead);
  return guesses;
}

static Status checkGuess(const Artifact &artifact, const GuessRule &rule, size_t experts,
                         uint8_t programGuesses) {
  MOERT_RETURN_IF_ERROR(checkRange("ahead", rule.ahead, 1, kMostAhead));
  MOERT_RETURN_IF_ERROR(checkRange("least share", rule.minShare, 0, kWholeShare));
  if (rule.predictor == Predictor::kOff)
    return {};
  MOERT_RETURN_IF_ERROR(checkRange("number of candidates", rule.candidates, 1, experts));
  MOERT_RETURN_IF_ERROR(checkRange("number of reads", rule.reads, 1, rule.candidates));
  if (rule.predictor == Predictor::kPaths && rule.ahead != 1)
    return invalidInput("guesses by paths are ", uint32_t(rule.ahead), " ahead, expected 1");
  if (rule.predictor == Predictor::kPaths && artifact.pathsBytes == 0)
    return invalidInput("guesses by paths, but the file has no section of them");
  if ((programGuesses & 1 << rule.ahead) == 0)
    return invalidInput("the program 'decode' has no predict instruction ", uint32_t(rule.ahead),
                        " ahead of it");
  return {};
}

static Status checkGuesses(const Artifact &artifact, const Plan &plan,
                           const std::vector<uint8_t> &programGuesses) {
  MOERT_RETURN_IF_ERROR(checkCount("guess rules", plan.guesses.size(), artifact));
  for (size_t i = 0; i < plan.guesses.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkGuess(artifact, plan.guesses[i],
                                     artifact.moeLayers[i].experts.size(), programGuesses[i])
                              .withContext(strCat("guess rule of MoE layer ", i)));
  return {};
}

static Status checkForecast(const Forecast &forecast) {
  MOERT_RETURN_IF_ERROR(checkText(forecast.device, "the device"));
  for (const auto &[what, value] : {std::pair{"time per token", forecast.tokenNs},
                                    {"median time per token", forecast.medianNs},
                                    {"time of slow tokens", forecast.slowNs},
                                    {"bytes per token", forecast.bytesPerToken},
                                    {"least bytes per token", forecast.leastBytesPerToken},
                                    {"bound of the time per token", forecast.boundNs}})
    MOERT_RETURN_IF_ERROR(checkAtLeast0(what, value));
  for (const auto &[what, value] : {std::pair{"hit rate", forecast.hitRate},
                                    {"rate of experts present", forecast.presentRate},
                                    {"guesses' recall", forecast.guessRecall},
                                    {"guesses' precision", forecast.guessPrecision}})
    MOERT_RETURN_IF_ERROR(checkShare(what, value));
  return {};
}

static Status checkReasons(const Plan &plan) {
  for (size_t i = 0; i < plan.reasons.size(); ++i)
    for (const std::string *text :
         {&plan.reasons[i].decision, &plan.reasons[i].value, &plan.reasons[i].reason})
      MOERT_RETURN_IF_ERROR(checkText(*text, strCat("reason ", i)));
  return {};
}

// What a plan of an earlier version says.
static bool decidesNothingNew(const Plan &plan) {
  return plan.preset.empty() && plan.rules == CacheRules{EvictionPolicy::kCyclic} &&
         plan.pinned.empty() && plan.start.empty() && plan.startTokens == 1 &&
         plan.guesses.empty() && !plan.forecast && plan.reasons.empty();
}

static Status checkPlan(const Artifact &artifact, const Plan &plan,
                        const std::vector<uint8_t> &programGuesses) {
  if (artifact.minorVersion < kPlansDecideMinor && !decidesNothingNew(plan))
    return invalidInput("it decides what version 1.", artifact.minorVersion, " does not have");
  MOERT_RETURN_IF_ERROR(checkText(plan.name, "the name"));
  MOERT_RETURN_IF_ERROR(checkText(plan.preset, "the preset"));
  MOERT_RETURN_IF_ERROR(checkRange("prefill chunk", plan.prefillChunk, 1, kMaxPrefillChunk));
  MOERT_RETURN_IF_ERROR(checkRange("context", plan.contextTokens, 1, artifact.model.maxPositions));
  MOERT_RETURN_IF_ERROR(checkQuotas(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkPins(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkStart(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkGuesses(artifact, plan, programGuesses));
  if (plan.forecast)
    MOERT_RETURN_IF_ERROR(checkForecast(*plan.forecast).withContext("forecast"));
  return checkReasons(plan);
}

Status validatePlans(const Artifact &artifact) {
  if (artifact.plans.empty())
    return invalidInput("no plans, expected at least 1");
  const std::vector<uint8_t> programGuesses = guessesOf(artifact);
  std::unordered_set<std::string_view> names;
  // 0 stands for no limit, so it is the largest.
  auto limitOf = [](const Plan &plan) { return plan.budgetBytes - 1; };
  for (size_t i = 0; i < artifact.plans.size(); ++i) {
    const Plan &plan = artifact.plans[i];
    MOERT_RETURN_IF_ERROR(
        checkPlan(artifact, plan, programGuesses).withContext(strCat("plan ", i)));
    if (plan.name.empty() || !names.insert(plan.name).second)
      return invalidInput("plan ", i, ": the name '", plan.name, "' is empty or taken");
    if (i > 0 && limitOf(plan) > limitOf(artifact.plans[i - 1]))
      return invalidInput("plan ", i, ": its budget of ", plan.budgetBytes,
                          " bytes is larger than the one before, expected the largest first");
  }
  return {};
}

} // namespace moert
