#include "compiler/plan/ProxyBar.h"
#include "compiler/plan/WidthSearch.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace moec;

TEST_CASE("a bound below the target lets the bar rise in proportion") {
  CHECK(ProxyBar(0.02).after(0.01, 0.01) == doctest::Approx(0.02 * 0.97));
}

TEST_CASE("nothing lost, or less than nothing, lets the bar rise by a bounded factor") {
  for (double bound : {0.0, -0.05, 1e-12})
    CHECK(ProxyBar(0.02).after(0.01, bound) == doctest::Approx(0.04 * 0.97));
}

TEST_CASE("a bound above the target lets the bar fall with the square, by a bounded factor") {
  CHECK(ProxyBar(0.02).after(0.01, 0.04) == doctest::Approx(0.0025 * 0.97));
  CHECK(ProxyBar(0.02).after(0.01, 0.0201) == doctest::Approx(0.007 * 0.97));
  for (double bound : {1e9, std::numeric_limits<double>::infinity()})
    CHECK(ProxyBar(0.02).after(0.01, bound) == doctest::Approx(0.01 / 16 * 0.97));
}

TEST_CASE("after a second failure the bar falls with the power that the two show") {
  ProxyBar bar(0.02);
  CHECK(bar.after(0.16, 0.08) == doctest::Approx(0.01 * 0.97));
  CHECK(bar.after(0.01, 0.04) == doctest::Approx(0.01 / 16 * 0.97)); // A sixteenth halves: 1/4.
  ProxyBar steep(0.02);
  steep.after(0.04, 0.16);
  CHECK(steep.after(0.01, 0.04) == doctest::Approx(0.01 / 2 * 0.97));
}

TEST_CASE("between a look that met the target and one that did not, the bar stays between them") {
  ProxyBar risen(0.02), fallen(0.02);
  risen.after(0.01, 0.005);
  CHECK(risen.after(0.04, 0.04) == doctest::Approx(0.01 * 0.97));
  fallen.after(0.04, 0.04);
  CHECK(fallen.after(0.01, 0.001) == doctest::Approx(0.02 * 0.97));
}

TEST_CASE("looks that contradict each other end below the one that failed") {
  ProxyBar bar(0.02);
  bar.after(0.03, 0.01);
  CHECK(bar.after(0.02, 0.03) < 0.02);
}

TEST_CASE("where nothing was measured to be lost there is still a bar above nothing") {
  CHECK(ProxyBar(0.02).after(0, 0.5) > 0);
  CHECK(ProxyBar(0.02).after(0, 0) > 0);
}

TEST_CASE("with any power between the root and itself three looks meet the target") {
  for (double power : {0.5, 0.7, 1.0})
    for (double scale : {0.3, 1.0, 3.0}) {
      ProxyBar bar(0.02);
      double measured = 0.02, met = 0;
      for (uint32_t look = 0; look < kMaxLooks; ++look) {
        const double bound = 0.02 * scale * std::pow(measured / 0.02, power);
        if (bound <= 0.02)
          met = std::max(met, measured);
        measured = bar.after(measured, bound);
      }
      INFO(power, " ", scale);
      const double most = 0.02 * std::pow(scale, -1 / power);
      CHECK(met > most / 5);
      CHECK(met <= most * 1.0001);
    }
}
