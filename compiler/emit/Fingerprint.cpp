#include "compiler/emit/Fingerprint.h"

#include "compiler/emit/FieldChecksum.h"
#include "runtime/format/Manifest.h"

#include <set>
#include <sys/stat.h>

using namespace moert;

namespace moec {

namespace {

void feedSource(FieldChecksum &feed, const WeightSource &source) {
  feed.text(source.tensor);
  feed.number(source.rows);
  feed.number(source.cols);
  feed.number(source.index ? int64_t(*source.index) : -1);
  feed.number(source.firstRow);
  feed.number(source.rowStep);
  feed.number(source.transposed);
  feed.number(source.blocks);
  feed.number(source.blockStep);
  feed.number(source.stackedVectors);
  feed.number(source.addsOne);
  feed.number(source.integers);
  feed.number(source.shards);
}

void feedCheckpoint(FieldChecksum &feed, const Checkpoint &checkpoint) {
  feed.text(checkpoint.quantizationText());
  std::set<size_t> shards;
  for (std::string_view name : checkpoint.tensorNames()) {
    auto location = checkpoint.find(name);
    if (!location)
      continue;
    feed.text(name);
    feed.number(location->shard);
    feed.number(uint32_t(location->tensor->type));
    feed.number(location->tensor->begin);
    feed.number(location->tensor->end);
    for (uint64_t dimension : location->tensor->shape)
      feed.number(dimension);
    shards.insert(location->shard);
  }
  for (size_t shard : shards) {
    struct stat status = {};
    ::stat(checkpoint.shardPath(shard).c_str(), &status);
    feed.number(status.st_size);
    feed.number(status.st_mtim.tv_sec);
    feed.number(status.st_mtim.tv_nsec);
  }
}

} // namespace

uint64_t fingerprintOf(const EmitPlan &plan, const Checkpoint *checkpoint,
                       std::span<const std::byte> tokenizerTable) {
  FieldChecksum feed;
  feed.bytes(encodeManifest(plan.artifact));
  feed.bytes(tokenizerTable);
  feed.bytes(plan.paths);
  feed.bytes(plan.trace);
  for (const WeightSource &source : plan.residentSources)
    feedSource(feed, source);
  for (const auto &layer : plan.expertSources)
    for (const auto &expert : layer)
      for (const WeightSource &source : expert)
        feedSource(feed, source);
  if (plan.records)
    for (size_t l = 0; l < plan.artifact.moeLayers.size(); ++l)
      for (size_t e = 0; e < plan.artifact.moeLayers[l].experts.size(); ++e)
        for (size_t s = 0; s < plan.artifact.moeLayers[l].experts[e].slices.size(); ++s)
          feed.number(plan.records->sliceChecksum(l, e, s));
  if (plan.feedback)
    feed.number(plan.feedback->fingerprint());
  if (plan.records && plan.records->hasResidents())
    feed.number(plan.records->sliceChecksum(kResidentRecord, 0, 0));
  if (checkpoint)
    feedCheckpoint(feed, *checkpoint);
  return feed.digest();
}

} // namespace moec
