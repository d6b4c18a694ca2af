// Executes a program on a device: resident weights, buffers, keys and values, logits and experts
// are in its memory. The router's choice, predictions and what is done with logits are the host's,
// from scores and logits that are copied back. Every result has the host's bits.
#pragma once

#include "runtime/engine/DeviceBackend.h"
#include "runtime/engine/device/Device.h"
#include "runtime/engine/device/DeviceAccount.h"
#include "runtime/engine/device/DeviceExperts.h"
#include "runtime/exec/cuda/KernelList.h"

#include <memory>
#include <span>
#include <vector>

namespace moert {

class DeviceExecutor final : public BackendExecutor {
public:
  /// DeviceBackend::createExecutor().
  static Result<std::unique_ptr<BackendExecutor>> create(const ExecutorParts &parts,
                                                         const device::DeviceFunctions &device,
                                                         const MemoryAccount &onDevice, Step &step);
  ~DeviceExecutor() override;

  /// Whether there are kernels for it.
  static bool isOnDevice(const Instruction &instruction);

  Status submit(Step &step, std::span<const Instruction> joined,
                LayerProfile &layerProfile) override;

  Status restart() override;
  Result<std::unique_ptr<DeviceMemory>> allocateSequence(uint32_t tokens) override;
  Status copyPrefix(const SequenceMemory &from, SequenceMemory &to, uint32_t tokens) override;

private:
  class ExpertTasks;

  DeviceExecutor(const ExecutorParts &executorParts, const device::DeviceFunctions &device,
                 const MemoryAccount &onDevice, Step &step);
  Status takeMemory();
  Status loadWeights();

  Status beginStep(Step &step) override;
  Status endStep(Step &) override { return finish(); }
  Status executeLinears(Step &step, std::span<const LinearInstruction> linears) override;
  Status bringToHost(Step &step, int32_t buffer) override;
  Status multiplyHead(Step &step, const HeadInstruction &head, uint32_t firstRow,
                      uint32_t count) override;
  Status beginExperts(Step &step, uint32_t moeLayer, int32_t experts) override;
  Status executeExperts(Step &step, const ExpertsInstruction &experts,
                        LayerProfile &layerProfile) override;

  Status launch(const Step &step, const EmbedInstruction &embed);
  Status launch(const Step &step, const NormInstruction &norm);
  Status launch(const Step &step, const QuantizeInstruction &quantize);
  Status launch(const Step &step, const RopeInstruction &instruction);
  Status launch(const Step &step, const StoreKvInstruction &store);
  Status launch(const Step &step, const AttendInstruction &attend);
  Status launch(const Step &step, const ActivateInstruction &activate);
  Status launch(const Step &step, const AddInstruction &add);
  Status launch(const Step &step, const ScaleInstruction &scale);
  Status launch(const Step &step, const GateRowsInstruction &gate);
  template <typename Kernel> Status submitKernel(const Kernel &kernel) {
    constexpr uint32_t kNumber = device::AllKernels::numberOf<Kernel>();
    return gpu.launch(kNumber, &kernel, sizeof kernel, kernel.blocks());
  }

  Status multiply(const Step &step, int32_t source, std::span<const device::Product> products);
  /// Demands the experts that have pages on the device from the cache below.
  Status demandBelow(const Step &step, uint32_t moeLayer);
  /// Takes what was demanded there, and computes it as it arrives.
  Status takeFromBelow(Step &step, ExpertTasks &tasks);
  /// Computes the experts that the device has.
  Status computeReady(Step &step, ExpertTasks &tasks);
  /// Waits for all work of the compute stream.
  Status finish();

  /// A place of the step's arena in that of the device.
  template <typename T> T *onDevice(T *place) const {
    return reinterpret_cast<T *>(
        arena.data() + (reinterpret_cast<const std::byte *>(place) - hostStep.memory.arena.data()));
  }
  Rows rowsOf(const Step &step, int32_t buffer) const;
  QuantizedRows quantizedOf(const Step &step, int32_t buffer, uint64_t firstRow = 0) const;
  const float *vectorOnDevice(int32_t index) const;
  device::Slot slotOf(uint32_t index) const;

  Device gpu;
  const MemoryAccount account;
  Step &hostStep;
  std::vector<device::Matrix> matrices; // Resident weights, in the device's memory.
  DeviceRegion weights, weightPages, arena, logits, scratch, tokens, pairs;
  std::vector<CacheLayer> cacheLayers;
  std::unique_ptr<DeviceExperts> tier;
  std::vector<device::TokenRow> hostTokens; // Those of the step; copied to `tokens`.
  std::vector<uint32_t> hostPairs; // Those of the layer, in the order of their computation.
  size_t pairCount = 0;
  // What is demanded of the cache below: indices in the demand of the layer pass, experts, uses.
  std::vector<uint32_t> below, belowWanted, belowUses;
};

} // namespace moert
