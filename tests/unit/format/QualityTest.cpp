// The quick loss of a file survives a round trip, broken ones are refused, and one line sums up
// what is known of the loss of a file.
#include "runtime/format/Quality.h"
#include "runtime/format/Reader.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace moert;

static QuickLoss tinyQuickLoss() {
  return {0.0312, 0.0287, 0.081, 20, 16};
}

static Result<Artifact> readWith(const QuickLoss &quick) {
  Artifact artifact = tinyArtifact();
  artifact.quickLoss = quick;
  const std::vector<std::byte> file = fileOf(artifact);
  return readArtifact(MemorySource("tiny.moe", file));
}

TEST_CASE("a quick loss survives a round trip, and a file without one has none") {
  auto read = readWith(tinyQuickLoss());
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->quickLoss == tinyQuickLoss());
  Artifact without = tinyArtifact();
  const std::vector<std::byte> file = fileOf(without);
  read = readArtifact(MemorySource("tiny.moe", file));
  REQUIRE(read.isOk());
  CHECK_FALSE(read->quickLoss);
}

TEST_CASE("quick losses that break a rule are refused") {
  struct Change {
    std::function<void(QuickLoss &)> apply;
    const char *message;
  };
  for (const Change &change : std::vector<Change>{
           {[](QuickLoss &q) { q.loss = std::nan(""); }, "quick_loss: loss is nan"},
           {[](QuickLoss &q) { q.klNats = INFINITY; }, "quick_loss: kl_nats is inf"},
           {[](QuickLoss &q) { q.topDisagreement = 1.5; }, "quick_loss: top_disagreement is 1.5"},
           {[](QuickLoss &q) { q.windows = 0; }, "quick_loss: windows"},
           {[](QuickLoss &q) { q.windowTokens = 1; }, "quick_loss: window_tokens"}}) {
    QuickLoss quick = tinyQuickLoss();
    change.apply(quick);
    auto read = readWith(quick);
    CHECK(read.status().code() == StatusCode::kInvalidInput);
    CHECK_MESSAGE(read.status().message().find(change.message) != std::string::npos,
                  read.status().message());
  }
}

TEST_CASE("a line has what is known of the loss") {
  Artifact artifact;
  artifact.provenance = {{"bits", "4"}, {"resident_bits", "source"}};
  CHECK(qualityText(artifact) == "loss not measured; rounding to nearest can lose tens of percent");
  artifact.provenance.emplace_back("quantizer", "gptq");
  CHECK(qualityText(artifact) == kUnmeasuredText);
  artifact.quickLoss = tinyQuickLoss();
  CHECK(qualityText(artifact) ==
        "perplexity +3.12%, KL 0.0287 nats, another likeliest token for 8.1%, all 0 for the "
        "checkpoint itself; on 20 windows of 16 tokens that it wrote, without a bound");
  artifact.quickLoss->klNats = kNoticeableKl * 1.01;
  CHECK(qualityText(artifact).ends_with("compile it with more --bits"));
  artifact.measured = tinyMeasured();
  CHECK(qualityText(artifact).ends_with(", accepted"));
  artifact.measured->quantile = {0.9, 0.0225, {}}; // Nobody asked for it.
  CHECK(qualityText(artifact) == "1.25% loss in perplexity, at most 1.88%, accepted");
  artifact.measured->quantile->target = 0.03;
  CHECK(qualityText(artifact) == "1.25% loss in perplexity, at most 1.88%, and 90% of the "
                                 "documents at most 2.25% each, accepted");
}

TEST_CASE("a file of the checkpoint's own weights is exact") {
  Artifact artifact;
  artifact.provenance = {{"bits", "source"}, {"resident_bits", "source"}};
  CHECK(isExact(artifact));
  CHECK(qualityText(artifact) == "the checkpoint's own weights");
  artifact.provenance.emplace_back("head_bits", "8");
  CHECK_FALSE(isExact(artifact));
}
