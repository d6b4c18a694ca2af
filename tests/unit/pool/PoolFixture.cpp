#include "tests/unit/pool/PoolFixture.h"

#include "compiler/profile/ProfileWriter.h"
#include "runtime/base/RandomStream.h"
#include "tests/unit/profile/TinyProfile.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace moec;
using namespace moert;

PoolFixture::PoolFixture() {
  options.directory = directory.path("pool");
  std::filesystem::create_directory(options.directory);
  const auto grid = [](uint32_t bits) { return Grid{bits, 32, false}; };
  options.grids = {grid(8), grid(6), {grid(4), grid(6)}, grid(4), grid(3), grid(2)};
  options.checkpointHash = {0x77, 0x79};
  writeWeights(5);
  writeProfile(1);
}

void PoolFixture::writeWeights(uint32_t seed) const {
  writeCheckpoint(checkpointPath, plan, randomTensors(plan, seed));
}

void PoolFixture::writeProfile(uint32_t seed, uint32_t topK, const ChangeLayer &change) const {
  RandomStream random(seed);
  const Artifact &artifact = plan.artifact;
  CalibrationInfo info;
  info.checkpointHash = options.checkpointHash;
  info.windowTokens = 16;
  info.hiddenSize = artifact.model.hiddenSize;
  info.vocabularySize = artifact.model.vocabularySize;
  info.texts = {{"a.txt", 1, 100, 4}};
  for (uint32_t i = 0; i < 4 * info.windowTokens; ++i)
    info.tokens.push_back(int32_t(random.nextBelow(info.vocabularySize)));
  for (const MoeLayer &layer : artifact.moeLayers)
    info.moeLayers.push_back({layer.layer, uint32_t(layer.experts.size()), topK, {}, {}});
  auto writer = ProfileWriter::create(profilePath, info);
  REQUIRE_MESSAGE(writer.isOk(), writer.status().message());
  for (size_t layer = 0; layer < info.moeLayers.size(); ++layer) {
    std::vector<float> rows(info.tokens.size() * info.hiddenSize);
    for (float &value : rows)
      value = float(random.nextUnit()) - 0.25f;
    LayerTrace trace = tinyTrace(info, layer);
    if (change)
      change(rows, trace);
    REQUIRE(writer->appendRows(rows).isOk());
    REQUIRE(writer->finishLayer(trace).isOk());
  }
  REQUIRE(writer->commit().isOk());
}

Result<std::unique_ptr<ExpertPool>> PoolFixture::fill() const {
  auto checkpoint = Checkpoint::open(checkpointPath);
  REQUIRE_MESSAGE(checkpoint.isOk(), checkpoint.status().message());
  auto profile = CalibrationProfile::open(profilePath);
  REQUIRE_MESSAGE(profile.isOk(), profile.status().message());
  return ExpertPool::fill(plan, *checkpoint, **profile, options);
}

std::unique_ptr<ExpertPool> PoolFixture::filled() const {
  auto pool = fill();
  REQUIRE_MESSAGE(pool.isOk(), pool.status().message());
  return std::move(pool).value();
}

void PoolFixture::fillAndInterruptAfter(size_t experts) {
  PoolFixture measured;
  measured.options = options;
  measured.options.directory = measured.directory.path("pool");
  auto pool = measured.filled();
  uint64_t expertBytes = 0;
  for (size_t grid = 0; grid < options.grids.size(); ++grid)
    expertBytes += pool->recordBytesOf(0, grid);
  StoppingProgress progress(experts * expertBytes);
  options.progress = &progress;
  options.stop = &progress.stop;
  Status status = fill().status();
  options.progress = nullptr;
  options.stop = nullptr;
  REQUIRE(status.code() == StatusCode::kInterrupted);
}

std::vector<std::byte> recordOf(const ExpertPool &pool, size_t layer, size_t expert, size_t grid) {
  std::vector<std::byte> record(pool.recordBytesOf(layer, grid));
  Status status = pool.read(layer, expert, grid, 0, record);
  REQUIRE_MESSAGE(status.isOk(), status.message());
  return record;
}

std::vector<std::byte> recordsOf(const ExpertPool &pool) {
  std::vector<std::byte> all;
  for (size_t layer = 0; layer < pool.layers(); ++layer)
    for (size_t expert = 0; expert < pool.expertsOf(layer); ++expert)
      for (size_t grid = 0; grid < pool.grids().size(); ++grid) {
        std::vector<std::byte> record = recordOf(pool, layer, expert, grid);
        all.insert(all.end(), record.begin(), record.end());
      }
  return all;
}
