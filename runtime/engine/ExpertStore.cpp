#include "runtime/engine/ExpertStore.h"

#include "runtime/engine/Footprint.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/format/Reader.h"
#include "runtime/io/ArtifactFile.h"

#include <new>
#include <utility>

namespace moert {

namespace {

/// Adapts the open file to the interface of the sections' reader.
class OpenedFile final : public ByteSource {
public:
  explicit OpenedFile(const ArtifactFile &openedFile) : file(openedFile) {}
  const std::string &name() const override { return file.path(); }
  uint64_t bytes() const override { return file.bytes(); }
  Status read(uint64_t offset, std::span<std::byte> into) const override {
    return file.read(offset, into);
  }

private:
  const ArtifactFile &file;
};

} // namespace

Result<std::unique_ptr<ExpertStore>> ExpertStore::create(const Model &model,
                                                         const ExpertStoreOptions &options,
                                                         ThreadPool &threads, ReservedRegion pool) {
  const Artifact &artifact = model.artifact();
  const MemoryPiece piece = {pool.data(), pool.bytes()};
  std::unique_ptr<ExpertStore> store(new ExpertStore(model, options, threads, std::move(pool)));
  const auto makeQueue = options.readQueue ? options.readQueue : createReadQueue;
  MOERT_ASSIGN_OR_RETURN(
      store->queue, makeQueue(model.file(), readQueueOptions(artifact, options.io, {&piece, 1})));
  Result<std::vector<MoeLayerTables>> tables = makeLayerTables(artifact, options.areReadInPart);
  if (!tables.isOk())
    return tables.status().withContext(model.path());
  store->layers = std::move(tables).value();
  return store;
}

CacheConfig ExpertStore::configOf(const Plan &plan, uint64_t poolPages,
                                  std::vector<CacheLayer> &made) const {
  CacheConfig config = makeCacheConfig(model, layers, plan, poolPages, made);
  config.pool = {pool.data(), poolPages * model.artifact().pageBytes};
  config.threads = &threads;
  if (isExact) { // Every expert is waited for: neither reading others gains, nor parts.
    config.rules.exchange.everyTokens = 0;
    config.rules.baseSlices = 0;
  }
  return config;
}

Status ExpertStore::start(const Plan &plan, const std::function<void(uint64_t done)> &progress) {
  std::optional<LoadedPaths> loaded;
  if (usesPaths(plan) && !paths.table) {
    MOERT_ASSIGN_OR_RETURN(loaded, loadPaths());
  }
  takePlan(plan, std::move(loaded));
  const CacheConfig config = configOf(plan, pool.bytes() / model.artifact().pageBytes, cacheLayers);
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ExpertCache> made, ExpertCache::create(config, *queue));
  expertCache.reset(); // Waits for its reads.
  expertCache = std::move(made);
  MOERT_RETURN_IF_ERROR(pinAsPlanned(
      plan, [this](uint32_t layer, uint32_t expert) { return expertCache->pin(layer, expert); }));
  return fillAsPlanned(plan, *expertCache, progress);
}

Status ExpertStore::startLayer(std::optional<uint32_t> moeLayer) {
  expertCache.reset();
  if (!moeLayer)
    return {};
  const Artifact &artifact = model.artifact();
  firstCachedLayer = *moeLayer;
  cacheLayers = {{artifact.moeLayers[*moeLayer].layer, layers[*moeLayer].records,
                  pool.bytes() / artifact.pageBytes}};
  CacheConfig config;
  config.fileName = model.path();
  config.pageBytes = artifact.pageBytes;
  config.layers = cacheLayers;
  config.pool = pool.span();
  config.threads = &threads;
  MOERT_ASSIGN_OR_RETURN(expertCache, ExpertCache::create(config, *queue));
  return {};
}

Result<CacheReconfiguration> ExpertStore::prepare(const Plan &plan, uint64_t poolPages) const {
  std::vector<CacheLayer> made;
  MOERT_ASSIGN_OR_RETURN(CacheReconfiguration prepared,
                         expertCache->prepare(configOf(plan, poolPages, made)));
  CacheMachine &machine = prepared.machine;
  MOERT_RETURN_IF_ERROR(pinAsPlanned(plan, [&machine](uint32_t layer, uint32_t expert) {
    return machine.pin(machine.state().idOf(layer, expert)) ? Status()
                                                            : Status(StatusCode::kInvalidInput, "");
  }));
  return prepared;
}

void ExpertStore::unregisterPool() {
  queue->registerRegions({});
}

void ExpertStore::registerPool(uint64_t bytes) noexcept {
  const MemoryPiece piece = {pool.data(), bytes};
  try {
    queue->registerRegions({&piece, bytes > 0 ? size_t(1) : 0});
  } catch (const std::bad_alloc &) { // There is no memory for its lists.
  }
}

Status ExpertStore::growPool(uint64_t bytes) {
  Status grown = pool.resize(bytes);
  expertCache->movePool(pool.data());
  return std::move(grown).withContext("the expert cache");
}

Result<LoadedPaths> ExpertStore::loadPaths() const {
  const ArtifactFile &file = model.file();
  LoadedPaths loaded;
  MOERT_ASSIGN_OR_RETURN(loaded.section, readPaths(OpenedFile(file), model.artifact()));
  Result<PathTable> table = PathTable::create(loaded.section, layerExpertsOf(model.artifact()));
  if (!table.isOk())
    return table.status().withContext(file.path());
  loaded.table = std::move(table).value();
  return loaded;
}

void ExpertStore::dropPaths() {
  if (paths.table)
    prefetchRules = {};
  paths = {};
}

void ExpertStore::takePlan(const Plan &plan, std::optional<LoadedPaths> loaded) noexcept {
  if (loaded)
    paths = std::move(*loaded);
  prefetchRules = plan.prefetches;
}

} // namespace moert
