#include "compiler/accuracy/SearchedWidths.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace moec;

using Widths = std::vector<ExpertWidth>;

TEST_CASE("error feedback has widths with a wider down, by descending mean") {
  const Widths widths = searchedWidths({});
  CHECK(widths == Widths{8, 6, 5, {4, 6}, 4, {3, 5}, 3, {2, 4}, 2});
  CHECK(std::is_sorted(widths.begin(), widths.end(),
                       [](const auto &a, const auto &b) { return a.meanBits() > b.meanBits(); }));
}

TEST_CASE("the methods of papers keep one width for an expert") {
  AccurateCompileRequest request;
  for (QuantizeMethod method :
       {QuantizeMethod::kNearest, QuantizeMethod::kPerChannel, QuantizeMethod::kHqq}) {
    request.method = method;
    CHECK(searchedWidths(request) == Widths{8, 6, 5, 4, 3, 2});
  }
}

TEST_CASE("low copies take no width away") {
  AccurateCompileRequest request;
  request.passes.lowCopyBits = 4;
  CHECK(searchedWidths(request) == searchedWidths({}));
}

TEST_CASE("a given width is the only one, with the width given for down") {
  AccurateCompileRequest request;
  request.bits = 4;
  CHECK(searchedWidths(request) == Widths{4});
  for (QuantizeMethod method : {QuantizeMethod::kGptq, QuantizeMethod::kHqq}) {
    request.method = method;
    request.passes.downBits = 6;
    CHECK(searchedWidths(request) == Widths{{4, 6}});
  }
}
