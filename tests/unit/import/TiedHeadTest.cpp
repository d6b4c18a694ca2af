// tie_word_embeddings, and the tensors that are stored.
#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

namespace {

const std::string kEmbedding = "model.embed_tokens.weight", kHead = "lm_head.weight";

struct Imported {
  explicit Imported(const TestCheckpoint &checkpoint) {
    checkpoint.write(directory);
    auto model =
        moec::importCheckpoint(directory.path(), [&](std::string_view line) { warnings += line; });
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    description = model->description;
  }
  TemporaryDirectory directory;
  std::string warnings;
  moec::ModelDescription description;
};

TestCheckpoint tied() {
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.config["tie_word_embeddings"] = true;
  return checkpoint;
}

} // namespace

TEST_CASE("both stored and different: the head is not tied, with a warning that names both") {
  const Imported imported(tied());
  CHECK_FALSE(imported.description.tiedHead);
  CHECK(imported.description.head.weight.tensor == kHead);
  CHECK(imported.description.embedding.tensor == kEmbedding);
  for (const std::string &part : {kHead, kEmbedding, std::string("tie_word_embeddings")})
    CHECK(imported.warnings.find(part) != std::string::npos);
}

TEST_CASE("a difference in the last element is enough to untie the head") {
  TestCheckpoint checkpoint = tied();
  checkpoint.tensor(kHead).bytes = checkpoint.tensor(kEmbedding).bytes;
  checkpoint.tensor(kHead).bytes.back() ^= 1;
  CHECK_FALSE(Imported(checkpoint).description.tiedHead);
}

TEST_CASE("both stored and equal: tied") {
  TestCheckpoint checkpoint = tied();
  checkpoint.tensor(kHead).bytes = checkpoint.tensor(kEmbedding).bytes;
  SUBCASE("in the same type") {}
  SUBCASE("in a wider type") {
    std::string wide;
    for (size_t i = 0; i < checkpoint.tensor(kHead).bytes.size(); i += 2)
      wide += std::string(2, '\0') + checkpoint.tensor(kHead).bytes.substr(i, 2);
    checkpoint.tensor(kHead).type = "F32";
    checkpoint.tensor(kHead).bytes = wide;
  }
  const Imported imported(checkpoint);
  CHECK(imported.description.tiedHead);
  CHECK(imported.description.head.weight.tensor == kEmbedding);
}

TEST_CASE("only the embedding stored: tied") {
  TestCheckpoint checkpoint = tied();
  checkpoint.remove(kHead);
  const Imported imported(checkpoint);
  CHECK(imported.description.tiedHead);
  CHECK(imported.description.head.weight.tensor == kEmbedding);
  CHECK(imported.warnings == "");
}

TEST_CASE("only the head stored: it is the embedding too") {
  TestCheckpoint checkpoint = tied();
  checkpoint.remove(kEmbedding);
  const Imported imported(checkpoint);
  CHECK(imported.description.tiedHead);
  CHECK(imported.description.head.weight.tensor == kHead);
  CHECK(imported.description.embedding.tensor == kHead);
}

TEST_CASE("a head of another shape is refused although the flag says tied") {
  TestCheckpoint checkpoint = tied();
  checkpoint.tensor(kHead) = testTensor(kHead, "BF16", {24, 8});
  checkRefused(importStatus(checkpoint), {kHead, "found shape [24, 8], expected [16, 8]"});
}

TEST_CASE("without the flag a missing head or embedding is refused") {
  for (const std::string &name : {kHead, kEmbedding}) {
    TestCheckpoint checkpoint = tinyMixtral();
    checkpoint.remove(name);
    checkRefused(importStatus(checkpoint), {"found no tensor \"" + name + "\""});
  }
}
