#include "tools/moert/probe/MachineProbe.h"

namespace moert::probe {

uint64_t plannedMachineNs() {
  return DiskProbe::plannedNs() + ReuseProbe::plannedNs() + ContentionProbe::plannedNs() +
         ComputeProbe::plannedNs();
}

Status probeMachine(ProbeRun &run, const ProbeFile &file, const KernelTable &kernels,
                    uint32_t threads, DeviceReport &report) {
  MOERT_ASSIGN_OR_RETURN(ArtifactFile opened, file.open());
  MOERT_ASSIGN_OR_RETURN(HostRegion memory, HostRegion::create(kProbeMemoryBytes));
  MOERT_ASSIGN_OR_RETURN(Processor processor, Processor::create(kernels, threads));
  MOERT_ASSIGN_OR_RETURN(DiskProbe disk, DiskProbe::create(run, file, opened, memory));
  ReuseProbe reuse(run, disk.reader(), file.bytes());
  ContentionProbe contention(run, processor, disk.reader(), file.bytes());
  MOERT_ASSIGN_OR_RETURN(ComputeProbe compute, ComputeProbe::create(run, processor));
  for (uint32_t round = 0; round < kRounds; ++round) {
    MOERT_RETURN_IF_ERROR(disk.measureRound());
    if (disk.readsDirectly())
      MOERT_RETURN_IF_ERROR(reuse.measureRound());
    MOERT_RETURN_IF_ERROR(contention.measureRound());
    MOERT_RETURN_IF_ERROR(compute.measureRound());
  }
  MOERT_ASSIGN_OR_RETURN(report.disk, disk.report());
  report.reuse = reuse.report();
  report.contention = contention.report();
  report.compute = compute.report();
  return {};
}

} // namespace moert::probe
