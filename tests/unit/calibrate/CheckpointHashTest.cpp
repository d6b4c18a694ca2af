// The numbers that identify checkpoints, as docs/calibration-profile.md defines them.
#include "compiler/calibrate/Calibrate.h"
#include "compiler/emit/FieldChecksum.h"
#include "compiler/import/Checkpoint.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace moec;
using namespace moert;

namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

/// A configuration and two tensors: one that is sampled whole, one that is not.
TestCheckpoint twoTensors() {
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.shards["model.safetensors"] = {testTensor("large", "BF16", {5, kMiB / 2}),
                                            testTensor("small", "F16", {16 * kKiB})};
  return checkpoint;
}

Result<CheckpointHash> hashIn(const TemporaryDirectory &directory,
                              const std::atomic<bool> *stop = nullptr) {
  auto opened = Checkpoint::open(directory.path());
  REQUIRE_MESSAGE(opened.isOk(), opened.status().message());
  return checkpointHash(*opened, stop);
}

CheckpointHash hashOf(const TestCheckpoint &checkpoint) {
  TemporaryDirectory directory;
  checkpoint.write(directory);
  auto hash = hashIn(directory);
  REQUIRE_MESSAGE(hash.isOk(), hash.status().message());
  return *hash;
}

/// The hash of twoTensors() with `count` other bytes in one of them.
CheckpointHash hashWith(const char *name, size_t at, size_t count = 1) {
  TestCheckpoint checkpoint = twoTensors();
  std::string &bytes = checkpoint.tensor(name).bytes;
  REQUIRE(at + count <= bytes.size());
  for (size_t i = at; i < at + count; ++i)
    bytes[i] ^= 1;
  return hashOf(checkpoint);
}

} // namespace

TEST_CASE("the hash is that of version 1.0, and the sample a separate number") {
  const TestCheckpoint checkpoint = twoTensors();
  const std::string config = checkpoint.config.dump();
  FieldChecksum feed;
  feed.number(config.size());
  feed.text(config);
  for (const TestTensor &tensor : checkpoint.shards.at("model.safetensors")) {
    feed.text(tensor.name);
    feed.text(tensor.type);
    feed.number(tensor.shape.size());
    for (uint64_t dimension : tensor.shape)
      feed.number(dimension);
    feed.text(std::string_view(tensor.bytes).substr(0, 64));
  }
  const CheckpointHash hash = hashOf(checkpoint);
  CHECK(hash.first == feed.digest());
  CHECK(hash.sample != 0);
  CHECK(hash.sample != hash.first);
}

TEST_CASE("another configuration changes both numbers") {
  const CheckpointHash hash = hashOf(twoTensors());
  TestCheckpoint other = twoTensors();
  other.config["rope_theta"] = 20000.0;
  CHECK(hashOf(other).first != hash.first);
  CHECK(hashOf(other).sample != hash.sample);
}

TEST_CASE("every byte of a tensor of 32 KiB is sampled, and the first 64 are hashed") {
  const CheckpointHash hash = hashOf(twoTensors());
  CHECK(hashWith("small", 63).first != hash.first);
  for (size_t at : {size_t(64), 13 * kKiB + 5, 32 * kKiB - 1}) {
    CHECK(hashWith("small", at).first == hash.first);
    CHECK(hashWith("small", at).sample != hash.sample);
  }
}

TEST_CASE("the ends of a larger tensor are sampled, and a block in every 570 KiB") {
  const CheckpointHash hash = hashOf(twoTensors());
  const size_t bytes = 5 * kMiB;
  for (size_t at : {size_t(64), 4 * kKiB - 1, bytes - 4 * kKiB, bytes - 1})
    CHECK(hashWith("large", at).sample != hash.sample);
  // Ten blocks, the last of which begins 4 KiB before the end: one begins every 582087 bytes.
  constexpr size_t kStep = 582087;
  CHECK(hashWith("large", kStep).sample != hash.sample);
  CHECK(hashWith("large", kStep - 1).sample == hash.sample);
  CHECK(hashWith("large", 4 * kStep + 4 * kKiB - 1).sample != hash.sample);
  CHECK(hashWith("large", 4 * kStep + 4 * kKiB).sample == hash.sample);
}

TEST_CASE("reading a checkpoint ends when it is stopped") {
  TemporaryDirectory directory;
  twoTensors().write(directory);
  const std::atomic<bool> stop = true;
  CHECK(hashIn(directory, &stop).status().code() == StatusCode::kInterrupted);
}

TEST_CASE("weights that end early are refused, and the message names their file once") {
  TemporaryDirectory directory;
  twoTensors().write(directory);
  auto checkpoint = Checkpoint::open(directory.path());
  REQUIRE(checkpoint.isOk());
  const std::string path = directory.path("model.safetensors");
  std::filesystem::resize_file(path, 3 * kMiB);
  const Status refused = checkpointHash(*checkpoint).status();
  CHECK(refused.code() == StatusCode::kFailed);
  CHECK(refused.message().starts_with(path + ": "));
  CHECK(refused.message().find(path, 1) == std::string::npos);
}
