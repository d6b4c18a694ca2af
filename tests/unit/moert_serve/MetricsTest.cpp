#include "tools/moert-serve/Metrics.h"

#include <doctest/doctest.h>
#include <sstream>

using namespace moert;

TEST_CASE("metrics are families of samples, each with a help text and a type") {
  SchedulerNumbers numbers;
  numbers.cancelled = 3;
  numbers.rejected = 4;
  numbers.stepNs = 1'500'000'000;
  numbers.budgetBytes = 1000;
  const std::string text = serve::metricsOf(numbers, 7, {64, 2, 3, 0, 128});
  std::string family;
  size_t samples = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      CHECK(line.substr(7).starts_with(family + " "));
      continue;
    }
    CHECK(line.starts_with(family));
    ++samples;
  }
  CHECK(samples == 20);
  CHECK(text.find("\nmoert_sequences_total{end=\"cancelled\"} 3\n") != std::string::npos);
  CHECK(text.find("\nmoert_sequences_total{end=\"rejected\"} 4\n") != std::string::npos);
  CHECK(text.find("\nmoert_step_seconds_total 1.5\n") != std::string::npos);
  CHECK(text.find("\nmoert_refused_requests_total 7\n") != std::string::npos);
  CHECK(text.find("\nmoert_kv_tokens_limit 128\n") != std::string::npos);
  CHECK(text.find("\nmoert_memory_budget_bytes 1000\n") != std::string::npos);
}
