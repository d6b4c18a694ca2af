// Compares the pool's records with those that emission makes from the same tensors: with rounding
// to nearest both must have the same bytes, and so artifacts from either are the same file.
#include "compiler/emit/EmitArtifact.h"
#include "runtime/format/Verify.h"
#include "tests/unit/pool/PoolFixture.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace moec;
using namespace moert;

/// Gives the artifact's experts the pool's formats on the grids of the choice.
static void takeFormats(Artifact &artifact, const ExpertPool &pool, const GridChoice &choice) {
  for (size_t l = 0; l < artifact.moeLayers.size(); ++l)
    for (size_t e = 0; e < artifact.moeLayers[l].experts.size(); ++e) {
      Expert &expert = artifact.moeLayers[l].experts[e];
      expert.slices.clear();
      for (const ExpertFormat &format : pool.formatsOf(choice[l][e]))
        expert.slices.emplace_back().format = format;
    }
}

static Status emit(PoolFixture &fixture, const std::string &name, const RecordSource *records) {
  auto checkpoint = Checkpoint::open(fixture.checkpointPath);
  REQUIRE(checkpoint.isOk());
  fixture.plan.records = records;
  EmitOptions options;
  options.outputPath = fixture.directory.path(name);
  return emitArtifact(fixture.plan, *checkpoint, options).status();
}

static void checkAgainstRounding(PoolFixture &fixture, const GridChoice &choice) {
  auto pool = fixture.filled();
  takeFormats(fixture.plan.artifact, *pool, choice);
  Status rounded = emit(fixture, "rounded.moe", nullptr);
  REQUIRE_MESSAGE(rounded.isOk(), rounded.message());
  PooledRecords records(*pool, choice);
  Status copied = emit(fixture, "copied.moe", &records);
  REQUIRE_MESSAGE(copied.isOk(), copied.message());
  const std::string file = contentOf(fixture.directory.path("rounded.moe"));
  CHECK(contentOf(fixture.directory.path("copied.moe")) == file);
  for (size_t l = 0; l < choice.size(); ++l)
    for (size_t e = 0; e < choice[l].size(); ++e) {
      const Expert &expert = fixture.plan.artifact.moeLayers[l].experts[e];
      std::vector<std::byte> record = recordOf(*pool, l, e, choice[l][e]);
      REQUIRE(record.size() == expert.bytes);
      CHECK(std::memcmp(record.data(), file.data() + expert.fileOffset, record.size()) == 0);
      CHECK(pool->recordBytesOf(l, choice[l][e]) == expert.bytes);
      uint64_t payload = 0;
      for (const Slice &slice : expert.slices)
        payload += slice.payloadBytes;
      CHECK(pool->payloadBytesOf(l, choice[l][e]) == payload);
    }
}

TEST_CASE("rounded records equal those of emission, on every grid") {
  for (bool nested : {true, false})
    for (uint32_t grid = 0; grid < 6; ++grid) {
      CAPTURE(nested);
      CAPTURE(grid);
      PoolFixture fixture;
      fixture.options.method = QuantizeMethod::kNearest;
      fixture.options.nested = nested;
      checkAgainstRounding(fixture, GridChoice(2, std::vector<uint32_t>(4, grid)));
    }
}

TEST_CASE("an artifact may take each expert from another grid") {
  PoolFixture fixture;
  fixture.options.method = QuantizeMethod::kNearest;
  checkAgainstRounding(fixture, {{5, 0, 4, 1}, {3, 2, 0, 5}});
}

TEST_CASE("records with low copies equal those of emission, and their padding is zero") {
  for (uint32_t pageBytes : {4096u, 65536u}) {
    CAPTURE(pageBytes);
    PoolFixture fixture;
    fixture.options.method = QuantizeMethod::kNearest;
    fixture.options.nested = false;
    auto pool = fixture.filled();
    const GridChoice choice = {{0, 3, 0, 5}, {0, 0, 3, 4}}; // 8, 4, 3 or 2 bits.
    Artifact &artifact = fixture.plan.artifact;
    takeFormats(artifact, *pool, choice);
    artifact.pageBytes = pageBytes;
    const auto addLowCopy = [&](size_t layer, size_t expert, size_t grid) {
      std::vector<Slice> &slices = artifact.moeLayers[layer].experts[expert].slices;
      for (const ExpertFormat &format : pool->formatsOf(grid))
        slices.insert(slices.begin(), Slice{format});
    };
    addLowCopy(0, 0, 5);
    addLowCopy(0, 1, 5);
    addLowCopy(1, 1, 3);
    Status rounded = emit(fixture, "rounded.moe", nullptr);
    REQUIRE_MESSAGE(rounded.isOk(), rounded.message());
    auto records = PooledRecords::withLowCopies(*pool, choice, artifact);
    REQUIRE(records.isOk());
    Status copied = emit(fixture, "copied.moe", &*records);
    REQUIRE_MESSAGE(copied.isOk(), copied.message());
    CHECK(contentOf(fixture.directory.path("copied.moe")) ==
          contentOf(fixture.directory.path("rounded.moe")));
    auto source = FileSource::open(fixture.directory.path("copied.moe"));
    REQUIRE(source.isOk());
    Status status = verifyArtifact(*source);
    CHECK_MESSAGE(status.isOk(), status.message());
    const Expert &expert = artifact.moeLayers[0].experts[0];
    CHECK(expert.bytes - fullBytesOf(expert) >= pageBytes);
    CHECK(fullBytesOf(expert) == pool->recordBytesOf(0, 0));
  }
}

TEST_CASE("a low copy of a width that the pool lacks is refused") {
  PoolFixture fixture;
  auto pool = fixture.filled();
  const GridChoice choice(2, std::vector<uint32_t>(4, 0));
  takeFormats(fixture.plan.artifact, *pool, choice);
  std::vector<Slice> &slices = fixture.plan.artifact.moeLayers[0].experts[0].slices;
  slices.insert(slices.begin(), Slice{WeightFormat{WeightKind::kNl2, 32, 32}});
  CHECK(PooledRecords::withLowCopies(*pool, choice, fixture.plan.artifact).status().message() ==
        "a low copy of nl2, expected one of the widths in the pool");
}

TEST_CASE("an artifact of experts quantized with calibration is valid, with every method") {
  for (QuantizeMethod method :
       {QuantizeMethod::kPerChannel, QuantizeMethod::kClipped, QuantizeMethod::kWeighted,
        QuantizeMethod::kHqq, QuantizeMethod::kGptq}) {
    CAPTURE(nameOf(method));
    PoolFixture fixture;
    fixture.options.method = method;
    for (ExpertGrid &grid : fixture.options.grids)
      grid.gateUp.hasOffsets = grid.down.hasOffsets = method == QuantizeMethod::kHqq;
    auto pool = fixture.filled();
    GridChoice choice = {{5, 4, 3, 1}, {0, 1, 2, 4}};
    takeFormats(fixture.plan.artifact, *pool, choice);
    PooledRecords records(*pool, choice);
    REQUIRE(emit(fixture, "out.moe", &records).isOk());
    auto source = FileSource::open(fixture.directory.path("out.moe"));
    REQUIRE(source.isOk());
    Status status = verifyArtifact(*source);
    CHECK_MESSAGE(status.isOk(), status.message());
  }
}

TEST_CASE("a part of a record is read from its offset, and reads past its end fail") {
  PoolFixture fixture;
  auto pool = fixture.filled();
  std::vector<std::byte> whole = recordOf(*pool, 1, 2, 0), part(100), none;
  REQUIRE(pool->read(1, 2, 0, 37, part).isOk());
  CHECK(std::memcmp(part.data(), whole.data() + 37, part.size()) == 0);
  CHECK(pool->read(1, 2, 0, whole.size() - 100, part).isOk());
  CHECK_FALSE(pool->read(1, 2, 0, whole.size() - 99, part).isOk());
  CHECK_FALSE(pool->read(1, 2, 0, whole.size() + 1, none).isOk());
  CHECK_FALSE(pool->read(1, 2, 0, UINT64_MAX, part).isOk());
}
