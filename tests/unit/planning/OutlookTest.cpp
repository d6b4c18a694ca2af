#include "compiler/planning/Outlook.h"

#include <doctest/doctest.h>

using namespace moec;
using moert::CacheAllotment;
using moert::CacheShape;

TEST_CASE("assumed hit rates are interpolated linearly in their table") {
  for (const AssumedHit &entry : kAssumedHits)
    CHECK(assumedHitRate(entry.cachedFraction) == doctest::Approx(entry.hitRate));
  CHECK(assumedHitRate(0.375) == doctest::Approx((0.515 + 0.773) / 2));
  CHECK(assumedHitRate(1.5) == 1);
}

TEST_CASE("where each token uses all experts, what a layer keeps is what it hits") {
  CacheShape shape;
  shape.layers.assign(
      2, {.experts = 8, .topK = 2, .recordPages = 1, .workingPages = 2, .allPages = 8});
  const CacheAllotment half{.stagingPages = 2, .quotaPages = {3, 3}};
  CHECK(expectedHits(shape, half).rate == doctest::Approx(0.773));
  CHECK(expectedHits(shape, half).origin == Origin::kAssumed);
  for (CacheShape::Layer &layer : shape.layers)
    layer.topK = 8;
  CHECK(expectedHits(shape, half).rate == doctest::Approx(6.0 / 16));
  CHECK(expectedHits(shape, half).origin == Origin::kDerived);
}

TEST_CASE("an outlook has at most 80 columns") {
  Outlook outlook;
  outlook.modelType = "some";
  WidthOutlook &width = outlook.widths.emplace_back();
  width.option = "source";
  BudgetOutlook &budget = width.budgets.emplace_back();
  budget.budget = "1GiB";
  budget.isEnough = true;
  budget.speed.emplace();
  budget.speed->tokenNs = budget.speed->computeNs = 1e8;
  DeviceProfile device;
  device.name = "a machine";
  OutlookRequest request;
  request.budgets = {"1GiB"};
  request.device = &device;
  const std::string text = outlookText(outlook, request);
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    CHECK_MESSAGE(text.find('\n', at) - at <= 80, text.substr(at, text.find('\n', at) - at));
}

TEST_CASE("text and JSON mark budgets that do not fit") {
  Outlook outlook;
  outlook.modelType = "some";
  WidthOutlook &width = outlook.widths.emplace_back();
  width.option = "4";
  width.bits = 4;
  width.budgets.emplace_back().budget = "1MiB";
  OutlookRequest request;
  request.budgets = {"1MiB"};
  CHECK(outlookText(outlook, request).find("does not fit") != std::string::npos);
  CHECK(outlookText(outlook, request).find("--context") == std::string::npos);
  width.budgets.front().fitsShorterContext = true;
  CHECK(outlookText(outlook, request).find("shorter context (--context)") != std::string::npos);
  width.budgets.front().fitsShorterContext = false;
  // If nothing fits, no times are printed.
  const DeviceProfile device;
  request.device = &device;
  CHECK(outlookText(outlook, request).find("does not fit") != std::string::npos);
  CHECK(outlookText(outlook, request).ends_with("\nSizes are derived from config.json.\n"));
  CHECK(outlookJson(outlook, request).find("{\"budget\":\"1MiB\",\"fits\":false}") !=
        std::string::npos);
  width.budgets.front().isEnough = true;
  CHECK(outlookText(outlook, request).find("--context") == std::string::npos);
}
