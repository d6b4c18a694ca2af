// The timed replay and the runtime's cache on the same disk and with the same clock, neither of
// which is real: what is read, useful and cancelled has to be the same, layer pass by layer pass,
// and so has the time. The replay without time hits, misses and evicts the same.
#include "compiler/plan/DiskTimeline.h"
#include "compiler/plan/TimedReplay.h"
#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/plan/PlanFixture.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <doctest/doctest.h>
#include <map>
#include <set>

using namespace moec;
using namespace moert;

namespace {

/// Reads take as long as a disk's timeline says; waiting moves the clock.
class TimelineQueue final : public ReadQueue {
public:
  TimelineQueue(std::span<const std::byte> fileBytes, const ReadTable &reads, ReadPaces &readPaces)
      : ReadQueue(limits()), file(fileBytes), reusedFactors(reads), paces(readPaces),
        disk(readPaces) {}

  double now = 0;
  std::set<uint64_t> unchecked;  // Tags of reads whose bytes were not looked at yet.
  std::vector<uint64_t> arrived; // Tags, in the order in which the cache heard of them.

  Status submit(uint64_t tag, uint64_t offset, std::span<const MemoryPiece> pieces) override {
    uint64_t bytes = 0;
    for (const MemoryPiece &piece : pieces) {
      std::memcpy(piece.data, &file[offset + bytes], piece.bytes);
      bytes += piece.bytes;
    }
    disk.advanceTo(now, ended);
    disk.begin(static_cast<uint32_t>(tag), paces.sizeOf(bytes), speedInto(pieces));
    bytesRead += bytes;
    unchecked.insert(tag);
    return {};
  }

  Result<size_t> poll(std::span<ReadCompletion> out, bool wait) override {
    disk.advanceTo(now, ended);
    if (wait && ended.empty()) {
      now = disk.nextEndNs();
      disk.advanceTo(now, ended);
    }
    const size_t count = std::min(out.size(), ended.size());
    for (size_t i = 0; i < count; ++i) {
      out[i] = {ended[i], Status()};
      arrived.push_back(ended[i]);
    }
    ended.erase(ended.begin(), ended.begin() + ptrdiff_t(count));
    return count;
  }

  size_t readsUnderWay() const override { return disk.underWay() + ended.size(); }

  void registerRegions(std::span<const MemoryPiece>) override {}
  bool endsBefore(double ns) {
    disk.advanceTo(now, ended);
    return disk.underWay() > 0 && disk.nextEndNs() < ns;
  }
  double nextEndNs() { return disk.nextEndNs(); }

private:
  static ReadQueueOptions limits() {
    ReadQueueOptions options;
    options.maxReads = kMostReads;
    return options;
  }

  /// By how long ago each page was read into, wherever it lies.
  double speedInto(std::span<const MemoryPiece> pieces) {
    double time = 0;
    for (const MemoryPiece &piece : pieces) {
      auto [last, isFirst] = readAt.try_emplace(piece.data, bytesRead);
      time += isFirst ? 1 : 1 / reusedFactors.of(bytesRead - last->second);
      last->second = bytesRead;
    }
    return static_cast<double>(pieces.size()) / time;
  }

  std::span<const std::byte> file;
  ReusedFactors reusedFactors;
  ReadPaces &paces;
  DiskTimeline disk;
  std::vector<uint32_t> ended;
  std::map<const std::byte *, uint64_t> readAt; // By page: `bytesRead` before its last read.
  uint64_t bytesRead = 0;
};

/// Layer passes a trace in the runtime's cache, computing nothing but time.
struct CacheDriver {
  const PlanFixture &fixture;
  const PlanSettings &settings;
  ExpertCache &cache;
  TimelineQueue &queue;
  uint64_t token = 0;

  void approach(double ns) {
    const double end = queue.now + ns;
    REQUIRE(cache.advance().isOk());
    while (queue.endsBefore(end)) {
      queue.now = queue.nextEndNs();
      REQUIRE(cache.advance().isOk());
    }
    queue.now = end;
  }

  void prefetch(uint32_t layer) {
    std::vector<uint32_t> targets;
    for (uint32_t target = layer + 1; target < settings.prefetches.size(); ++target)
      if (settings.prefetches[target].predictsFrom(target - layer))
        targets.push_back(target);
    for (uint32_t target : targets)
      queue.now += fixture.costs.layers[target].predictNs[targets.size() - 1];
    for (uint32_t target : targets) {
      const PrefetchRule &rule = settings.prefetches[target];
      const LayerPredictions *made =
          findPredictions(fixture.problem(), rule, target, target - layer);
      cache.prefetch({target, rule,
                      std::span(made->candidates).subspan(token * made->perToken, made->perToken)});
    }
  }

  /// Time to check an expert that is handed out, and those that are checked with it: wanted ones
  /// that are there, `ids` since the layer pass began and then those that have arrived since.
  double checkNs(uint64_t id, std::span<const uint64_t> wanted, std::vector<uint64_t> &ids,
                 const CheckCost &checks) {
    for (uint64_t arrived : queue.arrived)
      if (std::ranges::find(wanted, arrived) != wanted.end())
        ids.push_back(arrived);
    queue.arrived.clear();
    if (!queue.unchecked.erase(id))
      return 0;
    uint32_t checked = 1;
    for (uint64_t other : ids)
      if (checked < checks.together())
        checked += static_cast<uint32_t>(queue.unchecked.erase(other));
    return checks.of(checked);
  }

  void runPass(const RoutingPass &pass) {
    const StepCosts::Layer &costs = fixture.costs.layers[pass.layer];
    const PassDemand demand = fixture.trace.demandOf(pass);
    if (pass.beginsPrompt)
      REQUIRE(cache.beginPrompt().isOk());
    approach(costs.before.of(pass.tokens));
    if (pass.tokens == 1)
      prefetch(pass.layer);
    REQUIRE(cache.beginLayer(pass.layer, demand).message() == "");
    uint64_t firstId = 0;
    for (uint32_t layer = 0; layer < pass.layer; ++layer)
      firstId += fixture.trace.layerExperts[layer];
    std::vector<uint64_t> wanted, ids;
    for (uint32_t expert : demand.wanted) {
      wanted.push_back(firstId + expert);
      if (cache.isReady(pass.layer, expert))
        ids.push_back(firstId + expert);
    }
    queue.arrived.clear();
    for (;;) {
      Result<int> index = cache.nextReady();
      REQUIRE(index.status().message() == "");
      if (*index < 0)
        break;
      const size_t place = static_cast<size_t>(*index);
      queue.now += checkNs(wanted[place], wanted, ids, costs.checks);
      queue.now += costs.expert.of(demand.uses[place]);
      REQUIRE(cache.release(*index).isOk());
    }
    REQUIRE(cache.endLayer().isOk());
    if (pass.layer + 1 < fixture.costs.layers.size())
      return;
    queue.now += fixture.costs.after.of(pass.tokens);
    token += pass.tokens;
  }
};

} // namespace

/// Layers of experts of up to three pages, of one where several threads check them; reads of a page
/// take as long as an expert or two.
static PlanFixture fixtureOf(std::mt19937 &random, uint32_t threads) {
  const uint32_t experts = 5 + random() % 8, topK = 1 + random() % 4;
  PlanFixture fixture(
      randomTrace(random, 4, experts, topK, stepsOfWindows(2, 40, random() % 2 * 8, 4)), topK,
      UINT32_MAX);
  for (auto &layer : fixture.recordBytes)
    for (uint64_t &bytes : layer)
      bytes = 4096 * (threads > 1 ? 1 : 1 + random() % 3); // A slice for each thread.
  fixture.predictions = goodPrefetches(random, fixture.trace, std::min(experts, topK + 2));
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer = {{double(1000 + random() % 9000), 100},
             {},
             {2500.37, 300.11},
             {std::vector<double>(threads, 130.71)},
             {70.53, 60.11, 50.29}};
  // Odd numbers, so that nothing ends at the very time at which something else begins.
  fixture.reads = {{4096}, {1, 4}, {{0.9871e9, Origin::kMeasured}, {2.0513e9, Origin::kMeasured}}};
  fixture.reads.reused = {{2 * 4096, {2.171, Origin::kMeasured}},
                          {64 * 4096, {1.393, Origin::kMeasured}}};
  return fixture;
}

static PlanSettings settingsOf(std::mt19937 &random, const PlanFixture &fixture) {
  std::vector<uint32_t> quotas;
  for (const auto &layer : fixture.recordBytes)
    quotas.push_back(static_cast<uint32_t>(random() % (2 * layer.size())));
  PlanSettings settings = quotasOf(quotas, static_cast<uint32_t>(3 + random() % 12));
  settings.prefetches.resize(quotas.size());
  for (uint32_t layer = 1; layer < quotas.size(); ++layer)
    settings.prefetches[layer] = {random() % 2 ? Predictor::kGate : Predictor::kAdaptiveGate,
                                  static_cast<uint8_t>(1 + random() % std::min(layer, kMostAhead)),
                                  static_cast<uint16_t>(1 + random() % 3),
                                  static_cast<uint16_t>(1 + random() % 3), 0};
  return settings;
}

TEST_CASE("in made-up time the replay reads and waits as the runtime's cache does") {
  const std::unique_ptr<ThreadPool> pool = ThreadPool::create(2).value();
  uint64_t useful = 0, cancelled = 0, retained = 0;
  for (uint32_t seed = 0; seed < 35; ++seed) {
    std::mt19937 random(seed);
    const uint32_t threads = 1 + seed % 2;
    PlanFixture fixture = fixtureOf(random, threads);
    PlanSettings settings = settingsOf(random, fixture);
    if (seed % 5 == 4)
      settings.prefetches.clear();
    std::vector<std::vector<uint64_t>> blocks;
    for (const auto &layer : fixture.recordBytes)
      for (blocks.emplace_back(); uint64_t bytes : layer)
        blocks.back().push_back(bytes / kBlock);
    FakeModel model(blocks);
    for (CacheRules rules : allRules()) {
      rules.survival = static_cast<PromptSurvival>(seed % 3);
      settings.rules = rules;
      CAPTURE(seed);
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      const TimedResult expected =
          replayInTime(fixture.problem(), settings, {.keepsPasses = true}).value();
      const ReplayResult timeless =
          replayTrace(fixture.trace, replayCacheOf(fixture.problem(), settings)).value();
      ReadPaces paces(fixture.reads);
      TimelineQueue queue(model.file, fixture.reads, paces);
      const CacheAllotment &allotment = settings.allotment;
      CacheUnderTest test(model, queue, {allotment.quotaPages.begin(), allotment.quotaPages.end()},
                          allotment.stagingPages, kBlock, monotonicNs, rules, kMostPrefetchReads,
                          threads > 1 ? pool.get() : nullptr);
      CacheDriver executor{fixture, settings, *test.cache, queue};
      uint64_t bytes = 0, expectedBytes = 0;
      for (size_t p = 0; p < fixture.trace.passes.size(); ++p) {
        CAPTURE(p);
        executor.runPass(fixture.trace.passes[p]);
        CacheCounts found = test.cache->passCounts();
        CacheCounts counts = expected.passes[p].counts.cache;
        bytes += found.bytesRead;
        expectedBytes += counts.bytesRead;
        REQUIRE(bytes == expectedBytes);
        // What happens between two layer passes counts with one or the other.
        for (CacheCounts *each : {&found, &counts})
          each->bytesRead = each->prefetchesRead = each->prefetchBytes = each->cancelled = 0;
        REQUIRE(found == counts);
        REQUIRE(found.hits == timeless.passes[p].hits);
        REQUIRE(found.misses == timeless.passes[p].misses);
        REQUIRE(found.evictions == timeless.passes[p].evictions);
        if (settings.prefetches.empty()) // The replay without time has none here.
          REQUIRE(test.cache->passCounts().bytesRead == timeless.passes[p].bytesRead);
        if (p + 1 < fixture.trace.passes.size() && fixture.trace.passes[p + 1].layer > 0)
          REQUIRE(queue.now == doctest::Approx(expected.passes[p].endNs));
      }
      REQUIRE(test.cache->state().forbiddenEvents() == 0);
      REQUIRE(expected.forbiddenEvents == 0);
      useful += test.cache->totalCounts().useful;
      cancelled += test.cache->totalCounts().cancelled;
      retained += test.cache->totalCounts().prefetchesRetained;
    }
  }
  CHECK(useful > 1000);
  CHECK(cancelled > 1000);
  CHECK(retained > 100);
}
