#include "compiler/ir/PlanAttrs.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"

#include <doctest/doctest.h>

using namespace mlir::moe;

namespace {

/// With every field set, and with numbers that no short decimal equals.
moert::Plan fullPlan() {
  moert::Plan plan;
  plan.name = "25% fate";
  plan.budgetBytes = uint64_t(3) << 40;
  plan.prefillChunk = 128;
  plan.contextTokens = 2048;
  plan.stagingPages = 7;
  plan.quotaPages = {9, 0};
  plan.preset = "fate";
  plan.rules = {moert::EvictionPolicy::kWeighted,
                moert::CacheSharing::kOnePool,
                moert::PromptSurvival::kPins,
                {1, 2, 3, moert::kFixedPointOne - 6}};
  plan.pinned = {{3, 1}, {}};
  plan.start = {{{2, 0}, {17, 4}}, {{}, {}}};
  plan.startTokens = 31;
  plan.prefetches = {{}, {moert::Predictor::kAdaptiveGate, 1, 15, 4, 77}};
  moert::Forecast forecast;
  forecast.device = "a laptop";
  forecast.threads = 8;
  forecast.tokens = 448;
  forecast.traceTokens = 1792;
  double number = 1.0 / 3;
  for (double *field :
       {&forecast.tokenNs, &forecast.medianNs, &forecast.slowNs, &forecast.hitRate,
        &forecast.readyRate, &forecast.bytesPerToken, &forecast.prefetchRecall,
        &forecast.prefetchPrecision, &forecast.leastBytesPerToken, &forecast.boundNs})
    *field = number /= 1.7;
  forecast.origin = moert::Origin::kStated;
  plan.forecast = forecast;
  plan.reasons = {{"eviction", "arc", "the paper's", moert::Origin::kStated}};
  plan.miss = {moert::MissAction::kLower, 2, 31, 99, 7};
  plan.rules.baseSlices = 2;
  plan.loss = {"perplexity",
               1.0 / 7,
               1.0 / 6,
               0.96875,
               1.0 / 11,
               1.0 / 13,
               60,
               61,
               62,
               512,
               {{"a.jsonl", UINT64_MAX, 5}},
               moert::QuantileBound{1.0 / 3, 1.0 / 17, {}}};
  return plan;
}

/// The plan of the attribute's text.
moert::Plan reread(PlanAttr attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << mlir::Attribute(attribute);
  const mlir::Attribute parsed = mlir::parseAttribute(text, attribute.getContext());
  REQUIRE(parsed);
  return llvm::cast<PlanAttr>(parsed).getData();
}

} // namespace

TEST_CASE("an attribute holds everything that a plan holds, also as text") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  moert::Plan bare;
  bare.name = "default";
  bare.prefillChunk = bare.contextTokens = 8;
  moert::Plan exchanging = fullPlan();
  exchanging.rules = {.eviction = moert::EvictionPolicy::kImportance, .exchange = {9, 3, 7}};
  exchanging.prefetches = {};
  exchanging.expertNorms = {{3, moert::kFixedPointOne}, {}};
  moert::Plan pooled = fullPlan();
  pooled.pinned = {};
  pooled.rules.upperPart = 5;
  for (const moert::Plan &plan : {fullPlan(), exchanging, pooled, bare}) {
    const PlanAttr attribute = PlanAttr::get(&context, plan);
    CHECK(attribute.getData() == plan);
    CHECK(reread(attribute) == plan);
  }
}

TEST_CASE("a plan with impossible numbers is refused, and the message names the field") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  std::string errors;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    errors += diagnostic.str();
    return mlir::success();
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << mlir::Attribute(PlanAttr::get(&context, fullPlan()));
  auto refusalOf = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    errors.clear();
    CHECK(!mlir::parseAttribute(changed, &context));
    return errors;
  };
  const std::string plan = "plan '25% fate': ";
  CHECK(refusalOf("tokenNs = ", "tokenNs = -").starts_with(plan + "forecast: token_ns is -"));
  CHECK(refusalOf("tokens = 448", "tokens = 1793").starts_with(plan + "forecast: it covers 1793"));
  CHECK(refusalOf("action = lower, ", "").starts_with(plan + "miss: 2 slices that are held alone"));
  CHECK(refusalOf("confidence = 9.687500e-01", "confidence = 0x7FF0000000000000") ==
        plan + "loss: confidence is inf, expected a finite number");
  CHECK(refusalOf("recency = 1", "recency = -1") == "expected a number from 0 to 4294967295");
  CHECK(refusalOf("lowSlices = 2", "lowSlices = 0") ==
        plan + "miss: low_slices is 0, expected 1 to 255");
  CHECK(refusalOf("lowSlices = 2", "lowSlices = 256") == "expected a number from 0 to 255");
  CHECK(refusalOf("waitUpTo = 31", "waitUpTo = 100") ==
        plan + "miss: wait_up_to is 100, expected 0 to 99");
  CHECK(refusalOf("action = lower", "action = hope")
            .starts_with("found 'hope', expected one of wait"));
  CHECK(refusalOf("startTokens = 31", "startTokens = 31, exchange = <fadeShift = 12>") ==
        plan + "exchange: fade_shift is 12, expected 1 to 11");
  CHECK(refusalOf("startTokens = 31", "startTokens = 31, expertNorms = [[16777217], []]") ==
        plan + "expert_norms is 16777217, expected 0 to 16777216");
}
