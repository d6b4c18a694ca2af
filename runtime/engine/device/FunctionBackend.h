// The backend of a device whose functions are given.
#pragma once

#include "runtime/engine/device/DeviceAccount.h"
#include "runtime/engine/device/DeviceExecutor.h"

namespace moert {

class FunctionBackend final : public DeviceBackend {
public:
  explicit FunctionBackend(const device::DeviceFunctions &opened) : functions(opened) {}

  const char *name() const override { return functions.name; }
  Result<MemoryAccount> account(const Model &model, const EngineOptions &options,
                                const MemoryAccount &host) const override {
    return accountDevice(model, options, host, functions.name, functions.freeBytes);
  }
  Result<std::unique_ptr<BackendExecutor>> createExecutor(const ExecutorParts &parts,
                                                          const MemoryAccount &account,
                                                          Step &step) const override {
    return DeviceExecutor::create(parts, functions, account, step);
  }

private:
  const device::DeviceFunctions functions;
};

} // namespace moert
