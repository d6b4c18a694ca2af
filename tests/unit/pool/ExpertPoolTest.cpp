#include "tests/unit/pool/PoolFixture.h"
#include "tests/unit/support/FileSizeLimit.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>

using namespace moec;
using namespace moert;

static void flipByte(const std::string &path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(std::streamoff(offset));
  char byte = char(file.get());
  file.seekp(std::streamoff(offset));
  file.put(char(byte ^ 1));
  REQUIRE(file.good());
}

/// The bytes of all grids of an expert.
static uint64_t blockBytes(const ExpertPool &pool) {
  uint64_t bytes = 0;
  for (size_t grid = 0; grid < pool.grids().size(); ++grid)
    bytes += pool.recordBytesOf(0, grid);
  return bytes;
}

static std::vector<std::byte> expertOf(const ExpertPool &pool, size_t layer, size_t expert) {
  std::vector<std::byte> all;
  for (size_t grid = 0; grid < pool.grids().size(); ++grid) {
    std::vector<std::byte> record = recordOf(pool, layer, expert, grid);
    all.insert(all.end(), record.begin(), record.end());
  }
  return all;
}

TEST_CASE("a pool has every expert of the plan on every grid, finer grids with less error") {
  PoolFixture fixture;
  auto pool = fixture.filled();
  REQUIRE(pool->layers() == 2);
  REQUIRE(pool->grids() == fixture.options.grids);
  for (size_t layer = 0; layer < 2; ++layer) {
    REQUIRE(pool->expertsOf(layer) == 4);
    for (size_t expert = 0; expert < 4; ++expert) {
      const PooledExpert &pooled = pool->expert(layer, expert);
      REQUIRE(pooled.grids.size() == fixture.options.grids.size());
      CHECK(pooled.squaredNorm > 0);
      CHECK(pooled.grids.front().squaredError > 0);
      // Not beside a wider down: with few tokens one may be fitted, and the other rounded.
      double finer = 0;
      for (size_t grid = 0; grid < pooled.grids.size(); ++grid)
        if (pool->grids()[grid].gateUp == pool->grids()[grid].down) {
          CHECK(pooled.grids[grid].squaredError > finer);
          finer = pooled.grids[grid].squaredError;
        }
    }
  }
}

TEST_CASE("the number of threads does not change the pool") {
  PoolFixture one, two;
  two.options.threads = 2;
  auto alone = one.filled(), together = two.filled();
  CHECK(recordsOf(*alone) == recordsOf(*together));
  for (const char *name : {"layer-000", "layer-001"})
    for (const char *ending : {".index", ".records"}) {
      CAPTURE(name);
      CAPTURE(ending);
      CHECK(contentOf(one.poolFile(std::string(name) + ending)) ==
            contentOf(two.poolFile(std::string(name) + ending)));
    }
}

TEST_CASE("experts quantized with calibration differ from rounded ones") {
  PoolFixture fitted, rounded;
  rounded.options.method = QuantizeMethod::kNearest;
  CHECK(recordsOf(*fitted.filled()) != recordsOf(*rounded.filled()));
}

TEST_CASE("experts are quantized with their activation and their own biases") {
  PoolFixture fixture;
  // Biases of gate, up and down for 4 experts of 24 x 32.
  const auto first = int32_t(fixture.plan.residentSources.size());
  fixture.plan.residentSources.push_back({"gate_bias", 1, 96, {}});
  fixture.plan.residentSources.push_back({"up_bias", 1, 96, {}});
  fixture.plan.residentSources.push_back({"down_bias", 1, 128, {}});
  fixture.writeWeights(5);
  size_t filled = 0;
  const auto normsOf = [&] {
    fixture.options.directory = fixture.directory.path("pool" + std::to_string(filled++));
    std::filesystem::create_directory(fixture.options.directory);
    auto pool = fixture.filled();
    std::vector<double> norms;
    for (size_t layer = 0; layer < 2; ++layer)
      for (size_t expert = 0; expert < 4; ++expert)
        norms.push_back(pool->expert(layer, expert).squaredNorm);
    return norms;
  };
  const std::vector<double> plain = normsOf();
  const auto checkSecondLayer = [&] {
    const std::vector<double> norms = normsOf();
    for (size_t i = 0; i < 8; ++i)
      CHECK((norms[i] != plain[i]) == (i >= 4));
  };
  fixture.plan.artifact.moeLayers[1].activation = {Activation::kClampedSwiglu, 1.702f, 7};
  checkSecondLayer();
  fixture.plan.artifact.moeLayers[1].activation = {};
  ExpertsInstruction *second = nullptr;
  for (Instruction &instruction : fixture.plan.artifact.programs.front().instructions)
    if (auto *experts = std::get_if<ExpertsInstruction>(&instruction))
      second = experts;
  REQUIRE(second);
  using Bias = int32_t ExpertsInstruction::*;
  constexpr Bias kBiases[] = {&ExpertsInstruction::gateBias, &ExpertsInstruction::upBias,
                              &ExpertsInstruction::downBias};
  for (int32_t i = 0; i < 3; ++i) {
    second->*kBiases[i] = first + i;
    checkSecondLayer();
    second->*kBiases[i] = kNone;
  }
}

TEST_CASE("experts whose inputs the router weighs are quantized with the weighted inputs") {
  // Powers of two, so that the product is exact in every type that a profile stores.
  const auto weightOf = [](size_t token) { return token % 3 == 0 ? 0.25f : 0.5f; };
  PoolFixture weighted, multiplied;
  weighted.plan.scalesInputs.assign(2, true);
  weighted.writeProfile(1, 1, [&](std::vector<float> &, LayerTrace &trace) {
    for (size_t token = 0; token < trace.weights.size(); ++token)
      trace.weights[token] = weightOf(token);
  });
  multiplied.writeProfile(1, 1, [&](std::vector<float> &rows, LayerTrace &trace) {
    const size_t hidden = rows.size() / trace.weights.size();
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] *= weightOf(i / hidden);
    std::fill(trace.weights.begin(), trace.weights.end(), 1.0f);
  });
  const std::vector<std::byte> records = recordsOf(*weighted.filled());
  CHECK(records == recordsOf(*multiplied.filled()));
  weighted.plan.scalesInputs.assign(2, false);
  weighted.options.directory = weighted.directory.path("plain");
  std::filesystem::create_directory(weighted.options.directory);
  CHECK(records != recordsOf(*weighted.filled()));
}

TEST_CASE("an interrupted pool resumes to the same bytes, wherever it stopped") {
  PoolFixture whole;
  auto expected = recordsOf(*whole.filled());
  for (size_t done : {0u, 1u, 3u, 4u, 6u, 7u}) {
    CAPTURE(done);
    PoolFixture fixture;
    fixture.fillAndInterruptAfter(done);
    fixture.options.threads = 2;
    CHECK(recordsOf(*fixture.filled()) == expected);
    CHECK(contentOf(fixture.poolFile("layer-000.index")) ==
          contentOf(whole.poolFile("layer-000.index")));
    CHECK(contentOf(fixture.poolFile("layer-001.index")) ==
          contentOf(whole.poolFile("layer-001.index")));
  }
}

// The checkpoint's weights change in between, which no hash detects here: experts with the old
// weights were not made again.
TEST_CASE("an interrupted pool keeps the experts that are done") {
  PoolFixture fixture, before, after;
  after.writeWeights(6);
  fixture.fillAndInterruptAfter(5);
  fixture.writeWeights(6);
  auto pool = fixture.filled(), old = before.filled(), anew = after.filled();
  for (size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    const ExpertPool &expected = i < 5 ? *old : *anew;
    CHECK(expertOf(*pool, i / 4, i % 4) == expertOf(expected, i / 4, i % 4));
    CHECK(pool->expert(i / 4, i % 4) == expected.expert(i / 4, i % 4));
  }
}

TEST_CASE("a full disk does not damage an interrupted pool") {
  PoolFixture fixture, whole;
  fixture.fillAndInterruptAfter(2);
  const std::string index = contentOf(fixture.poolFile("layer-000.index"));
  {
    FileSizeLimit limit(0);
    Status status = fixture.fill().status();
    CHECK(status.code() == StatusCode::kFailed);
  }
  CHECK(contentOf(fixture.poolFile("layer-000.index")) == index);
  CHECK(recordsOf(*fixture.filled()) == recordsOf(*whole.filled()));
}

TEST_CASE("a pool can be interrupted again and again") {
  PoolFixture whole, fixture;
  for (size_t done : {1u, 2u, 3u, 5u, 7u})
    fixture.fillAndInterruptAfter(done);
  CHECK(recordsOf(*fixture.filled()) == recordsOf(*whole.filled()));
}

TEST_CASE("a finished pool is only read, and an interruption during the check leaves it intact") {
  PoolFixture fixture;
  auto expected = recordsOf(*fixture.filled());
  std::string index = contentOf(fixture.poolFile("layer-000.index"));
  fixture.writeWeights(6);
  std::atomic<bool> stop = true;
  fixture.options.stop = &stop;
  CHECK(fixture.fill().status().code() == StatusCode::kInterrupted);
  CHECK(contentOf(fixture.poolFile("layer-000.index")) == index);
  fixture.options.stop = nullptr;
  CHECK(recordsOf(*fixture.filled()) == expected);
}

TEST_CASE(
    "a byte that changed in any place of a kept record is noticed and the expert made again") {
  PoolFixture fixture;
  auto pool = fixture.filled();
  auto expected = recordsOf(*pool);
  // The first byte, the middle and the last, which is padding, of the second expert.
  uint64_t block = blockBytes(*pool);
  for (uint64_t offset : {block, block + block / 2, 2 * block - 1}) {
    CAPTURE(offset);
    flipByte(fixture.poolFile("layer-001.records"), offset);
    CHECK(recordsOf(*fixture.filled()) == expected);
  }
}

TEST_CASE("a pool that was filled layer by layer is not filled again") {
  PoolFixture fixture;
  auto expected = recordsOf(*fixture.filled());
  PoolFixture other;
  auto checkpoint = Checkpoint::open(other.checkpointPath);
  auto profile = CalibrationProfile::open(other.profilePath);
  auto pool = ExpertPool::open(other.plan, (*profile)->info(), other.options);
  REQUIRE_MESSAGE(pool.isOk(), pool.status().message());
  int experts = 0;
  for (size_t layer = 0; layer < (*pool)->layers(); ++layer)
    REQUIRE((*pool)
                ->fillLayer(other.plan, *checkpoint, **profile, layer, [&](bool) { ++experts; })
                .isOk());
  CHECK(experts == 8);
  std::filesystem::remove(other.poolFile("layer-001.index"));
  CHECK((*pool)->fill(other.plan, *checkpoint, **profile).isOk());
  CHECK_FALSE(std::filesystem::exists(other.poolFile("layer-001.index")));
  CHECK(recordsOf(**pool) == expected);
}

TEST_CASE("missing or truncated records are made again") {
  PoolFixture fixture;
  auto pool = fixture.filled();
  auto expected = recordsOf(*pool);
  std::filesystem::resize_file(fixture.poolFile("layer-000.records"), blockBytes(*pool) * 3 / 2);
  CHECK(recordsOf(*fixture.filled()) == expected);
  std::filesystem::remove(fixture.poolFile("layer-001.records"));
  CHECK(recordsOf(*fixture.filled()) == expected);
}

TEST_CASE("an index with a truncated last line loses only that expert") {
  PoolFixture fixture, before, after;
  after.writeWeights(6);
  auto old = before.filled(), anew = after.filled();
  (void)fixture.filled();
  const std::string path = fixture.poolFile("layer-001.index");
  std::string whole = contentOf(path);
  std::filesystem::resize_file(path, whole.size() - 1);
  fixture.writeWeights(6);
  auto pool = fixture.filled();
  CHECK(expertOf(*pool, 1, 2) == expertOf(*old, 1, 2));
  CHECK(expertOf(*pool, 1, 3) == expertOf(*anew, 1, 3));
}

namespace {

/// A change of something that determines a pool's bytes.
struct Change {
  const char *what;
  void (*apply)(PoolFixture &fixture);
};

const Change kChanges[] = {
    {"the checkpoint",
     [](PoolFixture &fixture) {
       fixture.writeWeights(6);
       fixture.options.checkpointHash.sample = 0x78;
     }},
    {"the calibration", [](PoolFixture &fixture) { fixture.writeProfile(2); }},
    {"the method", [](PoolFixture &fixture) { fixture.options.method = QuantizeMethod::kClipped; }},
    {"the grids", [](PoolFixture &fixture) { fixture.options.grids.pop_back(); }},
    {"the transform",
     [](PoolFixture &fixture) {
       for (ExpertGrid &grid : fixture.options.grids)
         grid.gateUp.hasHadamard = grid.down.hasHadamard = true;
     }},
    {"the slices", [](PoolFixture &fixture) { fixture.options.nested = false; }},
};

} // namespace

TEST_CASE("records from another checkpoint, calibration, method or storage are not reused") {
  for (const Change &change : kChanges) {
    CAPTURE(change.what);
    PoolFixture used, fresh;
    (void)used.filled();
    change.apply(used);
    change.apply(fresh);
    CHECK(recordsOf(*used.filled()) == recordsOf(*fresh.filled()));
  }
}

TEST_CASE("a profile of another model is refused") {
  PoolFixture fixture;
  fixture.plan.artifact.moeLayers[1].layer = 7;
  Status status = fixture.fill().status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("another model") != std::string::npos);
}

TEST_CASE("weights that are not finite are refused with layer and expert") {
  PoolFixture fixture;
  Tensors tensors = randomTensors(fixture.plan, 5);
  tensors.at("layer1.expert2.down")[3] = std::numeric_limits<float>::infinity();
  writeCheckpoint(fixture.checkpointPath, fixture.plan, tensors);
  Status status = fixture.fill().status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("layer 1, expert 2") != std::string::npos);
}

TEST_CASE("a missing directory is refused, and named") {
  PoolFixture fixture;
  fixture.options.directory = fixture.directory.path("absent");
  Status status = fixture.fill().status();
  CHECK_FALSE(status.isOk());
  CHECK(status.message().find("absent/layer-000") != std::string::npos);
}

TEST_CASE("experts of an earlier run are reported as restored") {
  PoolFixture fixture;
  fixture.fillAndInterruptAfter(2);
  CountingProgress progress;
  fixture.options.progress = &progress;
  auto pool = fixture.filled();
  uint64_t expertBytes = 0;
  for (size_t grid = 0; grid < pool->grids().size(); ++grid)
    expertBytes += pool->recordBytesOf(0, grid);
  size_t experts = 0;
  for (size_t layer = 0; layer < pool->layers(); ++layer)
    experts += pool->expertsOf(layer);
  CHECK(progress.restoredBytes == 2 * expertBytes);
  CHECK(progress.doneBytes == (experts - 2) * expertBytes);
}
