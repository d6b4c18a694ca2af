// Inputs for plans of the tiny artifact (tests/unit/format/TinyArtifact.h): a device with round
// numbers and a trace of four tokens.
#pragma once

#include "compiler/emit/ArtifactFacts.h"
#include "compiler/plan/DeviceProfile.h"
#include "compiler/profile/TracedRouting.h"
#include "runtime/engine/Footprint.h"

#include <utility>

namespace moec {

/// One core: 1 ns per int8 weight, 2 per f32 weight; per byte of keys and values 1, plus 10 if it
/// comes from memory; 0.5 per checksummed byte. 32 tokens cost 4.1 times as much as one.
inline DeviceProfile plainDevice() {
  constexpr Origin kMeasured = Origin::kMeasured;
  DeviceProfile device;
  device.cores = 1;
  device.dispatchNs = {1000, kMeasured};
  device.memoryBytesPerSecond.oneThread = {2e9, kMeasured};
  device.attentionBytesPerSecond = {{1e9, kMeasured}, {1e9, kMeasured}};
  device.attentionMemoryBytesPerSecond = {{1e8, kMeasured}, {1e8, kMeasured}};
  device.fractionWhileReading = {0.8, kMeasured};
  device.fractionWhileComputing = {0.5, kMeasured};
  device.submitNsPerMiB = {1 << 20, kMeasured};
  device.wakeNs = {700, kMeasured};
  for (auto [weights, ns] : {std::pair("int8", 1.0), std::pair("f32", 2.0)}) {
    device.products.push_back({weights, 1, 1, {1e9, kMeasured}, {1e9 / ns, kMeasured}});
    device.products.push_back({weights, 32, 1, {1e9, kMeasured}, {32e9 / ns / 4.1, kMeasured}});
  }
  device.directReads = {{4096}, {1}, {{1e9, kMeasured}}};
  return device;
}

/// The facts of an artifact, without the memory of a run.
inline ModelFacts factsOf(const moert::Artifact &artifact) {
  moert::ModelFootprint footprint;
  footprint.pageBytes = artifact.pageBytes;
  footprint.cache = moert::cacheShapeOf(artifact);
  return factsOf(artifact, footprint);
}

/// Two windows of two tokens; the second token of each is decoded.
inline PlanTrace smallTrace() {
  TracedPredictions ahead{2, {3, 1, 0, 2, 1, 0, 2, 3}, {255, 0, 102, 51, 9, 8, 7, 6}};
  return {2, 2, {{4, 2, {0, 1, 2, 3, 0, 2, 1, 3}, {ahead}}, {4, 2, {3, 2, 1, 0, 3, 1, 2, 0}, {}}}};
}

} // namespace moec
