// Runs all measurements of moert probe, interleaved so that a disturbance does not spoil all
// samples of one kind.
#pragma once

#include "tools/moert/probe/DeviceYaml.h"
#include "tools/moert/probe/ProbeFile.h"

namespace moert::probe {

/// Planned duration of probeMachine().
uint64_t plannedMachineNs();

/// Measures disk and processor in turn, kRounds times, and writes the rates to the report. Uses
/// kProbeMemoryBytes (ProbeReader.h) and the memory of a Processor.
Status probeMachine(ProbeRun &run, const ProbeFile &file, const KernelTable &kernels,
                    uint32_t threads, DeviceReport &report);

} // namespace moert::probe
