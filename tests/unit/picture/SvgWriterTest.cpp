#include "compiler/picture/SvgWriter.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace moec;

TEST_CASE("numbers have two decimals at most and no sign without a value") {
  CHECK(svgNumber(12) == "12");
  CHECK(svgNumber(100) == "100");
  CHECK(svgNumber(1.5) == "1.5");
  CHECK(svgNumber(-2.346) == "-2.35");
  CHECK(svgNumber(-0.001) == "0");
}

TEST_CASE("NaN, infinity and huge values become 0") {
  CHECK(svgNumber(std::nan("")) == "0");
  CHECK(svgNumber(INFINITY) == "0");
  CHECK(svgNumber(1e300) == "0");
}

TEST_CASE("XML's special characters are escaped") {
  CHECK(escapeXml("a<b> & \"c\"") == "a&lt;b&gt; &amp; &quot;c&quot;");
  CHECK(escapeXml("größer") == "größer");
}

TEST_CASE("characters that XML does not allow are replaced") {
  CHECK(escapeXml(std::string_view("a\0b\x1b", 4)) == "a\xEF\xBF\xBD"
                                                      "b\xEF\xBF\xBD");
  CHECK(escapeXml("a\xff") == "a\xEF\xBF\xBD");
  CHECK(escapeXml("a\nb") == "a b");
}

TEST_CASE("a file holds its shapes in their order, with escaped words") {
  SvgWriter svg(30, 20, "A & B", ".x{fill:red}\n");
  svg.rect(1, 2, 3, 4, "x");
  svg.line(0, 0, 1, 1.25, "x");
  svg.circle(5, 6, 2, "x");
  SvgPath path;
  path.moveTo(0, 1).acrossTo(4).upOrDownTo(3).close();
  svg.path(path, "x");
  svg.text(7, 8, "<script>", "x");
  CHECK(std::move(svg).finish() ==
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"20\" "
        "viewBox=\"0 0 30 20\" role=\"img\">\n"
        "<title>A &amp; B</title>\n<style>\n.x{fill:red}\n</style>\n"
        "<rect class=\"x\" x=\"1\" y=\"2\" width=\"3\" height=\"4\"/>\n"
        "<line class=\"x\" x1=\"0\" y1=\"0\" x2=\"1\" y2=\"1.25\"/>\n"
        "<circle class=\"x\" cx=\"5\" cy=\"6\" r=\"2\"/>\n"
        "<path class=\"x\" d=\"M0 1H4V3Z\"/>\n"
        "<text class=\"x\" x=\"7\" y=\"8\">&lt;script&gt;</text>\n</svg>\n");
}
