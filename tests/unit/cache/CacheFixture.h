// A small model's worth of records in memory, and a cache over them.
#pragma once

#include "runtime/base/Checksum.h"
#include "runtime/base/HostMemory.h"
#include "runtime/experts/ExpertCache.h"
#include "runtime/memory/MemoryBudget.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace moert {

constexpr uint64_t kBlock = 4096;

/// Slices of a record of so many blocks of 4 KiB, as the blocks where they end, and how many of
/// them are a low copy.
struct RecordCut {
  std::vector<uint64_t> ends;
  uint16_t lowCopySlices = 0;
};

/// Two slices where there are two blocks or more, the second of one block.
inline RecordCut nestedCut(uint32_t, uint64_t blocks) {
  return blocks > 1 ? RecordCut{{blocks - 1, blocks}} : RecordCut{{blocks}};
}

/// By the expert's number: nested; a low copy of one slice and a high one of one or two; a low copy
/// of two slices and a high one of one. A third of the blocks are the low copy's.
inline RecordCut copiesCut(uint32_t expert, uint64_t blocks) {
  if (expert % 4 == 0 || blocks < 2)
    return nestedCut(expert, blocks);
  const uint64_t low = std::max<uint64_t>(1, blocks / 3);
  if (expert % 4 == 1 || blocks < 3)
    return {{low, blocks}, 1};
  if (expert % 4 == 2)
    return {{low, low + (blocks - low) / 2, blocks}, 1};
  return {{(low + 1) / 2, (low + 1) / 2 + low, blocks}, 2};
}

/// Records of the given sizes, one after the other; payloads end 100 bytes before their slices.
struct FakeModel {
  /// recordBlocks[layer][expert]: sizes in blocks of 4 KiB.
  explicit FakeModel(const std::vector<std::vector<uint64_t>> &recordBlocks,
                     RecordCut (*cutOf)(uint32_t expert, uint64_t blocks) = nestedCut) {
    uint64_t blocks = 1; // The file's head.
    for (const std::vector<uint64_t> &layer : recordBlocks)
      for (uint64_t size : layer)
        blocks += size;
    file.resize(blocks * kBlock);
    for (size_t i = 0; i < file.size(); ++i)
      file[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
    uint64_t offset = kBlock;
    slices.resize(recordBlocks.size());
    records.resize(recordBlocks.size());
    for (size_t l = 0; l < recordBlocks.size(); ++l) {
      slices[l].resize(recordBlocks[l].size());
      for (size_t e = 0; e < recordBlocks[l].size(); ++e) {
        const RecordCut cut = cutOf(static_cast<uint32_t>(e), recordBlocks[l][e]);
        for (uint64_t begin = 0; uint64_t end : cut.ends) {
          addSlice(slices[l][e], offset, begin * kBlock, (end - begin) * kBlock);
          begin = end;
        }
        const uint64_t bytes = recordBlocks[l][e] * kBlock;
        records[l].push_back({offset, bytes, slices[l][e], cut.lowCopySlices});
        offset += bytes;
      }
    }
  }

  void addSlice(std::vector<RecordSlice> &list, uint64_t record, uint64_t offset, uint64_t bytes) {
    std::span<const std::byte> payload(&file[record + offset], bytes - 100);
    list.push_back({offset, bytes, payload.size(), checksum64(payload)});
  }

  uint16_t slicesOf(uint32_t layer, uint32_t expert) const {
    return static_cast<uint16_t>(records[layer][expert].slices.size());
  }

  /// Whether the view shows exactly this expert.
  bool shows(const PagedBytes &view, uint32_t layer, uint32_t expert) const {
    return shows(view, layer, expert, slicesOf(layer, expert));
  }
  /// With so many slices; those of the low copy are not there with more.
  bool shows(const PagedBytes &view, uint32_t layer, uint32_t expert, uint16_t count) const {
    const ExpertRecord &record = records[layer][expert];
    const uint16_t first = count > record.lowCopySlices ? record.lowCopySlices : uint16_t(0);
    const RecordSlice &last = record.slices[count - 1u];
    for (uint64_t at = record.slices[first].offset; at < last.offset + last.bytes; at += kBlock)
      if (std::memcmp(view.at(at), &file[record.fileOffset + at], kBlock) != 0)
        return false;
    return true;
  }

  std::vector<std::byte> file;
  std::vector<std::vector<std::vector<RecordSlice>>> slices;
  std::vector<std::vector<ExpertRecord>> records;
};

/// A random subset of the experts, in random order.
inline std::vector<uint32_t> someExperts(std::mt19937 &random, uint32_t count, size_t most) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(1 + random() % most);
  return all;
}

/// What a budget's account has for the tables of such a cache, of its artifact and of its engine.
inline uint64_t accountedTableBytes(const CacheConfig &config) {
  TableEntries entries;
  entries.moeLayers = config.layers.size();
  entries.poolPages = config.pool.size() / config.pageBytes;
  for (const CacheLayer &layer : config.layers) {
    entries.experts += layer.records.size();
    entries.widestLayer = std::max<uint64_t>(entries.widestLayer, layer.records.size());
    for (const ExpertRecord &record : layer.records)
      entries.furtherSlices += record.slices.size() - 1;
  }
  return tableBytes(entries);
}

/// Owns the pool and the cache over a model.
struct CacheUnderTest {
  CacheUnderTest(const FakeModel &fakeModel, ReadQueue &queue, std::vector<uint64_t> quotas,
                 uint64_t staging, uint64_t pageBytes = kBlock, Clock clock = monotonicNs,
                 const CacheRules &rules = {}, uint32_t prefetchesUnderWay = kMostPrefetchReads,
                 ThreadPool *threads = nullptr)
      : model(fakeModel) {
    uint64_t pages = staging;
    for (size_t l = 0; l < quotas.size(); ++l) {
      layers.push_back({static_cast<uint32_t>(l + 3), model.records[l], quotas[l]});
      pages += quotas[l];
    }
    pool = HostRegion::create(pages * pageBytes).value();
    config.fileName = "m.moe";
    config.pageBytes = pageBytes;
    config.layers = layers;
    config.stagingPages = staging;
    config.pool = pool.span().first(pages * pageBytes);
    config.clock = clock;
    config.rules = rules;
    config.prefetchesUnderWay = prefetchesUnderWay;
    config.threads = threads;
    Result<std::unique_ptr<ExpertCache>> made = ExpertCache::create(config, queue);
    REQUIRE(made.status().message() == "");
    cache = std::move(made).value();
  }

  struct HandOut {
    size_t place = 0; // In the demand.
    uint16_t slices = 0;
  };

  /// Layer passes a layer to its end and holds every expert, with the slices that it was handed out
  /// with, against the model; the hand-outs in their order.
  std::vector<HandOut> handOuts(uint32_t layer, const PassDemand &demand) {
    std::vector<HandOut> made;
    REQUIRE(cache->beginLayer(layer, demand).message() == "");
    for (;;) {
      Result<int> index = cache->nextReady();
      REQUIRE(index.status().message() == "");
      if (*index < 0)
        break;
      const HandOut one = {static_cast<size_t>(*index), cache->slicesOf(*index)};
      made.push_back(one);
      CHECK(model.shows(cache->bytes(*index), layer, demand.wanted[one.place], one.slices));
      REQUIRE(cache->release(*index).message() == "");
    }
    REQUIRE(cache->endLayer().message() == "");
    return made;
  }

  /// The same with whole records; the experts in the order of their hand-outs.
  std::vector<uint32_t> runPass(uint32_t layer, const std::vector<uint32_t> &wanted) {
    std::vector<uint32_t> order;
    for (const HandOut &one : handOuts(layer, {wanted})) {
      order.push_back(wanted[one.place]);
      CHECK(one.slices == model.slicesOf(layer, order.back()));
    }
    return order;
  }

  /// The same with so many slices of each; those that each was handed out with, in the order of the
  /// demand.
  std::vector<uint16_t> runPass(uint32_t layer, const std::vector<uint32_t> &wanted,
                                const std::vector<uint16_t> &slices) {
    std::vector<uint16_t> computed(wanted.size());
    for (const HandOut &one : handOuts(layer, {.wanted = wanted, .slices = slices}))
      computed[one.place] = one.slices;
    return computed;
  }

  std::vector<uint32_t> readyIn(uint32_t layer) const {
    std::vector<uint32_t> ready;
    for (uint32_t expert = 0; expert < model.records[layer].size(); ++expert)
      if (cache->isReady(layer, expert))
        ready.push_back(expert);
    return ready;
  }

  /// All of the experts are read, if they are absent.
  void prefetch(uint32_t layer, const std::vector<uint32_t> &experts) {
    std::array<PrefetchCandidate, 16> candidates;
    size_t count = 0;
    for (uint32_t expert : experts)
      candidates[count++] = {expert, kFixedPointOne / 16};
    cache->prefetch({layer, {Predictor::kGate, 1, 16, 16, 0}, std::span(candidates).first(count)});
  }

  const FakeModel &model;
  std::vector<CacheLayer> layers;
  HostRegion pool;
  CacheConfig config;
  std::unique_ptr<ExpertCache> cache;
};

} // namespace moert
