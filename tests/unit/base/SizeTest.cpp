#include "runtime/base/Size.h"

#include <doctest/doctest.h>

using namespace moert;

static uint64_t bytesOf(const char *text) {
  auto size = parseSize(text);
  REQUIRE_MESSAGE(size.isOk(), size.status().message());
  CHECK(!size->fraction);
  return size->bytes;
}

TEST_CASE("binary units are powers of 1024 and decimal ones powers of 1000") {
  CHECK(bytesOf("1B") == 1);
  CHECK(bytesOf("1KiB") == 1024);
  CHECK(bytesOf("512MiB") == 536870912);
  CHECK(bytesOf("6GiB") == 6442450944);
  CHECK(bytesOf("2TiB") == 2199023255552);
  CHECK(bytesOf("1KB") == 1000);
  CHECK(bytesOf("1MB") == 1000000);
  CHECK(bytesOf("1GB") == 1000000000);
  CHECK(bytesOf("1TB") == 1000000000000);
}

TEST_CASE("units may be in lower case, and a letter alone is a power of 1024") {
  CHECK(bytesOf("6gb") == 6000000000);
  CHECK(bytesOf("6gib") == bytesOf("6GiB"));
  CHECK(bytesOf("6G") == bytesOf("6GiB"));
  CHECK(bytesOf("512m") == bytesOf("512MiB"));
  CHECK(bytesOf("4k") == 4096);
  CHECK(bytesOf("1T") == bytesOf("1TiB"));
}

TEST_CASE("a decimal number is exact to the byte") {
  CHECK(bytesOf("1.5GiB") == 1610612736);
  CHECK(bytesOf("0.1KB") == 100);
  CHECK(bytesOf("2.000001MB") == 2000001);
  CHECK(bytesOf("0.999999TiB") == 1099510528264);
}

TEST_CASE("a percentage is a fraction and no number of bytes") {
  auto quarter = parseSize("25%");
  REQUIRE(quarter.isOk());
  REQUIRE(quarter->fraction);
  CHECK(*quarter->fraction == 0.25);
  CHECK(*parseSize("100%")->fraction == 1);
  CHECK(*parseSize("12.5%")->fraction == 0.125);
}

TEST_CASE("a text that is not a size is refused with the reason and with examples that work") {
  struct Case {
    const char *text, *reason;
  };
  for (const Case &refused : {Case{"", "does not begin with a number"},
                              {"GiB", "does not begin with a number"},
                              {"-1GiB", "does not begin with a number"},
                              {".5GiB", "does not begin with a number"},
                              {"6", "unit is missing"},
                              {"6", "such as 6GiB"},
                              {"6Gi", "'Gi' is not a unit"},
                              {"6GiBB", "'GiBB' is not a unit"},
                              {"25% c.moe", "' c.moe' follows the %"},
                              {"6\x1b[31m", "size '6\\x1b[31m': '\\x1b[31m' is not a unit"},
                              {"6 GiB", "' GiB' is not a unit"},
                              {"6GiB ", "'GiB ' is not a unit"},
                              {"1.GiB", "no digit follows the point"},
                              {"1.0000001GiB", "more than six digits"},
                              {"0%", "above 0% and at most 100%"},
                              {"0B", "above 0 bytes"},
                              {"0.0GiB", "above 0 bytes"},
                              {"0.9B", "above 0 bytes"},
                              {"101%", "above 0% and at most 100%"},
                              {"99999999999999999999B", "too large"},
                              {"18446744073709551615KiB", "too large"}}) {
    auto size = parseSize(refused.text);
    REQUIRE_MESSAGE(!size.isOk(), refused.text);
    CHECK(size.status().code() == StatusCode::kInvalidInput);
    CHECK_MESSAGE(size.status().message().find(refused.reason) != std::string::npos,
                  size.status().message());
    CHECK(size.status().message().find("512MiB") != std::string::npos);
  }
}

TEST_CASE("sizes are printed with at most four digits and never as 1024 of a unit") {
  CHECK(formatBytes(0) == "0 B");
  CHECK(formatBytes(1023) == "1023 B");
  CHECK(formatBytes(1024) == "1.00 KiB");
  CHECK(formatBytes(4096) == "4.00 KiB");
  CHECK(formatBytes(1610612736) == "1.50 GiB");
  CHECK(formatBytes((uint64_t(1) << 20) - 1) == "1.00 MiB");
  CHECK(formatBytes(1023 * 1024) == "1023 KiB");
  CHECK(formatBytes(UINT64_MAX) == "16.0 EiB");
  CHECK(formatExactBytes(1610612737) == "1610612737 bytes (1.50 GiB)");
}
