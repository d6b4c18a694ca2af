// Executes a program: one function per instruction. Instruction.h defines the instructions and
// Kernels.h the arithmetic; this file finds the operands and distributes the work over the threads.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Clock.h"
#include "runtime/base/DeterministicMath.h"
#include "runtime/engine/HeadProducts.h"
#include "runtime/kernels/Hadamard.h"
#include "runtime/policy/Routing.h"

#include <algorithm>
#include <utility>

namespace moert {

QuantizedRows Engine::Impl::quantized(int32_t bufferIndex, uint64_t firstRow) const {
  const Buffer &info = bufferInfo(bufferIndex);
  QuantizedRows rows = quantizedRows(buffer(bufferIndex), info.width, info.group, firstRow);
  if (info.kind == BufferKind::kHadamard)
    rows.hadamardBlock = hadamardBlockOf(info.width);
  return rows;
}

QuantizedRows Engine::Impl::quantizedRows(const Rows &rows, uint32_t width, uint32_t group,
                                          uint64_t firstRow) {
  uint64_t codes = roundUp(width, group);
  uint64_t groupsBytes = roundUp(codes / group * 4, kBufferAlignment);
  std::byte *row = rows.data + firstRow * rows.bytesPerRow;
  std::byte *scales = row + roundUp(codes, kBufferAlignment);
  return {reinterpret_cast<int8_t *>(row),
          reinterpret_cast<float *>(scales),
          reinterpret_cast<int32_t *>(scales + groupsBytes),
          static_cast<uint32_t>(codes),
          group,
          rows.bytesPerRow,
          rows.stride()};
}

void Engine::Impl::multiply(std::span<const Product> products, int32_t source) const {
  const Buffer &info = bufferInfo(source);
  multiply(products, buffer(source), info.width, isQuantized(info.kind) ? info.group : 0);
}

void Engine::Impl::multiply(std::span<const Product> products, const Rows &floats, uint32_t width,
                            uint32_t group) const {
  uint64_t panels = 0, perPanel = 0;
  for (const Product &product : products) {
    const auto &layout = product.w->layout;
    if (!layout.isPanels)
      kernels->linearRows(*product.w, floats.floats(product.firstRow), floats.stride(),
                          product.rows, product.y, product.yStride);
    panels += layout.isPanels ? layout.panels : 0;
    perPanel = std::max(perPanel, uint64_t(kPanelRows) * layout.paddedCols * product.rows);
  }
  // Panels are numbered continuously over the products.
  threads->run(panels, grainFor(perPanel), [&](uint64_t begin, uint64_t end, uint32_t) {
    for (const Product &product : products) {
      const uint64_t own = product.w->layout.isPanels ? product.w->layout.panels : 0;
      const auto first = static_cast<uint32_t>(std::min(begin, own));
      const auto last = static_cast<uint32_t>(std::min(end, own));
      if (first < last && group != 0)
        kernels->linearQuantized(*product.w, quantizedRows(floats, width, group, product.firstRow),
                                 product.rows, product.y, product.yStride, first, last);
      else if (first < last)
        kernels->linearFloat(*product.w, floats.floats(product.firstRow), floats.stride(),
                             product.rows, product.y, product.yStride, first, last);
      begin -= first;
      end -= last;
    }
  });
}

void Engine::Impl::executeRoute(const RouteInstruction &route) {
  const uint32_t topK = artifact->moeLayers[route.moeLayer].topK;
  const Router router = routerOf(route);
  Rows scores = buffer(route.scores), experts = buffer(route.experts),
       weights = buffer(route.weights);
  if (isLossy)
    beginMisses(route.moeLayer);
  if (weighsExperts)
    beginImportances();
  for (uint32_t row = 0; row < rows(); ++row) {
    router.computeProbabilities(scores.floats(row), probabilities.data());
    std::span<int32_t> best(experts.integers(row), topK);
    std::span<float> factors(weights.floats(row), topK);
    router.choose(probabilities.data(), best, factors);
    if (weighsExperts)
      addImportances(route, row);
    if (isLossy)
      applyMissRule(route, router, row);
    const uint32_t ranks = ranksOf(row, topK);
    observer->onRoute(*batch[row].session, route.moeLayer, batch[row].position, best.first(ranks),
                      factors.first(ranks));
  }
  rememberChosen(route);
  routed = &route;
}

// Runs of consecutive rows whose logits are requested, at most logitsRows at a time.
Status Engine::Impl::executeHead(const HeadInstruction &head) {
  const WeightView &w = weight(head.weight);
  uint32_t vocabulary = w.shape.rows;
  float *y = reinterpret_cast<float *>(logits.data());
  for (uint32_t row = 0; row < rows();) {
    uint32_t count = 0;
    while (row + count < rows() && count < logitsRows && batch[row + count].wantsLogits)
      ++count;
    if (count == 0) {
      ++row;
      continue;
    }
    multiply(w, head.src, row, count, y, logitsStride);
    if (head.bias != kNone)
      kernels->addBias(y, logitsStride, vector(head.bias), count, vocabulary, y, logitsStride);
    for (uint32_t i = 0; i < count; ++i) {
      float *values = y + i * logitsStride;
      if (head.scale != 1)
        std::transform(values, values + vocabulary, values,
                       [&](float v) { return v * head.scale; });
      if (head.softCap > 0)
        kernels->softCap(head.softCap, vocabulary, values);
      const BatchRow &of = batch[row + i];
      MOERT_RETURN_IF_ERROR(observer->onLogits(*of.session, of.position, {values, vocabulary}));
    }
    row += count;
  }
  return {};
}

void Engine::Impl::executeLinearHeads(const LinearHeadsInstruction &linear) {
  const WeightView &w = weight(linear.weight);
  const Rows src = buffer(linear.src), dst = buffer(linear.dst);
  const HeadProducts products = {
      *kernels,     w,     linear.heads, linear.kept, src.floats(), src.stride(), dst.floats(),
      dst.stride(), rows()};
  products.keep();
  if (!w.layout.isPanels)
    return products.multiplyRows();
  threads->run(w.layout.panels, grainFor(uint64_t(kPanelRows) * w.shape.cols * rows()),
               [&](uint64_t begin, uint64_t end, uint32_t) {
                 products.multiply(static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
               });
}

void Engine::Impl::executeLinears(std::span<const LinearInstruction> linears) {
  std::array<Product, kMostTogether> products;
  for (size_t i = 0; i < linears.size(); ++i) {
    Rows dst = buffer(linears[i].dst);
    products[i] = {&weight(linears[i].weight), dst.floats(), dst.stride(), 0, rows()};
  }
  multiply({products.data(), linears.size()}, linears.front().src);
  for (const LinearInstruction &linear : linears) {
    if (weighsExperts)
      measureRouterInput(linear);
    if (linear.bias == kNone)
      continue;
    Rows dst = buffer(linear.dst);
    kernels->addBias(dst.floats(), dst.stride(), vector(linear.bias), rows(),
                     weight(linear.weight).shape.rows, dst.floats(), dst.stride());
  }
}

namespace {

/// Executes one instruction, or several of one kind that are joined.
struct Execution {
  Engine::Impl &engine;
  std::span<const Instruction> joined;
  LayerProfile &layerProfile;

  void operator()(const EmbedInstruction &embed) const {
    Rows dst = engine.buffer(embed.dst);
    for (uint32_t row = 0; row < engine.rows(); ++row)
      engine.kernels->gatherRow(engine.weight(embed.weight),
                                static_cast<uint32_t>(engine.batch[row].token), embed.scale,
                                dst.floats(row));
  }
  void operator()(const NormInstruction &norm) const {
    Rows src = engine.buffer(norm.src), dst = engine.buffer(norm.dst);
    uint32_t width = engine.bufferInfo(norm.src).width;
    engine.threads->run(
        engine.rows(), grainFor(width * 4), [&](uint64_t begin, uint64_t end, uint32_t) {
          engine.kernels->norm(norm.kind, src.floats(begin), src.stride(),
                               static_cast<uint32_t>(end - begin), width, norm.segment,
                               engine.vector(norm.weight), engine.vector(norm.bias), norm.epsilon,
                               dst.floats(begin), dst.stride());
        });
  }
  void operator()(const QuantizeInstruction &quantize) const {
    Rows src = engine.buffer(quantize.src);
    uint32_t width = engine.bufferInfo(quantize.src).width;
    engine.threads->run(engine.rows(), grainFor(width * 4),
                        [&](uint64_t begin, uint64_t end, uint32_t) {
                          engine.kernels->quantizeRows(src.floats(begin), src.stride(),
                                                       static_cast<uint32_t>(end - begin), width,
                                                       engine.quantized(quantize.dst, begin));
                        });
  }
  void operator()(const LinearInstruction &) const {
    std::array<LinearInstruction, kMostTogether> linears{};
    for (size_t i = 0; i < joined.size(); ++i)
      linears[i] = std::get<LinearInstruction>(joined[i]);
    engine.executeLinears(std::span(linears).first(joined.size()));
  }
  void operator()(const LinearHeadsInstruction &linear) const { engine.executeLinearHeads(linear); }
  void operator()(const ActivateInstruction &activate) const {
    Rows gate = engine.buffer(activate.gate), up = engine.buffer(activate.up);
    Rows dst = engine.buffer(activate.dst);
    const GluActivation activation = {activate.activation, activate.alpha, activate.limit};
    uint32_t width = engine.bufferInfo(activate.gate).width;
    engine.threads->run(engine.rows(), grainFor(width * 16),
                        [&](uint64_t begin, uint64_t end, uint32_t) {
                          moert::activate(*engine.kernels, activation, gate.floats(begin),
                                          up.floats(begin), static_cast<uint32_t>(end - begin),
                                          width, gate.stride(), dst.floats(begin));
                        });
  }
  void operator()(const AddInstruction &add) const {
    Rows a = engine.buffer(add.a), b = engine.buffer(add.b), dst = engine.buffer(add.dst);
    uint32_t width = engine.bufferInfo(add.dst).width;
    for (uint32_t row = 0; row < engine.rows(); ++row)
      engine.kernels->addScaled(a.floats(row), b.floats(row), add.scale, width, dst.floats(row));
  }
  void operator()(const ScaleInstruction &scale) const {
    const Rows src = engine.buffer(scale.src), dst = engine.buffer(scale.dst);
    const float *weight = engine.vector(scale.weight);
    const float factor = weight ? scale.factor * *weight : scale.factor;
    for (uint32_t row = 0; row < engine.rows(); ++row)
      engine.kernels->scale(src.floats(row), factor, engine.bufferInfo(scale.dst).width,
                            dst.floats(row));
  }
  void operator()(const ClampInstruction &clamp) const {
    Rows x = engine.buffer(clamp.buffer);
    for (uint32_t row = 0; row < engine.rows(); ++row)
      engine.kernels->clamp(clamp.limit, engine.bufferInfo(clamp.buffer).width, x.floats(row));
  }
  void operator()(const ScaleByPositionInstruction &scale) const {
    Rows x = engine.buffer(scale.buffer);
    for (uint32_t row = 0; row < engine.rows(); ++row) {
      const uint64_t periods = (uint64_t(engine.batch[row].position) + 1) / scale.period;
      const auto factor = static_cast<float>(
          1 + double(scale.scale) * deterministicLog(1 + static_cast<double>(periods)));
      const std::span<float> values(x.floats(row), engine.bufferInfo(scale.buffer).width);
      for (float &value : values)
        value *= factor;
    }
  }
  void operator()(const ScaleInputInstruction &scale) const {
    Rows src = engine.buffer(scale.src), dst = engine.buffer(scale.dst);
    Rows weights = engine.buffer(scale.weights);
    for (uint32_t row = 0; row < engine.rows(); ++row) {
      const float factor = std::exchange(*weights.floats(row), 1.0f);
      std::transform(src.floats(row), src.floats(row) + engine.bufferInfo(scale.src).width,
                     dst.floats(row), [&](float value) { return factor * value; });
    }
  }
  void operator()(const GateRowsInstruction &gate) const {
    Rows src = engine.buffer(gate.src), factor = engine.buffer(gate.gate);
    Rows dst = engine.buffer(gate.dst);
    engine.kernels->gateRows(src.floats(), factor.floats(), factor.stride(), engine.rows(),
                             engine.bufferInfo(gate.src).width, src.stride(), dst.floats());
  }
  void operator()(const GateInstruction &gate) const { engine.executeGate(gate); }
  void operator()(const UnitNormInstruction &norm) const { engine.executeUnitNorm(norm); }
  void operator()(const DecayInstruction &decay) const { engine.executeDecay(decay); }
  void operator()(const ConvolveInstruction &one) const { engine.executeConvolve(one); }
  void operator()(const DeltaRuleInstruction &rule) const { engine.executeDeltaRule(rule); }
  void operator()(const RopeInstruction &rope) const { engine.executeRope(rope); }
  void operator()(const StoreKvInstruction &store) const { engine.executeStoreKv(store); }
  void operator()(const AttendInstruction &attend) const { engine.executeAttend(attend); }
  void operator()(const RouteInstruction &route) const { engine.executeRoute(route); }
  void operator()(const PredictInstruction &) const { engine.executePredicts(joined); }
  Status operator()(const ExpertsInstruction &experts) const {
    return engine.executeExperts(experts, layerProfile);
  }
  Status operator()(const HeadInstruction &head) const { return engine.executeHead(head); }
};

} // namespace

Status Engine::Impl::executeTogether(std::span<const Instruction> joined,
                                     LayerProfile &layerProfile) {
  const Execution execution = {*this, joined, layerProfile};
  Status status;
  visitInstruction(joined.front(), [&](const auto &instruction) {
    if constexpr (std::is_same_v<decltype(execution(instruction)), Status>)
      status = execution(instruction);
    else
      execution(instruction);
  });
  return status;
}

void Engine::Impl::countTime(std::span<const Instruction> joined, uint64_t computeNs) {
  auto bytesOf = [&](const Instruction &instruction) -> uint64_t {
    const auto *linear = std::get_if<LinearInstruction>(&instruction);
    return linear ? artifact->residents[static_cast<size_t>(linear->weight)].bytes : 0;
  };
  uint64_t left = 0;
  for (const Instruction &instruction : joined)
    left += bytesOf(instruction);
  // Where there are no products, the first instruction gets all of the time.
  for (const Instruction &instruction : joined) {
    const uint64_t bytes = bytesOf(instruction);
    const uint64_t own = partOfTime(computeNs, bytes, left);
    partNs[static_cast<size_t>(partOf(instruction))] += own;
    computeNs -= own;
    left -= bytes;
  }
}

/// Whether the time of the instruction at `begin` counts for the same part and layer as that of the
/// instruction at `end`. Each reading of the clock takes time itself.
static bool isCountedWithNext(const Program &program, size_t begin, size_t end) {
  return end == begin + 1 && end < program.instructions.size() &&
         program.layers[begin] == program.layers[end] &&
         partOf(program.instructions[begin]) == partOf(program.instructions[end]) &&
         !(end + 1 < program.instructions.size() && isJoined(program.instructions[end + 1]));
}

Status Engine::Impl::executeProgram() {
  fillRopeTables();
  std::fill(profile.begin(), profile.end(), LayerProfile());
  partNs.fill(0);
  const std::span<const Instruction> instructions = program->instructions;
  openExperts.reset(); // A failed step may have left some; their layer pass is over.
  routed = nullptr;
  uint64_t begun = monotonicNs();
  CacheTime before = cacheTime();
  size_t timed = 0; // The first instruction whose time is not counted yet.
  const ReadTimes readsBefore = cache->readTimes();
  for (size_t i = 0, end = 0; i < instructions.size(); i = end) {
    for (end = i + 1; end < instructions.size() && isJoined(instructions[end]);)
      ++end;
    const std::span<const Instruction> joined = instructions.subspan(i, end - i);
    int32_t layer = program->layers[i];
    LayerProfile &entry = layer == kNone ? profile.back() : profile[static_cast<size_t>(layer)];
    MOERT_RETURN_IF_ERROR(executeTogether(joined, entry));
    if (beginsReads(joined.back()))
      MOERT_RETURN_IF_ERROR(beginExperts(routed->moeLayer, routed->experts));
    MOERT_RETURN_IF_ERROR(cache->advance());
    if (isCountedWithNext(*program, i, end))
      continue;
    // Stalls count at the instruction where they happen: reads begin before the experts
    // instruction.
    const uint64_t now = monotonicNs();
    const CacheTime after = cacheTime();
    const uint64_t waits = after.waitNs - before.waitNs;
    const uint64_t checks = after.verifyNs - before.verifyNs;
    const uint64_t requests = after.submitNs - before.submitNs;
    const uint64_t computeNs = now - begun - waits;
    entry.waitNs += waits;
    entry.computeNs += computeNs;
    partNs[static_cast<size_t>(StepPart::kChecksums)] += checks;
    partNs[static_cast<size_t>(StepPart::kRequests)] += requests;
    countTime(instructions.subspan(timed, end - timed), computeNs - checks - requests);
    timed = end;
    begun = now;
    before = after;
  }
  const ReadTimes &reads = cache->readTimes();
  stepReads = {reads.reads - readsBefore.reads, reads.busyNs - readsBefore.busyNs,
               reads.underWayNs - readsBefore.underWayNs};
  return {};
}

} // namespace moert
