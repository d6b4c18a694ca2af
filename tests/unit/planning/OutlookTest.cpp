#include "compiler/planning/Outlook.h"

#include <doctest/doctest.h>

using namespace moec;

TEST_CASE("assumed hit rates are interpolated linearly in their table") {
  for (const AssumedHit &entry : kAssumedHits)
    CHECK(assumedHitRate(entry.cachedFraction) == doctest::Approx(entry.hitRate));
  CHECK(assumedHitRate(0.375) == doctest::Approx((0.515 + 0.773) / 2));
  CHECK(assumedHitRate(1.5) == 1);
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
