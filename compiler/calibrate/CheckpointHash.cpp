// Identifies checkpoints without reading all their weights, as profiles record it.
#include "compiler/calibrate/Calibrate.h"

#include "compiler/emit/FieldChecksum.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/plan/ForEach.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/format/Reader.h"

#include <algorithm>
#include <array>
#include <atomic>

using namespace moert;

namespace moec {

// docs/calibration-profile.md has the reasons for these numbers.
static constexpr uint64_t kFirstBytes = 64;
static constexpr uint64_t kBlockBytes = 4096, kLeastBlocks = 8;
static constexpr uint64_t kBytesPerBlock = uint64_t(512) << 10;

// Readers wait for the disk, which serves many such reads in the time of one.
static constexpr uint32_t kReaders = 16;

namespace {

/// The sample of one tensor.
struct TensorSample {
  std::array<std::byte, kFirstBytes> first = {};
  uint64_t checksum = 0; // Over all blocks.
  Status status;
};

Status feedFile(FieldChecksum &feed, const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(FileSource file, FileSource::open(path));
  feed.number(file.bytes());
  std::vector<std::byte> piece(std::min<uint64_t>(file.bytes(), 1 << 20));
  for (uint64_t done = 0; done < file.bytes();) {
    auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), file.bytes() - done));
    MOERT_RETURN_IF_ERROR(file.read(done, part).withContext(path));
    feed.bytes(part);
    done += part.size();
  }
  return {};
}

Status readSample(const Checkpoint &checkpoint, const TensorLocation &location,
                  TensorSample &sample) {
  const StoredTensor &tensor = *location.tensor;
  const uint64_t bytes = tensor.end - tensor.begin;
  const bool isWhole = bytes <= kLeastBlocks * kBlockBytes;
  const uint64_t blockBytes = isWhole ? bytes : kBlockBytes;
  const uint64_t blocks = isWhole ? 1 : std::max(kLeastBlocks, divideUp(bytes, kBytesPerBlock));
  const uint64_t step = isWhole ? 0 : (bytes - blockBytes) / (blocks - 1);
  std::vector<std::byte> block(blockBytes);
  ChecksumStream stream;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t place = i + 1 == blocks ? bytes - blockBytes : i * step;
    MOERT_RETURN_IF_ERROR(checkpoint.readBytes(location, place, block));
    stream.update(block);
    if (i == 0)
      std::copy_n(block.begin(), std::min(kFirstBytes, bytes), sample.first.begin());
  }
  sample.checksum = stream.digest();
  return {};
}

} // namespace

static Result<std::vector<TensorSample>> readSamples(const Checkpoint &checkpoint,
                                                     std::span<const TensorLocation> tensors,
                                                     const std::atomic<bool> *stop) {
  std::vector<TensorSample> samples(tensors.size());
  auto isStopped = [&] { return stop && stop->load(std::memory_order_relaxed); };
  forEach(tensors.size(), kReaders, [&](size_t i) {
    if (!isStopped())
      samples[i].status = readSample(checkpoint, tensors[i], samples[i]);
  });
  if (isStopped())
    return Status(StatusCode::kInterrupted, "interrupted");
  for (const TensorSample &sample : samples)
    MOERT_RETURN_IF_ERROR(sample.status);
  return samples;
}

Result<CheckpointHash> checkpointHash(const Checkpoint &checkpoint, const std::atomic<bool> *stop) {
  std::vector<std::string_view> names;
  std::vector<TensorLocation> tensors;
  for (std::string_view name : checkpoint.tensorNames())
    if (auto location = checkpoint.find(name)) {
      names.push_back(name);
      tensors.push_back(*location);
    }
  MOERT_ASSIGN_OR_RETURN(std::vector<TensorSample> samples, readSamples(checkpoint, tensors, stop));
  FieldChecksum feed, sampled;
  if (const MadeFiles *const made = checkpoint.madeFiles()) {
    feed.text(made->config);
    feed.text(made->tokenizer.value_or(""));
  } else {
    MOERT_RETURN_IF_ERROR(feedFile(feed, checkpoint.directory() + "/config.json"));
    if (checkpoint.tokenizerPath())
      MOERT_RETURN_IF_ERROR(feedFile(feed, *checkpoint.tokenizerPath()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor &tensor = *tensors[i].tensor;
    feed.text(names[i]);
    feed.text(tensorTypeName(tensor.type));
    feed.number(tensor.shape.size());
    for (uint64_t dimension : tensor.shape)
      feed.number(dimension);
    feed.bytes(std::span(samples[i].first).first(std::min(kFirstBytes, tensor.end - tensor.begin)));
    sampled.number(samples[i].checksum);
  }
  sampled.number(feed.digest());
  return CheckpointHash{feed.digest(), sampled.digest()};
}

} // namespace moec
