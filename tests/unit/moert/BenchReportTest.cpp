#include "tools/moert/BenchReport.h"

#include <doctest/doctest.h>

using namespace moert::cli;

TEST_CASE("the median is the middle value, or the mean of the middle two") {
  CHECK(spreadOf({3, 1, 2}).median == 2);
  CHECK(spreadOf({4, 1, 2, 3}).median == 2.5);
  CHECK(spreadOf({7}).median == 7);
  CHECK(spreadOf({3, 1, 2}).smallest == 1);
  CHECK(spreadOf({3, 1, 2}).largest == 3);
}

TEST_CASE("a quantile is the smallest value that the given fraction does not exceed") {
  std::vector<uint64_t> values;
  for (uint64_t i = 100; i >= 1; --i)
    values.push_back(i);
  CHECK(quantile(values, 0.95) == 95);
  CHECK(quantile(values, 1) == 100);
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile({5}, 0.95) == 5);
  CHECK(quantile({1, 2}, 0.95) == 2);
}
