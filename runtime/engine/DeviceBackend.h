// A device that executes programs in the processor's place: what a library that is loaded at run
// time offers, or, in tests, an emulated device. Its implementation is runtime/engine/device.
//
// The library is built with the program, of the same classes, and compares their sizes.
#pragma once

#include "runtime/engine/Executor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace moert {

/// An executor whose buffers, and the keys and values of whose sequences, are on a device.
class BackendExecutor : public Executor {
public:
  using Executor::Executor;

  /// Forgets the experts on the device.
  virtual Status restart() = 0;
  /// The keys and values of a sequence, as SequenceMemory has them.
  virtual Result<std::unique_ptr<DeviceMemory>> allocateSequence(uint32_t tokens) = 0;
  /// SequenceMemory::copyPrefix() for what is on the device.
  virtual Status copyPrefix(const SequenceMemory &from, SequenceMemory &to, uint32_t tokens) = 0;
};

/// Outlives the engines that use it.
class DeviceBackend {
public:
  virtual ~DeviceBackend() = default;

  virtual const char *name() const = 0; // "NVIDIA H200"
  /// What an engine takes of the device's memory for a run with this account of the host's; the
  /// expert cache is the last item. A refusal names the instruction or the rule that devices do not
  /// have, or the smallest budget that works.
  virtual Result<MemoryAccount> account(const Model &model, const EngineOptions &options,
                                        const MemoryAccount &host) const = 0;
  /// Takes the memory of such an account. Resident weights were loaded, and the step's memory does
  /// not move.
  virtual Result<std::unique_ptr<BackendExecutor>>
  createExecutor(const ExecutorParts &parts, const MemoryAccount &account, Step &step) const = 0;
};

/// What the library exports as kOpenDeviceName: opens device `number`, from 0, for the rest of the
/// process. Returns null, or why it cannot be used: a text that stays.
using OpenDevice = const char *(*)(uint64_t version, uint32_t number, DeviceBackend **backend);
constexpr const char *kOpenDeviceName = "moertOpenDevice";

/// Differs where a class that both use does.
constexpr uint64_t kBackendVersion = [] {
  uint64_t version = 1; // The interface above has this one.
  for (size_t size : {sizeof(Executor), sizeof(ExecutorParts), sizeof(Step), sizeof(ExpertStore),
                      sizeof(ExpertCache), sizeof(ResidentWeights), sizeof(SequenceMemory),
                      sizeof(EngineOptions), sizeof(MemoryAccount), sizeof(Artifact), sizeof(Plan),
                      sizeof(Instruction), sizeof(WeightView)})
    version = version * 31 + size;
  return version;
}();

/// Opens GPU `number`, from 0, by the library beside the program, libmoert_cuda.so. The refusal
/// says in one sentence why it cannot be used. The library stays loaded, and the device open.
Result<DeviceBackend *> openCudaDevice(uint32_t number);

} // namespace moert
