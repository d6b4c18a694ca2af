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
    *field = number *= 1.7;
  forecast.origin = moert::Origin::kStated;
  plan.forecast = forecast;
  plan.reasons = {{"eviction", "arc", "the paper's", moert::Origin::kStated}};
  plan.miss = {moert::MissAction::kLower, 2, 31, 99, 7};
  plan.rules.baseSlices = 2;
  plan.rules.upperPart = 5;
  plan.loss = {"perplexity",
               1.0 / 7,
               1.0 / 6,
               0.95,
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
  return toPlan(llvm::cast<PlanAttr>(parsed));
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
  exchanging.expertNorms = {{3, moert::kFixedPointOne}, {}};
  for (const moert::Plan &plan : {fullPlan(), exchanging, bare}) {
    const PlanAttr attribute = toPlanAttr(&context, plan);
    CHECK(toPlan(attribute) == plan);
    CHECK(reread(attribute) == plan);
  }
}

TEST_CASE("a forecast or a miss rule with impossible numbers is refused") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  std::string errors;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    errors += diagnostic.str();
    return mlir::success();
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << mlir::Attribute(toPlanAttr(&context, fullPlan()));
  auto refused = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    errors.clear();
    return !mlir::parseAttribute(changed, &context);
  };
  CHECK(refused("tokenNs = ", "tokenNs = -"));
  CHECK(errors.find("expected finite f64 numbers of at least 0") != std::string::npos);
  CHECK(refused("tokens = 448", "tokens = 1793"));
  CHECK(errors.find("a forecast for 1793 tokens of a trace of 1792") != std::string::npos);
  CHECK(refused(", miss = <action = lower, lowSlices = 2, waitUpTo = 31, skipBeyond = 99, "
                "substituteWithin = 7>",
                ""));
  CHECK(errors.find("with a loss, expected a miss rule") != std::string::npos);
  CHECK(refused("confidence = ", "confidence = 0x7FF0000000000000 : f64, no = "));
  CHECK(refused("evictionWeights = [1, ", "evictionWeights = ["));
  CHECK(errors.find("expected 4 weights of eviction from 0 to 16777216") != std::string::npos);
  CHECK(refused("evictionWeights = [1, ", "evictionWeights = [-1, "));
  CHECK(refused("lowSlices = 2", "lowSlices = 0"));
  CHECK(errors.find("a miss rule with 0 slices, scores of 31 and 99") != std::string::npos);
  CHECK(refused("waitUpTo = 31", "waitUpTo = 100"));
  CHECK(refused("skipBeyond = 99", "skipBeyond = 16777217"));
  CHECK(refused("substituteWithin = 7", "substituteWithin = 16777217"));
  CHECK(refused("action = lower", "action = hope"));
  for (const char *exchange :
       {"<everyTokens = 4, afterTokens = 5>", "<everyTokens = 4, afterTokens = 0>",
        "<fadeShift = 12>", "<fadeShift = 0>"}) {
    CAPTURE(exchange);
    CHECK(refused("startTokens = 31", std::string("startTokens = 31, exchange = ") + exchange));
    CHECK(errors.find("an exchange in every ") != std::string::npos);
  }
  CHECK(refused("startTokens = 31", "startTokens = 31, expertNorms = [1 : i32, 2 : i32]"));
  CHECK(errors.find("expected arrays of norms") != std::string::npos);
}
