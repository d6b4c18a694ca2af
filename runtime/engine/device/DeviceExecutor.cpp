#include "runtime/engine/device/DeviceExecutor.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/engine/Footprint.h"
#include "runtime/exec/Hadamard.h"
#include "runtime/memory/EngineMemory.h"

#include <array>

namespace moert {

using device::kComputeStream;

//===-- Making --------------------------------------------------------------------------------===//

DeviceExecutor::DeviceExecutor(const ExecutorParts &executorParts,
                               const device::DeviceFunctions &device,
                               const MemoryAccount &onDeviceAccount, Step &step)
    : BackendExecutor(executorParts), gpu(device, onDeviceAccount.totalBytes()),
      account(onDeviceAccount), hostStep(step), hostTokens(step.shape().tokens),
      hostPairs(step.shape().tokens * largestTopK(executorParts.artifact)) {
  for (std::vector<uint32_t> *list : {&below, &belowWanted, &belowUses})
    list->reserve(mostExpertsOf(executorParts.artifact));
  for (std::span<const std::byte> memory :
       {std::span<const std::byte>(step.memory.arena.span()), std::as_bytes(std::span(hostTokens)),
        std::as_bytes(std::span(hostPairs)), std::span<const std::byte>(step.memory.logits.span()),
        parts.experts.poolMemory()})
    gpu.pin(memory);
}

DeviceExecutor::~DeviceExecutor() {
  (void)finish();
  for (std::span<const std::byte> memory :
       {std::span<const std::byte>(hostStep.memory.arena.span()),
        std::as_bytes(std::span(hostTokens)), std::as_bytes(std::span(hostPairs)),
        std::span<const std::byte>(hostStep.memory.logits.span()), parts.experts.poolMemory()})
    gpu.unpin(memory);
}

Result<std::unique_ptr<BackendExecutor>>
DeviceExecutor::create(const ExecutorParts &parts, const device::DeviceFunctions &device,
                       const MemoryAccount &onDevice, Step &step) {
  std::unique_ptr<DeviceExecutor> made(new DeviceExecutor(parts, device, onDevice, step));
  MOERT_RETURN_IF_ERROR(made->takeMemory());
  MOERT_RETURN_IF_ERROR(made->loadWeights());
  MOERT_RETURN_IF_ERROR(made->restart());
  return std::unique_ptr<BackendExecutor>(std::move(made));
}

Status DeviceExecutor::takeMemory() {
  const DeviceNeeds needs = deviceNeedsOf(parts.artifact, account);
  struct Taken {
    DeviceRegion &region;
    const char *owner;
    uint64_t bytes;
  };
  for (const Taken &taken : {Taken{weights, owners::kWeights, needs.weights},
                             {weightPages, owners::kWeights, needs.weightPages},
                             {arena, owners::kActivations, needs.arena},
                             {scratch, owners::kActivations, needs.scratch},
                             {tokens, owners::kActivations, needs.tokens},
                             {pairs, owners::kActivations, needs.pairs},
                             {logits, owners::kLogits, needs.logits}}) {
    MOERT_ASSIGN_OR_RETURN(taken.region, gpu.allocate(taken.owner, taken.bytes));
  }
  return {};
}

Status DeviceExecutor::loadWeights() {
  std::vector<const std::byte *> pages;
  for (size_t i = 0; i < parts.artifact.residents.size(); ++i) {
    WeightView view = parts.weights.weight(static_cast<int32_t>(i));
    pages.push_back(weights.data() + (view.bytes.at(0) - parts.weights.memory().data()));
    view.bytes = PagedBytes::contiguous(weightPages.as<const std::byte *const>() + i);
    matrices.emplace_back(view);
  }
  MOERT_RETURN_IF_ERROR(gpu.copy(kComputeStream, weights.data(), parts.weights.memory().data(),
                                 parts.artifact.residentBytes));
  MOERT_RETURN_IF_ERROR(gpu.copy(kComputeStream, weightPages.data(), pages.data(),
                                 pages.size() * sizeof(std::byte *)));
  return finish();
}

Status DeviceExecutor::restart() {
  const Artifact &artifact = parts.artifact;
  const CacheShape shape = cacheShapeOf(artifact);
  const CacheAllotment allotment = allotCache(shape, account.poolPages);
  cacheLayers.clear();
  for (uint32_t i = 0; i < artifact.moeLayers.size(); ++i)
    cacheLayers.push_back(
        {artifact.moeLayers[i].layer, parts.experts.layer(i).records, allotment.quotaPages[i]});
  CacheConfig config;
  config.pageBytes = artifact.pageBytes;
  config.layers = cacheLayers;
  config.stagingPages = allotment.stagingPages;
  tier.reset();
  MOERT_ASSIGN_OR_RETURN(DeviceRegion lists,
                         gpu.allocate("page lists", DeviceExperts::listBytes(shape)));
  MOERT_ASSIGN_OR_RETURN(DeviceRegion pool, gpu.allocate(owners::kExpertCache,
                                                         account.poolPages * artifact.pageBytes));
  tier = std::make_unique<DeviceExperts>(gpu, config, std::move(pool), account.poolPages,
                                         std::move(lists));
  return {};
}

//===-- Sequences -----------------------------------------------------------------------------===//

Result<std::unique_ptr<DeviceMemory>> DeviceExecutor::allocateSequence(uint32_t count) {
  MOERT_ASSIGN_OR_RETURN(DeviceRegion region,
                         gpu.allocate(owners::kKvCache, kvBytesPerToken(parts.artifact) * count));
  return std::unique_ptr<DeviceMemory>(std::make_unique<DeviceRegion>(std::move(region)));
}

Status DeviceExecutor::copyPrefix(const SequenceMemory &from, SequenceMemory &to, uint32_t count) {
  uint64_t bytesBefore = 0; // What a token takes.
  const auto copyHeads = [&](uint32_t heads, uint64_t rowBytes) -> Status {
    for (uint32_t head = 0; head < heads; ++head, bytesBefore += rowBytes)
      MOERT_RETURN_IF_ERROR(
          gpu.copy(kComputeStream, to.onDevice->data() + bytesBefore * to.capacity,
                   from.onDevice->data() + bytesBefore * from.capacity, rowBytes * count));
    return {};
  };
  for (const KvSlot &slot : parts.artifact.kvSlots) {
    MOERT_RETURN_IF_ERROR(copyHeads(slot.kvHeads, slot.keyRowBytes()));
    MOERT_RETURN_IF_ERROR(copyHeads(slot.kvHeads, slot.valueRowBytes()));
  }
  MOERT_RETURN_IF_ERROR(finish());
  to.length = count;
  return {};
}

//===-- Steps ---------------------------------------------------------------------------------===//

Rows DeviceExecutor::rowsOf(const Step &step, int32_t buffer) const {
  const Rows rows = step.buffer(buffer);
  return {onDevice(rows.data), rows.bytesPerRow};
}

QuantizedRows DeviceExecutor::quantizedOf(const Step &step, int32_t buffer,
                                          uint64_t firstRow) const {
  QuantizedRows rows = step.quantized(buffer, firstRow);
  rows.codes = onDevice(rows.codes);
  rows.scales = onDevice(rows.scales);
  rows.sums = onDevice(rows.sums);
  return rows;
}

const float *DeviceExecutor::vectorOnDevice(int32_t index) const {
  const float *const onHost = vector(index);
  return onHost ? reinterpret_cast<const float *>(
                      weights.data() +
                      (reinterpret_cast<const std::byte *>(onHost) - parts.weights.memory().data()))
                : nullptr;
}

device::Slot DeviceExecutor::slotOf(uint32_t index) const {
  const KvSlot &slot = parts.artifact.kvSlots[index];
  device::Slot made = {slot.kind, slot.kvHeads, slot.keyDim, slot.valueDim, 0};
  for (uint32_t before = 0; before < index; ++before)
    made.bytesBefore += parts.artifact.kvSlots[before].bytes();
  return made;
}

Status DeviceExecutor::finish() {
  MOERT_RETURN_IF_ERROR(gpu.record(kComputeStream, deviceEvents::kFinished));
  return gpu.finish(deviceEvents::kFinished);
}

Status DeviceExecutor::beginStep(Step &step) {
  // A step that failed may have left copies from pages that the cache is free to reuse.
  MOERT_RETURN_IF_ERROR(gpu.finish(deviceEvents::kCopied));
  MOERT_RETURN_IF_ERROR(finish());
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const BatchRow &of = step.batch[row];
    hostTokens[row] = {of.session->memory.onDevice->data(), of.session->memory.capacity,
                       of.position, of.token};
  }
  MOERT_RETURN_IF_ERROR(gpu.copy(kComputeStream, tokens.data(), hostTokens.data(),
                                 step.rows() * sizeof(device::TokenRow)));
  if (parts.artifact.ropes.empty())
    return {};
  const float *const tables = step.ropeTableOf(0, 0);
  const auto bytes =
      static_cast<uint64_t>(step.ropeTableOf(step.rows(), 0) - tables) * sizeof(float);
  return gpu.copy(kComputeStream, const_cast<float *>(onDevice(tables)), tables, bytes);
}

Status DeviceExecutor::bringToHost(Step &step, int32_t buffer) {
  const Rows rows = step.buffer(buffer);
  MOERT_RETURN_IF_ERROR(
      gpu.copy(kComputeStream, rows.data, onDevice(rows.data), rows.bytesPerRow * step.rows()));
  return finish();
}

/// Instructions that Executor::submit() executes on a device, by what DeviceExecutor overrides.
template <typename Kind>
constexpr bool isDivided =
    std::is_same_v<Kind, LinearInstruction> || std::is_same_v<Kind, RouteInstruction> ||
    std::is_same_v<Kind, PredictInstruction> || std::is_same_v<Kind, ExpertsInstruction> ||
    std::is_same_v<Kind, HeadInstruction>;

bool DeviceExecutor::isOnDevice(const Instruction &instruction) {
  bool isFound = false;
  visitInstruction(instruction, [&]<typename Kind>(const Kind &kind) {
    isFound = isDivided<Kind> || requires(DeviceExecutor & executor, const Step &step) {
      executor.launch(step, kind);
    };
  });
  return isFound;
}

Status DeviceExecutor::submit(Step &step, std::span<const Instruction> joined,
                              LayerProfile &layerProfile) {
  Status status;
  visitInstruction(joined.front(), [&]<typename Kind>(const Kind &instruction) {
    if constexpr (isDivided<Kind>)
      status = Executor::submit(step, joined, layerProfile);
    else if constexpr (requires { launch(step, instruction); })
      status = launch(step, instruction);
  });
  return status;
}

//===-- Instructions --------------------------------------------------------------------------===//

Status DeviceExecutor::multiply(const Step &step, int32_t source,
                                std::span<const device::Product> products) {
  device::ProductList panels, outputs;
  for (const device::Product &product : products) {
    device::ProductList &list = product.m.w.layout.isPanels ? panels : outputs;
    list.products[list.count++] = product;
  }
  if (isQuantized(step.bufferInfo(source).kind))
    return submitKernel(device::QuantizedProducts{panels, quantizedOf(step, source)});
  const Rows x = rowsOf(step, source);
  MOERT_RETURN_IF_ERROR(submitKernel(device::FloatProducts{panels, x.floats(), x.stride()}));
  return submitKernel(device::RowProducts{outputs, x.floats(), x.stride()});
}

Status DeviceExecutor::executeLinears(Step &step, std::span<const LinearInstruction> linears) {
  std::array<device::Product, kMostTogether> products;
  for (size_t i = 0; i < linears.size(); ++i) {
    const Rows dst = rowsOf(step, linears[i].dst);
    products[i] = {matrices[static_cast<size_t>(linears[i].weight)],
                   vectorOnDevice(linears[i].bias),
                   dst.floats(),
                   dst.stride(),
                   0,
                   step.rows()};
  }
  return multiply(step, linears.front().src, std::span(products).first(linears.size()));
}

Status DeviceExecutor::multiplyHead(Step &step, const HeadInstruction &head, uint32_t firstRow,
                                    uint32_t count) {
  const device::Product product = {matrices[static_cast<size_t>(head.weight)],
                                   nullptr,
                                   logits.as<float>(),
                                   step.logitsStride,
                                   firstRow,
                                   count};
  MOERT_RETURN_IF_ERROR(multiply(step, head.src, {&product, 1}));
  MOERT_RETURN_IF_ERROR(gpu.copy(kComputeStream, step.logitsRow(0), logits.data(),
                                 step.logitsStride * count * sizeof(float)));
  return finish();
}

Status DeviceExecutor::launch(const Step &step, const EmbedInstruction &embed) {
  const Rows dst = rowsOf(step, embed.dst);
  return submitKernel(device::EmbedRows{matrices[static_cast<size_t>(embed.weight)],
                                        tokens.as<device::TokenRow>(), step.rows(), embed.scale,
                                        dst.floats(), dst.stride()});
}

Status DeviceExecutor::launch(const Step &step, const NormInstruction &norm) {
  const Rows src = rowsOf(step, norm.src), dst = rowsOf(step, norm.dst);
  return submitKernel(device::NormRows{norm.kind, src.floats(), src.stride(), step.rows(),
                                       step.bufferInfo(norm.src).width, norm.segment,
                                       vectorOnDevice(norm.weight), vectorOnDevice(norm.bias),
                                       norm.epsilon, dst.floats(), dst.stride()});
}

Status DeviceExecutor::launch(const Step &step, const QuantizeInstruction &quantize) {
  const Rows src = rowsOf(step, quantize.src);
  const QuantizedRows dst = quantizedOf(step, quantize.dst);
  return submitKernel(device::QuantizeRows{src.floats(), src.stride(), step.rows(),
                                           step.bufferInfo(quantize.src).width, dst,
                                           hadamardInputFactor(dst.hadamardBlock)});
}

Status DeviceExecutor::launch(const Step &step, const RopeInstruction &instruction) {
  const Rope &rope = parts.artifact.ropes[instruction.rope];
  const Rows x = rowsOf(step, instruction.buffer);
  const float *const table = step.ropeTableOf(0, instruction.rope);
  const auto count = static_cast<uint32_t>(rope.inverseFrequencies.size());
  return submitKernel(device::RotateRows{
      x.floats(), x.stride(), onDevice(table),
      static_cast<uint64_t>(step.ropeTableOf(1, instruction.rope) - table), step.rows(),
      instruction.heads, instruction.headDim, count, static_cast<uint32_t>(roundUp(count, 16)),
      rope.style == RopeStyle::kInterleaved});
}

Status DeviceExecutor::launch(const Step &step, const StoreKvInstruction &store) {
  const Rows keys = rowsOf(step, store.key), values = rowsOf(step, store.value);
  return submitKernel(device::StoreKeysAndValues{slotOf(store.slot), tokens.as<device::TokenRow>(),
                                                 keys.floats(), values.floats(), keys.stride(),
                                                 values.stride(), step.rows()});
}

Status DeviceExecutor::launch(const Step &step, const AttendInstruction &attend) {
  const Rows query = rowsOf(step, attend.query), dst = rowsOf(step, attend.dst);
  return submitKernel(device::AttendRows{
      slotOf(attend.slot), tokens.as<device::TokenRow>(), query.floats(), query.stride(),
      step.rows(), attend.heads, attend.window, attend.chunked, attend.scale,
      vectorOnDevice(attend.sinks), dst.floats(), dst.stride(), scratch.as<float>(),
      attendScratchFloats(parts.artifact, step.shape().contextTokens), kAttendBlocks});
}

Status DeviceExecutor::launch(const Step &step, const ActivateInstruction &activate) {
  const Rows gate = rowsOf(step, activate.gate), up = rowsOf(step, activate.up),
             dst = rowsOf(step, activate.dst);
  return submitKernel(device::ActivateRows{activate, gate.floats(), up.floats(), gate.stride(),
                                           step.rows(), step.bufferInfo(activate.gate).width,
                                           dst.floats()});
}

Status DeviceExecutor::launch(const Step &step, const AddInstruction &add) {
  const Rows a = rowsOf(step, add.a), b = rowsOf(step, add.b), dst = rowsOf(step, add.dst);
  return submitKernel(device::AddRows{a.floats(), b.floats(), a.stride(), b.stride(), dst.stride(),
                                      add.scale, step.rows(), step.bufferInfo(add.dst).width,
                                      dst.floats()});
}

Status DeviceExecutor::launch(const Step &step, const ScaleInstruction &scale) {
  const Rows src = rowsOf(step, scale.src), dst = rowsOf(step, scale.dst);
  const float *const weight = vector(scale.weight);
  const float factor = weight ? scale.factor * *weight : scale.factor;
  return submitKernel(device::AddRows{nullptr, src.floats(), 0, src.stride(), dst.stride(), factor,
                                      step.rows(), step.bufferInfo(scale.dst).width, dst.floats()});
}

Status DeviceExecutor::launch(const Step &step, const GateRowsInstruction &gate) {
  const Rows src = rowsOf(step, gate.src), factor = rowsOf(step, gate.gate),
             dst = rowsOf(step, gate.dst);
  return submitKernel(device::GateHeads{
      src.floats(), factor.floats(), src.stride(), factor.stride(), dst.stride(), step.rows(),
      step.bufferInfo(gate.src).width, step.bufferInfo(gate.gate).width, dst.floats()});
}

} // namespace moert
