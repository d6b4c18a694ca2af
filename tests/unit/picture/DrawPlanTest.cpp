#include "compiler/picture/PlanPicture.h"

#include "runtime/base/Status.h"

#include <doctest/doctest.h>

using namespace moec;
using moert::strCat;

namespace {

/// A picture with so many layers and experts; a token uses four experts, two of them resident.
PlanPicture somePicture(uint32_t layers, uint32_t experts) {
  PlanPicture picture;
  picture.title = "Plan 50% of a <model> & more";
  picture.lines = {"on a machine"};
  picture.figures = {{"12.5", "tokens/s"}, {"71%", "hits"}};
  for (uint32_t i = 0; i < layers; ++i) {
    PicturedLayer &layer = picture.layers.emplace_back();
    layer.number = i;
    for (uint32_t e = 0; e < experts; ++e)
      layer.experts.push_back({0.5 / (1 + e), e < experts / 2 ? 0.9 : 0.1, e == 0 && i % 3 == 0});
    layer.room = strCat(experts / 2, " of ", experts);
    layer.keptExperts = experts / 2;
    layer.hitRate = 0.71;
    layer.prefetches = i == 0 ? "none" : "gate 1 ahead, 2 of 8";
    layer.turn = {double(i), i + 0.25, i + 1.0, i % 2 ? 0.5 : 0, 2, 1, 0, 1, i % 2};
  }
  picture.roomOfAll = "half";
  picture.tokenMs = layers + 0.5;
  picture.tokenText = "median";
  return picture;
}

size_t countOf(const std::string &text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

} // namespace

TEST_CASE("a picture has a row for each layer") {
  const std::string drawn = drawPlan(somePicture(10, 32));
  CHECK(countOf(drawn, "<path class=\"wanted\"") == 10);
  CHECK(countOf(drawn, "<path class=\"found\"") == 10);
  CHECK(countOf(drawn, ">gate 1 ahead, 2 of 8<") == 9);
  CHECK(countOf(drawn, ">16 of 32<") == 10);
  CHECK(countOf(drawn, "<rect class=\"compute\"") == 10 + 1); // One more in the legend.
  CHECK(countOf(drawn, "<rect class=\"wait\"") == 5 + 1);
  CHECK(countOf(drawn, "<circle class=\"held\"") == 20 + 1);
  CHECK(countOf(drawn, "<rect class=\"pin\"") == 4 + 1);
}

TEST_CASE("the legend lists only what the plan has") {
  PlanPicture picture = somePicture(10, 32);
  for (PicturedLayer &layer : picture.layers) {
    layer.keptExperts = 0; // One pool for all layers.
    for (PicturedExpert &expert : layer.experts)
      expert.isPinned = false;
  }
  const std::string drawn = drawPlan(picture);
  CHECK(countOf(drawn, "<rect class=\"found\"") == 1);
  CHECK(countOf(drawn, "<rect class=\"room\"") == 0);
  CHECK(countOf(drawn, "<rect class=\"pin\"") == 0);
  picture.layers[3].experts[5].isPinned = true;
  CHECK(countOf(drawPlan(picture), "<rect class=\"pin\"") == 1 + 1);
}

TEST_CASE("the time after the last layer ends its lane") {
  // 10 layers, and the time after them.
  CHECK(countOf(drawPlan(somePicture(10, 32)), "<rect class=\"before\"") == 10 + 1 + 1);
}

TEST_CASE("many layers have rows without words between those that have some") {
  CHECK(countOf(drawPlan(somePicture(48, 128)), ">64 of 128<") == 48);
  const std::string drawn = drawPlan(somePicture(100, 8));
  CHECK(countOf(drawn, "<path class=\"wanted\"") == 100);
  CHECK(countOf(drawn, ">4 of 8<") == 50);
}

TEST_CASE("the same numbers give the same bytes") {
  CHECK(drawPlan(somePicture(7, 16)) == drawPlan(somePicture(7, 16)));
  CHECK(drawPlan(somePicture(7, 16)) != drawPlan(somePicture(7, 15)));
}

TEST_CASE("a picture is one file that loads and runs nothing") {
  const std::string drawn = drawPlan(somePicture(3, 4));
  CHECK(drawn.find("Plan 50% of a &lt;model&gt; &amp; more") != std::string::npos);
  CHECK(countOf(drawn, "http") == 1); // The namespace of SVG.
  for (const char *part : {"<script", "url(", "href", "@import", "nan", "inf\""})
    CHECK(countOf(drawn, part) == 0);
}

TEST_CASE("names that are longer than the picture is wide are cut between characters") {
  PlanPicture picture = somePicture(1, 4);
  picture.lines = {"x"};
  for (int i = 0; i < 200; ++i)
    picture.lines[0] += "ü";
  const std::string drawn = drawPlan(picture);
  CHECK(countOf(drawn, "ü") == 123);
  CHECK(countOf(drawn, "ü…</text>") == 1);
}

TEST_CASE("an unused layer and a token without duration are drawn too") {
  PlanPicture picture = somePicture(2, 4);
  for (PicturedLayer &layer : picture.layers)
    for (PicturedExpert &expert : layer.experts)
      expert.wantedFraction = 0;
  picture.tokenMs = 0;
  const std::string drawn = drawPlan(picture);
  CHECK(countOf(drawn, "<path class=\"wanted\"") == 2);
  CHECK(countOf(drawn, "<rect class=\"compute\"") == 1);
}
