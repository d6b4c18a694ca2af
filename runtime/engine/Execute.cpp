// Executes a program: one function per instruction. Those of experts, predictions, attention and
// states are in files of their own.
#include "runtime/engine/Executor.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Clock.h"
#include "runtime/base/DeterministicMath.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/HeadProducts.h"
#include "runtime/policy/Routing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace moert {

Executor::Executor(const ExecutorParts &executorParts)
    : parts(executorParts), grouping(mostExpertsOf(parts.artifact)),
      probabilities(roundUp(mostExpertsOf(parts.artifact), 16)), listed(probabilities.size()),
      ngrams(parts.artifact.stateSlots.size()), places(mostExpertsOf(parts.artifact)),
      isLimited(parts.artifact.moeLayers.size()),
      prefetchProbabilities(mostExpertsOf(parts.artifact)) {
  for (const Program &program : parts.artifact.programs)
    for (const Instruction &instruction : program.instructions)
      if (const auto *embed = std::get_if<EmbedNgramsInstruction>(&instruction))
        ngrams[embed->slot] = NgramRows(*embed, parts.artifact.model.vocabularySize);
      else if (const auto *limit = std::get_if<CapacityInstruction>(&instruction))
        isLimited[limit->moeLayer] = true;
  if (parts.predictingFrom)
    predicted = routesOf(parts.artifact, *parts.predictingFrom);
  prefetchCandidates.reserve(prefetchProbabilities.size());
  prefetchSlices.reserve(prefetchProbabilities.size());
}

Router Executor::routerOf(const RouteInstruction &route) const {
  const MoeLayer &layer = parts.artifact.moeLayers[route.moeLayer];
  return {route,
          layer.topK,
          {vector(route.choiceBias), vector(route.weightFactors)},
          static_cast<uint32_t>(layer.experts.size()),
          parts.kernels};
}

void Executor::multiply(const Step &step, std::span<const Product> products, int32_t source) const {
  const Buffer &info = step.bufferInfo(source);
  multiply(products, step.buffer(source), info.width, isQuantized(info.kind) ? info.group : 0);
}

void Executor::multiply(std::span<const Product> products, const Rows &source, uint32_t width,
                        uint32_t group) const {
  uint64_t panels = 0, perPanel = 0;
  for (const Product &product : products) {
    const auto &layout = product.w->layout;
    if (!layout.isPanels)
      parts.kernels.linearRows(*product.w, source.floats(product.firstRow), source.stride(),
                               product.rows, product.y, product.yStride);
    panels += layout.isPanels ? layout.panels : 0;
    perPanel = std::max(perPanel, uint64_t(kPanelRows) * layout.paddedCols * product.rows);
  }
  // Panels are numbered continuously over the products.
  parts.threads.run(panels, grainFor(perPanel), [&](uint64_t begin, uint64_t end, uint32_t) {
    for (const Product &product : products) {
      const uint64_t own = product.w->layout.isPanels ? product.w->layout.panels : 0;
      const auto first = static_cast<uint32_t>(std::min(begin, own));
      const auto last = static_cast<uint32_t>(std::min(end, own));
      if (first < last && group != 0)
        parts.kernels.linearQuantized(*product.w, source.quantized(width, group, product.firstRow),
                                      product.rows, product.y, product.yStride, first, last);
      else if (first < last)
        parts.kernels.linearFloat(*product.w, source.floats(product.firstRow), source.stride(),
                                  product.rows, product.y, product.yStride, first, last);
      begin -= first;
      end -= last;
    }
  });
}

void Executor::execute(Step &step, const EmbedInstruction &embed) {
  const Rows dst = step.buffer(embed.dst);
  for (uint32_t row = 0; row < step.rows(); ++row)
    parts.kernels.gatherRow(parts.weights.weight(embed.weight),
                            static_cast<uint32_t>(step.batch[row].token), embed.scale,
                            dst.floats(row));
}

void Executor::execute(Step &step, const EmbedPositionInstruction &embed) {
  const Rows dst = step.buffer(embed.dst);
  const WeightView &weight = parts.weights.weight(embed.weight);
  for (uint32_t row = 0; row < step.rows(); ++row)
    parts.kernels.gatherRow(weight, std::min(step.batch[row].position, weight.shape.rows - 1), 1,
                            dst.floats(row));
}

void Executor::execute(Step &step, const NormInstruction &norm) {
  const Rows src = step.buffer(norm.src), dst = step.buffer(norm.dst);
  const uint32_t width = step.bufferInfo(norm.src).width;
  forRows(step, width * 4, [&](uint64_t row, uint32_t count) {
    parts.kernels.norm(norm.kind, src.floats(row), src.stride(), count, width, norm.segment,
                       vector(norm.weight), vector(norm.bias), norm.epsilon, dst.floats(row),
                       dst.stride());
  });
}

void Executor::execute(Step &step, const QuantizeInstruction &quantize) {
  const Rows src = step.buffer(quantize.src);
  const uint32_t width = step.bufferInfo(quantize.src).width;
  forRows(step, width * 4, [&](uint64_t row, uint32_t count) {
    parts.kernels.quantizeRows(src.floats(row), src.stride(), count, width,
                               step.quantized(quantize.dst, row));
  });
}

Status Executor::executeLinears(Step &step, std::span<const LinearInstruction> linears) {
  std::array<Product, kMostTogether> products;
  for (size_t i = 0; i < linears.size(); ++i) {
    const Rows dst = step.buffer(linears[i].dst);
    products[i] = {&parts.weights.weight(linears[i].weight), dst.floats(), dst.stride(), 0,
                   step.rows()};
  }
  multiply(step, {products.data(), linears.size()}, linears.front().src);
  for (const LinearInstruction &linear : linears) {
    if (const ImportanceMeter *measuring = meter())
      measuring->measureRouterInput(step, linear);
    if (linear.bias == kNone)
      continue;
    const Rows dst = step.buffer(linear.dst);
    parts.kernels.addBias(dst.floats(), dst.stride(), vector(linear.bias), step.rows(),
                          parts.weights.weight(linear.weight).shape.rows, dst.floats(),
                          dst.stride());
  }
  return {};
}

void Executor::execute(Step &step, const LinearHeadsInstruction &linear) {
  const WeightView &w = parts.weights.weight(linear.weight);
  const Rows src = step.buffer(linear.src), dst = step.buffer(linear.dst);
  const HeadProducts products = {parts.kernels, w,
                                 linear.heads,  linear.kept,
                                 src.floats(),  src.stride(),
                                 dst.floats(),  dst.stride(),
                                 step.rows()};
  products.keep();
  if (!w.layout.isPanels)
    return products.multiplyRows();
  parts.threads.run(w.layout.panels, grainFor(uint64_t(kPanelRows) * w.shape.cols * step.rows()),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      products.multiply(static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
                    });
}

void Executor::execute(Step &step, const ActivateInstruction &activate) {
  const Rows gate = step.buffer(activate.gate), up = step.buffer(activate.up),
             dst = step.buffer(activate.dst);
  const uint32_t width = step.bufferInfo(activate.gate).width;
  forRows(step, width * 16, [&](uint64_t row, uint32_t count) {
    moert::activate(parts.kernels, activate, gate.floats(row), up.floats(row), count, width,
                    gate.stride(), dst.floats(row));
  });
}

void Executor::execute(Step &step, const AddInstruction &add) {
  const Rows a = step.buffer(add.a), b = step.buffer(add.b), dst = step.buffer(add.dst);
  const uint32_t width = step.bufferInfo(add.dst).width;
  for (uint32_t row = 0; row < step.rows(); ++row)
    parts.kernels.addScaled(a.floats(row), b.floats(row), add.scale, width, dst.floats(row));
}

void Executor::execute(Step &step, const ScaleInstruction &scale) {
  const Rows src = step.buffer(scale.src), dst = step.buffer(scale.dst);
  const float *weight = vector(scale.weight);
  const float factor = weight ? scale.factor * *weight : scale.factor;
  for (uint32_t row = 0; row < step.rows(); ++row)
    parts.kernels.scale(src.floats(row), factor, step.bufferInfo(scale.dst).width, dst.floats(row));
}

void Executor::execute(Step &step, const ClampInstruction &clamp) {
  const Rows x = step.buffer(clamp.buffer);
  for (uint32_t row = 0; row < step.rows(); ++row)
    parts.kernels.clamp(clamp.limit, step.bufferInfo(clamp.buffer).width, x.floats(row));
}

void Executor::scaleByPeriods(Step &step, const PeriodOperands &scale, uint32_t ahead) {
  const Rows x = step.buffer(scale.buffer);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const uint64_t periods = (uint64_t(step.batch[row].position) + ahead) / scale.period;
    const auto factor = static_cast<float>(
        1 + double(scale.scale) * deterministicLog(1 + static_cast<double>(periods)));
    parts.kernels.scale(x.floats(row), factor, step.bufferInfo(scale.buffer).width, x.floats(row));
  }
}

void Executor::execute(Step &step, const ScaleInputInstruction &scale) {
  const Rows src = step.buffer(scale.src), dst = step.buffer(scale.dst),
             weights = step.buffer(scale.weights);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const float factor = std::exchange(*weights.floats(row), 1.0f);
    parts.kernels.scale(src.floats(row), factor, step.bufferInfo(scale.src).width, dst.floats(row));
  }
}

void Executor::execute(Step &step, const ScaleRowsInstruction &scale) {
  const Rows src = step.buffer(scale.src), factor = step.buffer(scale.factor),
             dst = step.buffer(scale.dst);
  const uint32_t heads = step.bufferInfo(scale.factor).width,
                 width = step.bufferInfo(scale.src).width / heads;
  for (uint32_t row = 0; row < step.rows(); ++row)
    for (uint32_t head = 0; head < heads; ++head)
      parts.kernels.scale(src.floats(row) + head * width, factor.floats(row)[head], width,
                          dst.floats(row) + head * width);
}

void Executor::execute(Step &step, const GateRowsInstruction &gate) {
  const Rows src = step.buffer(gate.src), factor = step.buffer(gate.gate),
             dst = step.buffer(gate.dst);
  const uint32_t width = step.bufferInfo(gate.src).width, heads = step.bufferInfo(gate.gate).width;
  if (heads == 1)
    return parts.kernels.gateRows(src.floats(), factor.floats(), factor.stride(), step.rows(),
                                  width, src.stride(), dst.floats());
  for (uint32_t row = 0; row < step.rows(); ++row)
    parts.kernels.gateRows(src.floats(row), factor.floats(row), 1, heads, width / heads,
                           width / heads, dst.floats(row));
}

Status Executor::execute(Step &step, const RouteInstruction &route) {
  MOERT_RETURN_IF_ERROR(bringToHost(step, route.scores));
  const uint32_t topK = step.bufferInfo(route.experts).width;
  const Router router = routerOf(route);
  ImportanceMeter *const measuring = meter();
  const MaskExpertsInstruction *const mask = std::exchange(masked, nullptr);
  const Rows scores = step.buffer(route.scores), experts = step.buffer(route.experts),
             weights = step.buffer(route.weights);
  if (step.isLossy)
    parts.misses->beginLayer(parts.experts, route.moeLayer);
  if (measuring)
    measuring->beginLayer();
  for (uint32_t row = 0; row < step.rows(); ++row) {
    router.computeProbabilities(scores.floats(row), probabilities.data());
    const std::span<int32_t> best(experts.integers(row), topK);
    const std::span<float> factors(weights.floats(row), topK);
    router.choose(probabilities.data(), best, factors);
    if (mask && !step.isLossy)
      orderAsListed(step, *mask, row, best, factors);
    if (measuring)
      measuring->add(step, route, row);
    if (step.isLossy)
      parts.misses->decide(step, parts.experts, route, router, row, probabilities.data());
    if (!isLimited[route.moeLayer])
      reportRoute(step, route, row);
  }
  rememberChosen(step, route);
  step.routed = &route;
  return {};
}

Status Executor::multiplyHead(Step &step, const HeadInstruction &head, uint32_t firstRow,
                              uint32_t count) {
  multiply(step, parts.weights.weight(head.weight), head.src, firstRow, count, step.logitsRow(0),
           step.logitsStride);
  return {};
}

std::span<const float> Executor::listedExperts(const Step &step, const MaskExpertsInstruction &mask,
                                               uint32_t row) {
  const WeightView &table = parts.weights.weight(mask.table);
  parts.kernels.gatherRow(table, static_cast<uint32_t>(step.batch[row].token), 1, listed.data());
  return {listed.data(), table.shape.cols};
}

void Executor::orderAsListed(const Step &step, const MaskExpertsInstruction &mask, uint32_t row,
                             std::span<int32_t> experts, std::span<float> weights) {
  const std::span<const float> own = listedExperts(step, mask, row);
  for (size_t i = 0; i < std::min(own.size(), experts.size()); ++i) {
    const auto found = std::find_if(experts.begin() + ptrdiff_t(i), experts.end(),
                                    [&](int32_t e) { return static_cast<float>(e) == own[i]; });
    if (found == experts.end())
      continue;
    std::swap(weights[i], weights[static_cast<size_t>(found - experts.begin())]);
    std::swap(experts[i], *found);
  }
}

void Executor::execute(Step &step, const MaskExpertsInstruction &mask) {
  masked = &mask;
  const uint32_t width = step.bufferInfo(mask.scores).width;
  const Rows scores = step.buffer(mask.scores);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const std::span<const float> own = listedExperts(step, mask, row);
    for (uint32_t expert = 0; expert < width; ++expert)
      if (std::find(own.begin(), own.end(), static_cast<float>(expert)) == own.end())
        scores.floats(row)[expert] = std::numeric_limits<float>::lowest();
  }
}

void Executor::reportRoute(const Step &step, const RouteInstruction &route, uint32_t row) const {
  const uint32_t ranks = ranksOf(step, row, step.bufferInfo(route.experts).width);
  step.observer->onRoute(*step.tokenOf(row).session, route.moeLayer, step.positionOf(row),
                         {step.buffer(route.experts).integers(row), ranks},
                         {step.buffer(route.weights).floats(row), ranks});
}

void Executor::execute(Step &step, const CapacityInstruction &limit) {
  const Rows experts = step.buffer(limit.experts), weights = step.buffer(limit.weights),
             passed = step.buffer(limit.passed);
  const size_t expertCount = parts.artifact.moeLayers[limit.moeLayer].experts.size();
  // The rows of a sequence follow each other. The pairs of experts are not grouped yet.
  for (uint32_t row = 0, end = 0; row < step.rows(); row = end) {
    while (end < step.rows() && step.tokenOf(end).session == step.tokenOf(row).session)
      ++end;
    applyCapacity(limit,
                  {end - row, step.bufferInfo(limit.experts).width, experts.integers(row),
                   weights.floats(row), passed.floats(row), weights.stride(), passed.stride()},
                  std::span(places).first(expertCount), step.expertRows);
  }
  for (uint32_t row = 0; row < step.rows(); ++row)
    reportRoute(step, *step.routed, row);
}

// Runs of consecutive rows whose logits are requested, at most the step's rows of logits at a time.
Status Executor::execute(Step &step, const HeadInstruction &head) {
  const uint32_t vocabulary = parts.weights.weight(head.weight).shape.rows;
  for (uint32_t row = 0; row < step.rows();) {
    uint32_t count = 0;
    while (row + count < step.rows() && count < step.shape().logitsRows &&
           step.batch[row + count].wantsLogits)
      ++count;
    if (count == 0) {
      ++row;
      continue;
    }
    MOERT_RETURN_IF_ERROR(multiplyHead(step, head, row, count));
    float *y = step.logitsRow(0);
    if (head.bias != kNone)
      parts.kernels.addBias(y, step.logitsStride, vector(head.bias), count, vocabulary, y,
                            step.logitsStride);
    for (uint32_t i = 0; i < count; ++i) {
      float *values = step.logitsRow(i);
      if (head.scale != 1)
        parts.kernels.scale(values, head.scale, vocabulary, values);
      if (head.softCap > 0)
        parts.kernels.softCap(head.softCap, vocabulary, values);
      const BatchRow &of = step.batch[row + i];
      MOERT_RETURN_IF_ERROR(
          step.observer->onLogits(*of.session, of.position, {values, vocabulary}));
    }
    row += count;
  }
  return {};
}

Status Executor::submit(Step &step, std::span<const Instruction> joined,
                        LayerProfile &layerProfile) {
  Status status;
  visitInstruction(joined.front(), [&](const auto &instruction) {
    using Kind = std::decay_t<decltype(instruction)>;
    if constexpr (std::is_same_v<Kind, LinearInstruction>) {
      std::array<LinearInstruction, kMostTogether> linears{};
      for (size_t i = 0; i < joined.size(); ++i)
        linears[i] = std::get<LinearInstruction>(joined[i]);
      status = executeLinears(step, std::span(linears).first(joined.size()));
    } else if constexpr (std::is_same_v<Kind, PredictInstruction>) {
      status = executePredicts(step, joined);
    } else if constexpr (std::is_same_v<Kind, ExpertsInstruction>) {
      status = executeExperts(step, instruction, layerProfile);
    } else if constexpr (std::is_same_v<Kind, HeadInstruction> ||
                         std::is_same_v<Kind, RouteInstruction>) {
      status = execute(step, instruction);
    } else {
      execute(step, instruction);
    }
  });
  return status;
}

void Executor::countTime(Step &step, std::span<const Instruction> joined,
                         uint64_t computeNs) const {
  auto bytesOf = [&](const Instruction &instruction) -> uint64_t {
    const auto *linear = std::get_if<LinearInstruction>(&instruction);
    return linear ? parts.artifact.residents[static_cast<size_t>(linear->weight)].bytes : 0;
  };
  uint64_t left = 0;
  for (const Instruction &instruction : joined)
    left += bytesOf(instruction);
  // Where there are no products, the first instruction gets all of the time.
  for (const Instruction &instruction : joined) {
    const uint64_t bytes = bytesOf(instruction);
    const uint64_t own = partOfTime(computeNs, bytes, left);
    step.partNs[static_cast<size_t>(partOf(instruction))] += own;
    computeNs -= own;
    left -= bytes;
  }
}

Executor::CacheTime Executor::cacheTime() const {
  const ExpertCache &cache = parts.experts.cache();
  CacheTimes total = cache.totalTimes();
  total += areExpertsOpen ? cache.passTimes() : CacheTimes();
  return {total.waitNs, total.verifyNs, cache.submitNs()};
}

/// Whether the time of the instruction at `begin` counts for the same part and layer as that of the
/// instruction at `end`. Each reading of the clock takes time itself.
static bool isCountedWithNext(const Program &program, size_t begin, size_t end) {
  return end == begin + 1 && end < program.instructions.size() &&
         program.layers[begin] == program.layers[end] &&
         partOf(program.instructions[begin]) == partOf(program.instructions[end]) &&
         !(end + 1 < program.instructions.size() && isJoined(program.instructions[end + 1]));
}

Status Executor::run(Step &step) {
  const Program &program = *step.program;
  const std::span<const Instruction> instructions = program.instructions;
  ExpertCache &cache = parts.experts.cache();
  masked = nullptr;
  areExpertsOpen = false; // A failed step may have left some; their layer pass is over.
  uint64_t begun = monotonicNs();
  CacheTime before = cacheTime();
  size_t timed = 0; // The first instruction whose time is not counted yet.
  const ReadTimes readsBefore = cache.readTimes();
  MOERT_RETURN_IF_ERROR(beginStep(step));
  for (size_t i = 0, end = 0; i < instructions.size(); i = end) {
    for (end = i + 1; end < instructions.size() && isJoined(instructions[end]);)
      ++end;
    const std::span<const Instruction> joined = instructions.subspan(i, end - i);
    const int32_t layer = program.layers[i];
    LayerProfile &entry =
        layer == kNone ? step.profile.back() : step.profile[static_cast<size_t>(layer)];
    MOERT_RETURN_IF_ERROR(submit(step, joined, entry));
    if (beginsReads(joined.back()))
      MOERT_RETURN_IF_ERROR(beginExperts(step, step.routed->moeLayer, step.routed->experts));
    MOERT_RETURN_IF_ERROR(cache.advance());
    if (isCountedWithNext(program, i, end))
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
    step.partNs[static_cast<size_t>(StepPart::kChecksums)] += checks;
    step.partNs[static_cast<size_t>(StepPart::kRequests)] += requests;
    countTime(step, instructions.subspan(timed, end - timed), computeNs - checks - requests);
    timed = end;
    begun = now;
    before = after;
  }
  const ReadTimes &reads = cache.readTimes();
  step.reads = {reads.reads - readsBefore.reads, reads.busyNs - readsBefore.busyNs,
                reads.underWayNs - readsBefore.underWayNs};
  return endStep(step);
}

} // namespace moert
