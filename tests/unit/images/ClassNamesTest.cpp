// Names of classes: what an artifact keeps is what it gives back, and what cannot be used is none.
#include "runtime/images/ClassNames.h"

#include <doctest/doctest.h>

using namespace moert;

static Artifact artifactWith(const std::string &value) {
  Artifact artifact;
  artifact.model.vocabularySize = 2;
  artifact.provenance = {{"moec", "1.0"}, {std::string(kClassNamesKey), value}};
  return artifact;
}

TEST_CASE("names of classes survive being kept") {
  const std::vector<std::string> names = {"crane, a bird", "\"crane\", a machine"};
  REQUIRE(checkClassNames(names, 2).isOk());
  Artifact artifact = artifactWith("");
  artifact.provenance.clear();
  addClassNames(names, artifact);
  CHECK(classNamesOf(artifact) == names);
}

TEST_CASE("an artifact without names, or with unusable ones, has none") {
  CHECK(classNamesOf(artifactWith(R"(["a","b"])")).size() == 2);
  for (const char *value : {"", "a", "[]", R"(["a"])", R"(["a","b","c"])", R"(["a",1])",
                            R"(["a",""])", R"(["a","\u001b[2J"])", R"({"0":"a","1":"b"})"})
    CHECK_MESSAGE(classNamesOf(artifactWith(value)).empty(), value);
}
