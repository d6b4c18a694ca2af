#include "tests/unit/engine/SyntheticModel.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/exec/Hadamard.h"
#include "runtime/experts/PathTable.h"
#include "runtime/format/Writer.h"
#include "runtime/policy/CacheAllotment.h"
#include "runtime/policy/Prefetches.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <span>

namespace moert::test {

namespace {

WeightFormat formatOf(WeightKind kind) {
  if (!isQuantized(kind))
    return {kind, 0, 0, false};
  return {kind, 32, 32, kind == WeightKind::kInt2};
}

// Builds the instructions of one program; buffers never share bytes, which is allowed.
class ProgramBuilder {
public:
  ProgramBuilder(Artifact &model, const SyntheticOptions &settings)
      : artifact(model), options(settings) {}

  Program build(const char *name) {
    program = {};
    program.name = name;
    int32_t hidden = buffer(options.hidden);
    add(EmbedInstruction{hidden, resident("embed", kVocabulary, options.hidden, options.residents),
                         1.5f},
        kNone);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      attention(hidden, layer);
      experts(hidden, layer);
    }
    int32_t normed = buffer(options.hidden);
    add(norm(hidden, normed, "final", options.hidden), kNone);
    int32_t head = resident("head", kVocabulary, options.hidden, options.residents);
    add(HeadInstruction{input(normed, options.residents, kNone), head, kNone, options.logitScale},
        kNone);
    return program;
  }

private:
  int32_t buffer(uint32_t width, BufferKind kind = BufferKind::kF32) {
    uint32_t group = isQuantized(kind) ? 32 : 0;
    uint64_t bytes = bufferBytesPerRow(kind, width, group);
    program.buffers.push_back({kind, width, group, program.arenaBytesPerToken, bytes});
    program.arenaBytesPerToken += bytes;
    return static_cast<int32_t>(program.buffers.size() - 1);
  }

  // A resident weight by name, created at its first use.
  int32_t resident(const std::string &name, uint32_t rows, uint32_t cols, WeightKind kind) {
    for (size_t i = 0; i < artifact.residents.size(); ++i)
      if (artifact.residents[i].name == name)
        return static_cast<int32_t>(i);
    artifact.residents.push_back({name, {rows, cols}, formatOf(kind), 0, 0});
    return static_cast<int32_t>(artifact.residents.size() - 1);
  }

  void add(Instruction instruction, int32_t layer) {
    join(instruction, &LinearInstruction::dst, layer);
    join(instruction, &PredictInstruction::scores, layer);
    program.instructions.push_back(instruction);
    program.layers.push_back(layer);
  }

  // Joins products and predictions with those before them wherever the format allows it.
  template <typename T> void join(Instruction &instruction, int32_t T::*result, int32_t layer) {
    T *added = std::get_if<T>(&instruction);
    bool isRun = added != nullptr;
    for (size_t i = program.instructions.size(), together = 1; isRun && i-- > 0; ++together) {
      const T *earlier = std::get_if<T>(&program.instructions[i]);
      if (!earlier || earlier->src != added->src || program.layers[i] != layer ||
          together == kMostTogether || earlier->*result == added->*result) {
        isRun = false;
        added->joined = false;
      } else {
        added->joined = true;
        isRun = earlier->joined;
      }
    }
  }

  NormInstruction norm(int32_t src, int32_t dst, const std::string &name, uint32_t segment) {
    int32_t weight = resident(name + ".norm", 1, segment, WeightKind::kF32);
    return {src, dst, weight, kNone, NormKind::kRms, 1e-6f, segment};
  }

  // The buffer itself, or its quantized form if the weights are quantized.
  int32_t input(int32_t floats, WeightKind kind, int32_t layer,
                BufferKind form = BufferKind::kQuantized) {
    if (!isQuantized(kind))
      return floats;
    int32_t codes = buffer(program.buffers[static_cast<size_t>(floats)].width, form);
    add(QuantizeInstruction{{floats, codes}}, layer);
    return codes;
  }

  int32_t linear(int32_t src, const std::string &name, uint32_t rows, WeightKind kind,
                 int32_t layer, ProductRole role, bool hasBias = false) {
    uint32_t cols = program.buffers[static_cast<size_t>(src)].width;
    int32_t dst = buffer(rows);
    int32_t weight = resident(name, rows, cols, kind);
    int32_t bias = hasBias ? resident(name + ".bias", 1, rows, WeightKind::kF32) : kNone;
    add(LinearInstruction{src, dst, weight, bias, role}, layer);
    return dst;
  }

  void attention(int32_t hidden, uint32_t number) {
    int32_t layer = static_cast<int32_t>(number);
    std::string name = "layer" + std::to_string(number);
    int32_t normed = buffer(options.hidden);
    add(norm(hidden, normed, name + ".attention", options.hidden), layer);
    int32_t x = input(normed, options.residents, layer);
    int32_t q = linear(x, name + ".q", kHeads * kHeadDim, options.residents, layer,
                       ProductRole::kAttention, true);
    if (options.repeatsQuery)
      add(Instruction(program.instructions.back()), layer);
    int32_t k = linear(x, name + ".k", kKvHeads * kHeadDim, options.residents, layer,
                       ProductRole::kAttention);
    int32_t v = linear(x, name + ".v", kKvHeads * kHeadDim, options.residents, layer,
                       ProductRole::kAttention);
    if (options.hasStates)
      states(q, k, normed, number);
    add(RopeInstruction{q, kHeads, kHeadDim, 0}, layer);
    add(RopeInstruction{k, kKvHeads, kHeadDim, 0}, layer);
    add(StoreKvInstruction{k, v, number}, layer);
    int32_t attended = buffer(kHeads * kHeadDim);
    uint32_t window = number == 1 ? 5 : 0;
    add(AttendInstruction{{q, attended, number, kHeads, 0.25f}, window}, layer);
    int32_t o = linear(input(attended, options.residents, layer), name + ".o", options.hidden,
                       options.residents, layer, ProductRole::kAttention);
    add(AddInstruction{hidden, o, hidden, 1}, layer);
  }

  /// Convolves the queries and gates them by what a delta rule with the keys reads of them.
  void states(int32_t q, int32_t k, int32_t normed, uint32_t number) {
    int32_t layer = static_cast<int32_t>(number);
    std::string name = "layer" + std::to_string(number);
    int32_t taps = resident(name + ".taps", kHeads * kHeadDim, 4, WeightKind::kF32);
    int32_t rate = resident(name + ".rate", 1, kHeads, WeightKind::kF32);
    add(ConvolveInstruction{q, q, taps, 2 * number, true}, layer);
    add(UnitNormInstruction{k, 1e-6f, kHeadDim}, layer);
    int32_t decay =
        linear(normed, name + ".decay", kHeads, WeightKind::kF32, layer, ProductRole::kAttention);
    int32_t write =
        linear(normed, name + ".write", kHeads, WeightKind::kF32, layer, ProductRole::kAttention);
    add(DecayInstruction{{decay, decay, rate, rate}}, layer);
    int32_t read = buffer(kHeads * kHeadDim);
    add(DeltaRuleInstruction{k, k, q, decay, write, read, 2 * number + 1, kKvHeads, kHeads, 0.25f},
        layer);
    add(GateInstruction{q, read, q, GateKind::kSigmoid}, layer);
  }

  void predict(int32_t src, int32_t scores, uint32_t later, uint32_t ahead, bool beginsReads,
               int32_t layer) {
    int32_t router = resident("layer" + std::to_string(later) + ".router", kExperts, options.hidden,
                              WeightKind::kBF16);
    int32_t bias =
        options.biasesPrefetches
            ? resident("layer" + std::to_string(later) + ".prefetch", 1, kExperts, WeightKind::kF32)
            : kNone;
    add(PredictInstruction{src, scores, router, bias, later, ahead, false, beginsReads}, layer);
  }

  void experts(int32_t hidden, uint32_t number) {
    int32_t layer = static_cast<int32_t>(number);
    std::string name = "layer" + std::to_string(number);
    int32_t normed = buffer(options.hidden);
    add(norm(hidden, normed, name + ".experts", options.hidden), layer);
    int32_t scores =
        linear(normed, name + ".router", kExperts, WeightKind::kBF16, layer, ProductRole::kRouter);
    int32_t chosen = buffer(kTopK, BufferKind::kI32), weights = buffer(kTopK);
    add(RouteInstruction{scores, chosen, weights, number, RouterScoring::kSoftmaxThenTopK, true, 1,
                         number + 1 == kLayers},
        options.routesOutside ? kNone : layer);
    int32_t prefetchScores = kNone;
    for (uint32_t ahead = 1; ahead <= kMostAhead && number + ahead < kLayers; ++ahead) {
      if (prefetchScores == kNone || !options.sharesScores)
        prefetchScores = buffer(kExperts);
      predict(normed, prefetchScores, number + ahead, ahead,
              ahead == kMostAhead || number + ahead + 1 == kLayers,
              options.routesOutside ? kNone : layer);
    }
    bool quantized = isQuantized(options.experts);
    BufferKind kind = !quantized            ? BufferKind::kF32
                      : options.hasHadamard ? BufferKind::kHadamard
                                            : BufferKind::kQuantized;
    int32_t src = input(normed, options.experts, layer, kind), dst = buffer(options.hidden);
    int32_t gathered = buffer(options.hidden, kind), gate = buffer(kExpertWidth),
            up = buffer(kExpertWidth);
    int32_t inner = quantized ? buffer(kExpertWidth, kind) : kNone,
            ranks =
                buffer(kTopK * static_cast<uint32_t>(roundUp(options.hidden, kRankRowElements)));
    add(ExpertsInstruction{src, chosen, weights, dst, number, gathered, gate, up, inner, ranks},
        layer);
    int32_t factor =
        linear(normed, name + ".gate", 1, WeightKind::kF32, layer, ProductRole::kDense);
    add(GateRowsInstruction{dst, factor, dst}, layer);
    add(AddInstruction{hidden, dst, hidden, 0.5f}, layer);
  }

  Artifact &artifact;
  const SyntheticOptions &options;
  Program program;
};

// Random contents of a matrix, with a moderate magnitude in every field.
class Filler {
public:
  explicit Filler(uint32_t seed) : random(seed) {}

  void fill(std::byte *to, const MatrixShape &shape, const WeightFormat &format) {
    MatrixLayout layout = layoutOf(shape, format).value();
    float size = 1.0f / std::sqrt(static_cast<float>(shape.cols));
    if (isQuantized(format.kind)) {
      for (uint64_t i = 0; i < layout.codesBytes; ++i)
        to[i] = static_cast<std::byte>(random() & 0xff);
      for (uint64_t i = layout.scalesOffset; i < layout.bytes; i += 2)
        put(to + i, drawScale());
      return;
    }
    uint64_t elements = layout.codesBytes * 8 / bitsOf(format.kind);
    for (uint64_t i = 0; i < elements; ++i) {
      float value = shape.rows == 1 ? 1 + uniform() * 0.1f : uniform() * size;
      if (format.kind == WeightKind::kF32)
        put(to + i * 4, value);
      else // bf16: the upper half of f32.
        put(to + i * 2, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    }
  }

  /// One slice of codes or floats that are 0, of which only the codes have other bytes.
  static void fillZeros(std::byte *slice, const MoeLayer &layer, const ExpertFormat &expertFormat) {
    const WeightFormat &format = expertFormat.gateUp;
    const SliceLayout places = sliceLayoutOf(layer, format).value();
    for (size_t i = 0; isQuantized(format.kind) && i < layer.matrices.size(); ++i)
      std::memset(slice + places.matrixOffsets[i], 1 << (bitsOf(format.kind) - 1),
                  layoutOf(layer.matrices[i].shape, format)->codesBytes);
  }

  /// The same numbers in the slices of a copy: a byte is drawn for each code, and its leading bits
  /// are taken.
  void fillSlices(std::byte *record, const MoeLayer &layer, std::span<const Slice> slices) {
    for (size_t i = 0; i < layer.matrices.size(); ++i) {
      const MatrixShape &shape = layer.matrices[i].shape;
      const ExpertPart part = layer.matrices[i].part;
      MatrixLayout layout = layoutOf(shape, formatOf(slices[0].format, part)).value();
      const std::vector<uint32_t> codes = drawCodes(layout);
      std::byte *base =
          record + slices[0].offset + sliceLayoutOf(layer, slices[0].format)->matrixOffsets[i];
      for (uint64_t at = layout.scalesOffset; at < layout.bytes; at += 2)
        put(base + at, drawScale());
      uint32_t shift = 8;
      for (const Slice &slice : slices) {
        const WeightFormat &format = formatOf(slice.format, part);
        if (format.kind == WeightKind::kInt0)
          break;
        std::byte *to =
            record + slice.offset + sliceLayoutOf(layer, slice.format)->matrixOffsets[i];
        const MatrixLayout stored = layoutOf(shape, format).value();
        const std::span<const WeightKind> planes = planesOf(format.kind);
        for (size_t p = 0; p < planes.size(); ++p) {
          shift -= bitsOf(planes[p]);
          putPlane(to + stored.planeOffsets[p], planes[p], shift, layout.paddedCols, codes);
        }
      }
    }
  }

  /// The values of the int8 matrices that fillSlices() would draw, as f32. With isTransformed they
  /// are those of the matrices whose transform was drawn.
  void fillValues(std::byte *slice, const MoeLayer &layer, bool isTransformed) {
    const SliceLayout places = sliceLayoutOf(layer, floatFormat(WeightKind::kF32)).value();
    for (size_t i = 0; i < layer.matrices.size(); ++i) {
      const MatrixShape &shape = layer.matrices[i].shape;
      const MatrixLayout int8 = layoutOf(shape, formatOf(WeightKind::kInt8)).value();
      const std::vector<uint32_t> codes = drawCodes(int8);
      std::vector<float> scales((int8.bytes - int8.scalesOffset) / sizeof(uint16_t));
      for (float &scale : scales)
        scale = f16ToF32(drawScale());
      std::vector<double> values(shape.cols);
      for (uint32_t row = 0; row < shape.rows; ++row) {
        const uint32_t panel = row / kPanelRows, lane = row % kPanelRows;
        for (uint32_t col = 0; col < shape.cols; ++col)
          values[col] = scales[(panel * int8.groupsPerRow + col / 32) * kPanelRows + lane] *
                        (double(codes[uint64_t(row) * int8.paddedCols + col]) - 128);
        if (isTransformed)
          values = untransformed(values);
        for (uint32_t col = 0; col < shape.cols; ++col)
          put(slice + places.matrixOffsets[i] +
                  ((uint64_t(panel) * shape.cols + col) * kPanelRows + lane) * sizeof(float),
              static_cast<float>(values[col]));
      }
    }
  }

private:
  std::vector<uint32_t> drawCodes(const MatrixLayout &layout) {
    std::vector<uint32_t> codes(uint64_t(layout.panels) * kPanelRows * layout.paddedCols);
    for (uint32_t &code : codes)
      code = static_cast<uint32_t>(random() & 0xff);
    return codes;
  }
  /// As f16, 2^-7 to 2^-6.
  uint16_t drawScale() { return static_cast<uint16_t>(0x2000 | (random() & 0x3ff)); }

  /// The row w with w x = row (H x) for every x, by H's definition.
  static std::vector<double> untransformed(const std::vector<double> &row) {
    const uint32_t block = hadamardBlockOf(static_cast<uint32_t>(row.size()));
    std::vector<double> result(row.size());
    for (uint32_t col = 0; col < row.size(); ++col)
      for (uint32_t i = 0; i < block; ++i) {
        const double value = row[col / block * block + i] * double(hadamardInputFactor(block));
        result[col] += std::popcount(i & col % block) % 2 == 0 ? value : -value;
      }
    return result;
  }

  static void putPlane(std::byte *to, WeightKind kind, uint32_t shift, uint32_t cols,
                       const std::vector<uint32_t> &codes) {
    uint32_t bits = bitsOf(kind), unitInputs = 32 / bits;
    for (uint64_t i = 0; i < codes.size(); ++i) {
      uint64_t row = i / cols, col = i % cols;
      uint64_t at = row / kPanelRows * cols * kPanelRows * bits / 8 + col / unitInputs * 64 +
                    row % kPanelRows * 4 + col % 4;
      uint32_t place = bitPlaceOf(kind, static_cast<uint32_t>(col % unitInputs / 4));
      to[at] |= static_cast<std::byte>((codes[i] >> shift & ((1u << bits) - 1)) << place);
    }
  }

  template <typename T> static void put(std::byte *to, T value) {
    std::memcpy(to, &value, sizeof value);
  }
  float uniform() { return static_cast<float>(random()) / 2147483648.0f - 1; }
  std::mt19937 random;
};

// A grid of up to 3 bits has offsets, like int2 alone.
std::vector<WeightFormat> formatsOf(const std::vector<WeightKind> &kinds, size_t slices) {
  std::vector<WeightFormat> formats;
  uint32_t bits = 0;
  for (WeightKind kind : kinds)
    bits += bitsOf(kind);
  for (size_t s = 0; s < slices; ++s) {
    WeightFormat &format = formats.emplace_back(formatOf(planesOf(kinds.front()).front()));
    format.kind = s < kinds.size() ? kinds[s] : WeightKind::kInt0;
    format.hasOffsets = format.hasOffsets && bits <= 3 && s == 0;
    format.refines = s > 0;
  }
  return formats;
}

void addCopy(Expert &expert, const std::vector<WeightKind> &gateUp,
             const std::vector<WeightKind> &down) {
  const size_t count = std::max(gateUp.size(), down.size());
  if (count == 0)
    return;
  const std::vector<WeightFormat> gateUpFormats = formatsOf(gateUp, count),
                                  downFormats = formatsOf(down, count);
  for (size_t s = 0; s < count; ++s)
    expert.slices.push_back({ExpertFormat(gateUpFormats[s], downFormats[s])});
}

Expert expertOf(const SyntheticOptions &options, uint32_t index) {
  Expert expert;
  addCopy(expert, options.lowCopy, options.lowCopy);
  const std::vector<WeightKind> gateUp = options.slices.empty()
                                             ? std::vector{options.experts}
                                             : options.slices[index % options.slices.size()];
  addCopy(expert, gateUp,
          options.downSlices.empty() ? gateUp
                                     : options.downSlices[index % options.downSlices.size()]);
  for (Slice &slice : expert.slices)
    slice.format.gateUp.hasHadamard = slice.format.down.hasHadamard =
        options.hasHadamard && isQuantized(options.experts);
  return expert;
}

void describe(Artifact &artifact, const SyntheticOptions &options) {
  artifact.model = {"synthetic", kVocabulary, options.hidden, kLayers, 512, std::nullopt, {0}};
  artifact.pageBytes = 4096;
  artifact.ropes = {
      {RopeStyle::kHalf, 1, {1, 0.3f, 0.1f, 0.03f, 0.01f, 0.003f, 0.001f, 0.0003f}, 0, 0, {}}};
  if (options.rope)
    artifact.ropes = {*options.rope};
  artifact.kvSlots.assign(kLayers, {kKvHeads, kHeadDim, kHeadDim, options.kvKind});
  for (uint32_t l = 0; options.hasStates && l < kLayers; ++l) {
    artifact.stateSlots.push_back({3, kHeads * kHeadDim});
    artifact.stateSlots.push_back({kHeads * kHeadDim, kHeadDim});
  }
  for (uint32_t l = 0; l < kLayers; ++l) {
    MoeLayer layer;
    layer.layer = l;
    layer.topK = kTopK;
    layer.matrices = {{ExpertPart::kGate, {kExpertWidth, options.hidden}},
                      {ExpertPart::kUp, {kExpertWidth, options.hidden}},
                      {ExpertPart::kDown, {options.hidden, kExpertWidth}}};
    for (uint32_t e = 0; e < kExperts; ++e)
      layer.experts.push_back(expertOf(options, e));
    artifact.moeLayers.push_back(layer);
  }
  ProgramBuilder builder(artifact, options);
  artifact.programs = {builder.build("decode"), builder.build("prefill")};
}

} // namespace

std::vector<std::byte> pathsOf(const std::vector<uint32_t> &before) {
  std::vector<std::byte> section;
  auto put = [&section](uint32_t value) {
    for (uint32_t byte = 0; byte < 4; ++byte)
      section.push_back(static_cast<std::byte>(value >> 8 * byte));
  };
  for (uint32_t value : {PathTableHeader::kMagic, PathTableHeader::kVersion, kLayers, 0u})
    put(value);
  for (uint32_t layer = 0; layer < kLayers; ++layer)
    put(kExperts);
  for (uint32_t layer = 1; layer < kLayers; ++layer)
    for (uint32_t back = 1; back <= 2 && back <= layer; ++back)
      for (uint32_t earlier = 0; earlier < kExperts; ++earlier)
        for (uint32_t expert = 0; expert < kExperts; ++expert)
          section.push_back(std::byte(back == 1 && before[expert] == earlier ? 255 : 0));
  return section;
}

Result<Artifact> writeSyntheticModel(const std::string &path, const SyntheticOptions &options) {
  Artifact artifact;
  describe(artifact, options);
  MOERT_RETURN_IF_ERROR(layOutArtifact(
      artifact, {.tokenizer = options.tokenizer.size(), .paths = options.paths.size()}));
  CacheShape::Layer pages =
      cacheLayerOf(recordBytesOf(artifact.moeLayers[0]), artifact.pageBytes, kTopK);
  artifact.plans = {{"default", 0, 16, 512, 0,
                     std::vector<uint32_t>(kLayers, static_cast<uint32_t>(pages.allPages))}};
  artifact.plans[0].miss = options.miss;
  if (!options.plans.empty())
    artifact.plans = options.plans;

  uint64_t bytes = std::max(artifact.residentOffset + artifact.residentBytes,
                            artifact.recordsOffset + artifact.recordsBytes);
  bytes = std::max({bytes, artifact.pathsOffset + artifact.pathsBytes,
                    artifact.tokenizerOffset + artifact.tokenizerBytes});
  std::vector<std::byte> file(roundUp(bytes, 4096));
  auto put = [&file](std::span<const std::byte> section, uint64_t offset) {
    std::copy(section.begin(), section.end(), file.begin() + static_cast<ptrdiff_t>(offset));
    return checksum64(section);
  };
  artifact.pathsChecksum = put(options.paths, artifact.pathsOffset);
  artifact.tokenizerChecksum = put(options.tokenizer, artifact.tokenizerOffset);
  Filler filler(options.seed);
  for (const ResidentWeight &weight : artifact.residents)
    filler.fill(file.data() + artifact.residentOffset + weight.offset, weight.shape, weight.format);
  artifact.residentChecksum =
      checksum64(std::span(file).subspan(artifact.residentOffset, artifact.residentBytes));
  Filler lowFiller = filler;
  for (MoeLayer &layer : artifact.moeLayers)
    for (Expert &expert : layer.experts) {
      std::byte *record = file.data() + expert.fileOffset;
      const std::span<const Slice> full = fullSlicesOf(expert);
      if (!options.lowCopy.empty())
        lowFiller.fillSlices(record, layer, std::span(expert.slices).first(options.lowCopy.size()));
      if (options.hasZeroExperts) {
        Filler::fillZeros(record + full[0].offset, layer, full[0].format);
      } else if (isQuantized(options.experts)) {
        filler.fillSlices(record, layer, full);
      } else if (options.hasValuesOfInt8) {
        filler.fillValues(record, layer, options.hasHadamard);
      } else {
        SliceLayout places = sliceLayoutOf(layer, full[0].format).value();
        for (size_t i = 0; i < layer.matrices.size(); ++i)
          filler.fill(record + full[0].offset + places.matrixOffsets[i], layer.matrices[i].shape,
                      full[0].format.gateUp);
      }
      for (Slice &slice : expert.slices)
        slice.checksum = checksum64({record + slice.offset, slice.payloadBytes});
    }
  MOERT_ASSIGN_OR_RETURN(SealedArtifact sealed, sealArtifact(artifact));
  file.resize(sealed.manifestOffset);
  file.insert(file.end(), sealed.manifest.begin(), sealed.manifest.end());
  std::copy(sealed.prefix.begin(), sealed.prefix.end(), file.begin());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(file.data()),
             static_cast<std::streamsize>(file.size()));
  return artifact;
}

} // namespace moert::test
