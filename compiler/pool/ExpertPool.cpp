#include "compiler/pool/ExpertPool.h"

#include "compiler/emit/OrderedPipeline.h"
#include "compiler/pool/ExpertRecord.h"
#include "compiler/quantize/PackGrid.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/RandomFile.h"
#include "runtime/base/SystemLimits.h"

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

namespace {

/// The records of one layer: expert by expert, and for each expert one record per grid.
struct LayerFile {
  MoeLayer shape; // Without experts.
  size_t experts = 0;
  std::vector<std::vector<Slice>> slices; // Per grid, without checksums.
  std::vector<uint64_t> gridOffsets;      // Within an expert's block.
  uint64_t blockBytes = 0;
  std::vector<PooledExpert> pooled;
  std::optional<AppendLog> index;
  std::optional<RandomFile> records;

  uint64_t offsetOf(size_t expert, size_t grid) const {
    return expert * blockBytes + gridOffsets[grid];
  }
};

/// A quantized expert: its block and its index entry.
struct FinishedExpert {
  std::vector<std::byte> block;
  PooledExpert pooled;
};

/// What a layer's experts compute besides their products; biases of all experts, or none.
struct LayerForm {
  GluActivation activation;
  std::vector<float> gateBias, upBias, downBias;

  ExpertForm of(size_t expert, const MatrixShape &gate) const {
    const auto part = [&](const std::vector<float> &all, uint32_t size) {
      return all.empty() ? std::span<const float>() : std::span(all).subspan(expert * size, size);
    };
    return {activation, part(gateBias, gate.rows), part(upBias, gate.rows),
            part(downBias, gate.cols)};
  }
};

} // namespace

struct ExpertPool::Impl {
  PoolOptions options;
  std::vector<std::vector<ExpertFormat>> formats; // Per grid.
  std::vector<LayerFile> layers;
  uint64_t fingerprint = 0;

  Status layOut(const EmitPlan &plan);
  std::string pathOf(size_t layer, const char *ending) const {
    std::string number = std::to_string(layer);
    return strCat(options.directory, "/layer-",
                  std::string(number.size() < 3 ? 3 - number.size() : 0, '0'), number, ending);
  }
  bool isStopped() const { return options.stop && options.stop->load(std::memory_order_relaxed); }
  static Status interrupted() { return Status(StatusCode::kInterrupted, "interrupted"); }
  Status openLayer(size_t layer, const OnExpert &onExpert);
  bool isWhole(const LayerFile &file, size_t expert) const;
  Status fillLayer(const EmitPlan &plan, const Checkpoint &checkpoint,
                   const CalibrationProfile &profile, size_t layer, const OnExpert &onExpert);
  Result<FinishedExpert> finish(const LayerFile &file, const std::vector<WeightSource> &sources,
                                const Checkpoint &checkpoint, const LayerInputs &inputs,
                                const LayerMoments &moments, const LayerForm &form,
                                size_t expert) const;
  unsigned threadsFor(const LayerFile &file) const;
};

Status ExpertPool::Impl::layOut(const EmitPlan &plan) {
  for (const ExpertGrid &grid : options.grids) {
    MOERT_ASSIGN_OR_RETURN(std::vector<ExpertFormat> slices,
                           slicesOf(grid, options.activationGroup, options.nested));
    formats.push_back(std::move(slices));
  }
  for (const MoeLayer &layer : plan.artifact.moeLayers) {
    LayerFile &file = layers.emplace_back();
    file.shape = layer;
    file.shape.experts.clear();
    file.experts = layer.experts.size();
    for (const std::vector<ExpertFormat> &gridFormats : formats) {
      MOERT_ASSIGN_OR_RETURN(std::vector<Slice> slices, recordSlices(file.shape, gridFormats));
      file.gridOffsets.push_back(file.blockBytes);
      file.blockBytes += slices.back().offset + slices.back().bytes;
      file.slices.push_back(std::move(slices));
    }
  }
  return {};
}

// Changes with what the quantizers make of the same inputs within a version.
static constexpr int kQuantizers = 2;

// Hash of everything that determines the bytes.
static uint64_t fingerprintOf(const PoolOptions &options, const CalibrationInfo &info) {
  std::string text =
      strCat("pool ", MOE_VERSION, " ", kQuantizers, " ", nameOf(options.method), " ",
             options.activationGroup, " ", options.nested, " ", options.checkpointHash.first, " ",
             options.checkpointHash.sample, " ", info.checkpointHash.first, " ",
             info.checkpointHash.sample, " ", info.seed);
  for (const ExpertGrid &expert : options.grids)
    for (const Grid &grid : {expert.gateUp, expert.down})
      text += strCat(" ", grid.bits, "/", grid.group, "/", grid.hasOffsets, "/", grid.hasLevels,
                     "/", grid.hasByteScales, "/", grid.hasHadamard);
  ChecksumStream stream;
  stream.update(std::as_bytes(std::span(text)));
  stream.update(std::as_bytes(std::span(info.tokens)));
  return stream.digest();
}

// Checks the padding too: it is copied into artifacts, where no checksum covers it.
bool ExpertPool::Impl::isWhole(const LayerFile &file, size_t expert) const {
  std::vector<std::byte> bytes;
  for (size_t g = 0; g < file.slices.size(); ++g)
    for (size_t s = 0; s < file.slices[g].size(); ++s) {
      const Slice &slice = file.slices[g][s];
      bytes.resize(slice.bytes);
      if (!file.records->readAt(file.offsetOf(expert, g) + slice.offset, bytes).isOk())
        return false;
      auto payload = std::span<const std::byte>(bytes).first(slice.payloadBytes);
      if (checksum64(payload) != file.pooled[expert].grids[g].sliceChecksums[s] ||
          std::any_of(bytes.begin() + ptrdiff_t(slice.payloadBytes), bytes.end(),
                      [](std::byte byte) { return byte != std::byte(0); }))
        return false;
    }
  return true;
}

// Loads the intact experts of an earlier run.
Status ExpertPool::Impl::openLayer(size_t layer, const OnExpert &onExpert) {
  LayerFile &file = layers[layer];
  std::vector<size_t> slices;
  for (const std::vector<Slice> &ofGrid : file.slices)
    slices.push_back(ofGrid.size());
  file.index.emplace(pathOf(layer, ".index"), kPoolIndex, fingerprint);
  file.pooled = readPoolIndex(*file.index, slices);
  file.pooled.resize(std::min(file.pooled.size(), file.experts));
  MOERT_ASSIGN_OR_RETURN(RandomFile records,
                         RandomFile::open(pathOf(layer, ".records"), O_RDWR | O_CREAT));
  file.records.emplace(std::move(records));
  for (size_t e = 0; e < file.pooled.size(); ++e) {
    if (isStopped())
      return interrupted();
    if (!isWhole(file, e)) {
      file.pooled.resize(e);
      break;
    }
    onExpert(/*isRestored=*/true);
  }
  file.index->keep(file.pooled.size());
  return {};
}

// Approximate memory for reading, quantizing and packing, per weight of an expert: 4 times the
// expert as f32, 16 for moments, and 9 grids with a byte for a code and half of one in the record.
constexpr uint64_t kWorkingBytesPerWeight = 46;

static uint64_t workingBytes(const MoeLayer &layer) {
  uint64_t weights = 0;
  for (const ExpertMatrix &matrix : layer.matrices)
    weights += uint64_t(matrix.shape.rows) * matrix.shape.cols;
  return weights * kWorkingBytesPerWeight + (96u << 20);
}

unsigned ExpertPool::Impl::threadsFor(const LayerFile &file) const {
  uint64_t fitting = availableMemoryBytes() / 2 / workingBytes(file.shape);
  return unsigned(std::clamp<uint64_t>(fitting, 1, std::max(options.threads, 1u)));
}

// The rows of all tokens, those of one expert, and its work.
uint64_t ExpertPool::layerBytes(const MoeLayer &layer, uint64_t tokens) {
  return 2 * tokens * layer.matrices[0].shape.cols * sizeof(float) + workingBytes(layer);
}

// Gathers the tokens that were routed to an expert.
static ExpertTokens gatherTokens(const LayerInputs &inputs, int32_t expert,
                                 std::vector<float> &rows, std::vector<float> &weights) {
  if (inputs.tokens == 0)
    return {};
  const size_t topK = inputs.experts.size() / inputs.tokens;
  const size_t hidden = inputs.rows.size() / inputs.tokens;
  for (size_t t = 0; t < inputs.tokens; ++t)
    for (size_t k = 0; k < topK; ++k)
      if (inputs.experts[t * topK + k] == expert) {
        auto row = inputs.rows.begin() + ptrdiff_t(t * hidden);
        rows.insert(rows.end(), row, row + ptrdiff_t(hidden));
        weights.push_back(inputs.weights[t * topK + k]);
      }
  return {rows, weights};
}

/// The experts' inputs where the router's weights multiply those; the outputs' weights are then 1.
static void scaleInputs(LayerInputs &inputs) {
  const size_t hidden = inputs.rows.size() / std::max(inputs.tokens, 1u);
  for (size_t t = 0; t < inputs.tokens; ++t) {
    const float weight = std::exchange(inputs.weights[t], 1.0f); // A token has one expert.
    for (float &value : std::span(inputs.rows).subspan(t * hidden, hidden))
      value *= weight;
  }
}

static Result<std::vector<float>> readMatrix(const Checkpoint &checkpoint,
                                             const WeightSource &source) {
  std::vector<float> values(size_t(source.rows) * source.cols);
  MOERT_RETURN_IF_ERROR(checkpoint.readRows(source, 0, source.rows, values));
  return values;
}

static Result<LayerForm> readForm(const EmitPlan &plan, const Checkpoint &checkpoint,
                                  size_t layer) {
  LayerForm form;
  form.activation = plan.artifact.moeLayers[layer].activation;
  const auto read = [&](int32_t resident, std::vector<float> &values) -> Status {
    if (resident == kNone)
      return {};
    MOERT_ASSIGN_OR_RETURN(values, readMatrix(checkpoint, plan.residentSources[size_t(resident)]));
    return {};
  };
  for (const Instruction &instruction : plan.artifact.programs.front().instructions) {
    const auto *experts = std::get_if<ExpertsInstruction>(&instruction);
    if (!experts || experts->moeLayer != layer)
      continue;
    MOERT_RETURN_IF_ERROR(read(experts->gateBias, form.gateBias));
    MOERT_RETURN_IF_ERROR(read(experts->upBias, form.upBias));
    MOERT_RETURN_IF_ERROR(read(experts->downBias, form.downBias));
  }
  return form;
}

Result<FinishedExpert>
ExpertPool::Impl::finish(const LayerFile &file, const std::vector<WeightSource> &sources,
                         const Checkpoint &checkpoint, const LayerInputs &inputs,
                         const LayerMoments &moments, const LayerForm &form, size_t expert) const {
  const bool isGated = hasGate(form.activation.kind);
  std::vector<float> gate;
  if (isGated) {
    MOERT_ASSIGN_OR_RETURN(gate, readMatrix(checkpoint, sources.front()));
  }
  MOERT_ASSIGN_OR_RETURN(std::vector<float> up, readMatrix(checkpoint, sources[isGated ? 1 : 0]));
  MOERT_ASSIGN_OR_RETURN(std::vector<float> down, readMatrix(checkpoint, sources.back()));
  const MatrixShape &shape = file.shape.matrices.front().shape;
  std::vector<float> rows, weights;
  ExpertTokens tokens = gatherTokens(inputs, int32_t(expert), rows, weights);
  MOERT_ASSIGN_OR_RETURN(
      QuantizedExpert quantized,
      quantizeExpert({shape.cols, shape.rows, gate, up, down, form.of(expert, shape)}, tokens,
                     &moments, options.method, options.grids));
  FinishedExpert finished;
  finished.block.reserve(file.blockBytes);
  finished.pooled.squaredNorm = quantized.squaredNorm;
  for (size_t g = 0; g < quantized.grids.size(); ++g) {
    const ExpertOnGrid &grid = quantized.grids[g];
    const GridMatrix *matrices[] = {&grid.gate, &grid.up, &grid.down};
    std::vector<Slice> slices = file.slices[g];
    MOERT_ASSIGN_OR_RETURN(
        std::vector<std::byte> record,
        packRecord(file.shape, std::span(matrices).subspan(isGated ? 0 : 1), slices));
    finished.block.insert(finished.block.end(), record.begin(), record.end());
    PooledGrid &pooled = finished.pooled.grids.emplace_back();
    pooled.squaredError = grid.squaredError;
    for (const Slice &slice : slices)
      pooled.sliceChecksums.push_back(slice.checksum);
  }
  return finished;
}

Status ExpertPool::Impl::fillLayer(const EmitPlan &plan, const Checkpoint &checkpoint,
                                   const CalibrationProfile &profile, size_t layer,
                                   const OnExpert &onExpert) {
  LayerFile &file = layers[layer];
  MOERT_RETURN_IF_ERROR(openLayer(layer, onExpert));
  if (file.pooled.size() == file.experts)
    return {};
  MOERT_ASSIGN_OR_RETURN(LayerInputs inputs, profile.layerInputs(layer));
  if (plan.scalesInputs[layer])
    scaleInputs(inputs);
  MOERT_ASSIGN_OR_RETURN(LayerMoments moments,
                         layerMomentsOf(profile.info().widthOf(layer), inputs.rows));
  MOERT_ASSIGN_OR_RETURN(const LayerForm form, readForm(plan, checkpoint, layer));
  auto produce = [&](size_t expert) {
    auto finished =
        finish(file, plan.expertSources[layer][expert], checkpoint, inputs, moments, form, expert);
    return finished.isOk() ? std::move(finished)
                           : finished.status().withContext(
                                 strCat("layer ", file.shape.layer, ", expert ", expert));
  };
  auto consume = [&](size_t expert, FinishedExpert finished) -> Status {
    if (isStopped())
      return interrupted();
    MOERT_RETURN_IF_ERROR(file.records->writeAt(expert * file.blockBytes, finished.block));
    MOERT_RETURN_IF_ERROR(file.index->append(poolIndexWords(finished.pooled)));
    file.pooled.push_back(std::move(finished.pooled));
    onExpert(/*isRestored=*/false);
    return {};
  };
  return runInOrder<FinishedExpert>(file.pooled.size(), file.experts, threadsFor(file), produce,
                                    consume);
}

static Status checkProfile(const EmitPlan &plan, const CalibrationInfo &info) {
  const std::vector<MoeLayer> &layers = plan.artifact.moeLayers;
  bool fits =
      info.moeLayers.size() == layers.size() && info.hiddenSize == plan.artifact.model.hiddenSize;
  for (size_t l = 0; fits && l < layers.size(); ++l)
    fits = info.moeLayers[l].layer == layers[l].layer &&
           info.moeLayers[l].experts == layers[l].experts.size();
  if (!fits)
    return invalidInput(
        "the calibration profile belongs to another model: it has other layers or experts");
  return {};
}

Result<std::unique_ptr<ExpertPool>>
ExpertPool::open(const EmitPlan &plan, const CalibrationInfo &info, const PoolOptions &options) {
  MOERT_RETURN_IF_ERROR(checkProfile(plan, info));
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->fingerprint = fingerprintOf(options, info);
  MOERT_RETURN_IF_ERROR(impl->layOut(plan));
  return std::unique_ptr<ExpertPool>(new ExpertPool(std::move(impl)));
}

Status ExpertPool::fillLayer(const EmitPlan &plan, const Checkpoint &checkpoint,
                             const CalibrationProfile &profile, size_t layer,
                             const OnExpert &onExpert) {
  return impl->fillLayer(plan, checkpoint, profile, layer, onExpert);
}

Status ExpertPool::fill(const EmitPlan &plan, const Checkpoint &checkpoint,
                        const CalibrationProfile &profile) {
  const auto isFilled = [](const LayerFile &file) { return file.pooled.size() == file.experts; };
  if (std::ranges::all_of(impl->layers, isFilled))
    return {};
  uint64_t total = 0, done = 0;
  for (const LayerFile &file : impl->layers)
    total += file.experts * file.blockBytes;
  Progress *progress = impl->options.progress;
  if (progress)
    progress->begin(kQuantizingExperts, total, 0);
  Status status;
  for (size_t l = 0; status.isOk() && l < layers(); ++l)
    status = fillLayer(plan, checkpoint, profile, l, [&](bool isRestored) {
      done += impl->layers[l].blockBytes;
      if (progress && isRestored)
        progress->restoreTo(done);
      else if (progress)
        progress->advanceTo(done);
    });
  if (progress)
    progress->end();
  return status;
}

Result<std::unique_ptr<ExpertPool>> ExpertPool::fill(const EmitPlan &plan,
                                                     const Checkpoint &checkpoint,
                                                     const CalibrationProfile &profile,
                                                     const PoolOptions &options) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ExpertPool> pool, open(plan, profile.info(), options));
  MOERT_RETURN_IF_ERROR(pool->fill(plan, checkpoint, profile));
  return pool;
}

ExpertPool::ExpertPool(std::unique_ptr<Impl> opened) : impl(std::move(opened)) {}
ExpertPool::~ExpertPool() = default;

size_t ExpertPool::layers() const {
  return impl->layers.size();
}
size_t ExpertPool::expertsOf(size_t layer) const {
  return impl->layers[layer].experts;
}
const std::vector<ExpertGrid> &ExpertPool::grids() const {
  return impl->options.grids;
}
const PooledExpert &ExpertPool::expert(size_t layer, size_t expert) const {
  return impl->layers[layer].pooled[expert];
}
const std::vector<ExpertFormat> &ExpertPool::formatsOf(size_t grid) const {
  return impl->formats[grid];
}
uint64_t ExpertPool::payloadBytesOf(size_t layer, size_t grid) const {
  uint64_t bytes = 0;
  for (const Slice &slice : impl->layers[layer].slices[grid])
    bytes += slice.payloadBytes;
  return bytes;
}
uint64_t ExpertPool::recordBytesOf(size_t layer, size_t grid) const {
  const Slice &last = impl->layers[layer].slices[grid].back();
  return last.offset + last.bytes;
}

Status ExpertPool::read(size_t layer, size_t expert, size_t grid, uint64_t offset,
                        std::span<std::byte> out) const {
  uint64_t bytes = recordBytesOf(layer, grid);
  if (offset > bytes || out.size() > bytes - offset)
    return failed("found a record of ", bytes, " bytes, expected ", out.size(), " from offset ",
                  offset);
  const LayerFile &file = impl->layers[layer];
  return file.records->readAt(file.offsetOf(expert, grid) + offset, out);
}

//===-- Records of a choice -------------------------------------------------------------------===//

static Result<uint32_t> gridWith(const ExpertPool &pool, std::span<const ExpertFormat> formats) {
  for (uint32_t grid = 0; grid < pool.grids().size(); ++grid)
    if (std::ranges::equal(pool.formatsOf(grid), formats))
      return grid;
  return failed("a low copy of ", nameOf(formats.front().gateUp.kind),
                ", expected one of the widths in the pool");
}

Result<PooledRecords> PooledRecords::withLowCopies(const ExpertPool &from, GridChoice grids,
                                                   const Artifact &artifact) {
  PooledRecords records(from, std::move(grids));
  records.pageBytes = artifact.pageBytes;
  for (const MoeLayer &layer : artifact.moeLayers) {
    std::vector<uint32_t> &ofLayer = records.lowCopies.emplace_back();
    for (const Expert &expert : layer.experts) {
      const std::vector<ExpertFormat> formats = formatsOf(expert);
      const uint16_t slices = lowCopySlicesOf(expert);
      uint32_t grid = kNoGrid;
      if (slices > 0) {
        MOERT_ASSIGN_OR_RETURN(grid, gridWith(from, std::span(formats).first(slices)));
      }
      ofLayer.push_back(grid);
    }
  }
  return records;
}

// A low copy comes first and fills whole pages.
Status PooledRecords::read(size_t moeLayer, size_t expert, uint64_t offset,
                           std::span<std::byte> out) const {
  if (const uint32_t low = lowCopyOf(moeLayer, expert); low != kNoGrid) {
    const uint64_t bytes = pool.recordBytesOf(moeLayer, low), end = roundUp(bytes, pageBytes);
    if (offset < end) {
      const uint64_t stored = std::min<uint64_t>(out.size(), bytes - std::min(bytes, offset));
      std::ranges::fill(out.subspan(stored), std::byte(0));
      return stored == 0 ? Status() : pool.read(moeLayer, expert, low, offset, out.first(stored));
    }
    offset -= end;
  }
  return pool.read(moeLayer, expert, choice[moeLayer][expert], offset, out);
}

uint64_t PooledRecords::sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const {
  if (const uint32_t low = lowCopyOf(moeLayer, expert); low != kNoGrid) {
    const std::vector<uint64_t> &checksums = pooledOn(moeLayer, expert, low).sliceChecksums;
    if (slice < checksums.size())
      return checksums[slice];
    slice -= checksums.size();
  }
  return pooledOn(moeLayer, expert, choice[moeLayer][expert]).sliceChecksums[slice];
}

} // namespace moec
