// All that moert probe measures, in an order that a disturbance does not spoil one part of.
#pragma once

#include "tools/moert/probe/DeviceYaml.h"
#include "tools/moert/probe/ProbeFile.h"

namespace moert::probe {

/// What probeMachine() plans to take.
uint64_t plannedMachineNs();

/// Measures disk and processor in turn, kRounds times, and says in the report what they can do.
/// Takes kProbeMemoryBytes (ProbeReader.h) and what a Processor does.
Status probeMachine(ProbeRun &run, const ProbeFile &file, const KernelTable &kernels,
                    uint32_t threads, DeviceReport &report);

} // namespace moert::probe
