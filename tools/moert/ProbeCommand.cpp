// moert probe: measures this machine and writes a device profile for moec to plan with.
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/moert/Command.h"
#include "tools/moert/RunContext.h"
#include "tools/moert/probe/MachineProbe.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <memory>
#include <unistd.h>

namespace moert::cli {

namespace {

/// Peak memory of the probe: weights, the operands of their products, and the program with its
/// threads, rings and rows.
constexpr uint64_t kNeededBytes =
    (uint64_t(256) << 20) + probe::kProbeMemoryBytes + (uint64_t(64) << 20);

// Larger than a drive's own cache; the lower bound is for slow cards, which take long to write it.
constexpr uint64_t kMostFileBytes = uint64_t(512) << 20, kLeastFileBytes = uint64_t(64) << 20;
constexpr uint64_t kFileNs = 3'000'000'000;

/// Many times the size of a profile.
constexpr uint64_t kMostProfileBytes = uint64_t(64) << 10;

/// A thread that runs alone on a core gets more of it than this fraction.
constexpr double kIdleCoreFraction = 0.95;

struct ProbeOptions {
  std::string output;
  std::string path = ".";
};

std::string processorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    // On ARM, where no line names the processor, "Model" is the board's name.
    if (colon != std::string::npos &&
        (line.rfind("model name", 0) == 0 || line.rfind("Model", 0) == 0))
      return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  char text[16] = "";
  if (gmtime_r(&now, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

uint64_t totalMemoryBytes() {
  return uint64_t(::sysconf(_SC_PHYS_PAGES)) * uint64_t(::sysconf(_SC_PAGESIZE));
}

std::string busyRemark(double coreFraction) {
  return strCat("The machine was busy: the probe had ", static_cast<int>(100 * coreFraction),
                "% of a core. Its disk and its processor may both be faster than measured.");
}

Result<probe::DeviceReport> measure(const ProbeOptions &options) {
  const std::atomic<bool> &stop = catchInterrupts();
  std::string step;
  ProgressLine line("measuring", [&step](uint64_t, uint64_t) { return step; });
  probe::ProbeRun run(
      monotonicNs, [&stop] { return stop.load(std::memory_order_relaxed); },
      [&](std::string_view name, uint64_t done, uint64_t total) {
        step = name;
        line.update(done, total);
      });
  run.plan(kFileNs + probe::plannedMachineNs());

  probe::DeviceReport report;
  const uint32_t cores = availableCores();
  report.totalMemoryBytes = totalMemoryBytes();
  report.availableMemoryBytes = std::min(report.totalMemoryBytes, availableMemoryBytes());
  if (report.availableMemoryBytes < kNeededBytes)
    return failed("the probe needs ", formatBytes(kNeededBytes),
                  " of memory, free for it: ", formatBytes(report.availableMemoryBytes));
  report.name = strCat(processorName(), ", ", cores, cores == 1 ? " core, " : " cores, ",
                       formatBytes(report.totalMemoryBytes));
  MOERT_ASSIGN_OR_RETURN(
      probe::ProbeFile file,
      probe::ProbeFile::create(run, options.path, kLeastFileBytes, kMostFileBytes, kFileNs));
  MOERT_RETURN_IF_ERROR(probe::probeMachine(run, file, bestKernels(), cores, report));
  report.remarks = {strCat("Measured by moert probe on ", today(),
                           "; profiles/README.md of the project describes the fields."),
                    strCat("Rates are means of ", probe::kRounds,
                           " rounds, without the fastest and the slowest one."),
                    strCat("Reads: ", report.disk.description, "; from a file of ",
                           formatBytes(report.disk.fileBytes), ".")};
  if (report.compute.coreFraction < kIdleCoreFraction)
    report.remarks.push_back(busyRemark(report.compute.coreFraction));
  return report;
}

/// "1.40 GiB/s ...", from the point that is closest to reading experts.
std::string readSummary(const probe::DiskReport &disk) {
  const std::vector<probe::ReadPoint> &points = disk.direct.empty() ? disk.buffered : disk.direct;
  double best = 0;
  for (const probe::ReadPoint &point : points)
    best = std::max(best, point.bytesPerSecond.value);
  const probe::ReadPoint &small = points.front();
  const double smallNs = 1e9 * static_cast<double>(small.bytes) / small.bytesPerSecond.value;
  return strCat(formatBytes(static_cast<uint64_t>(best)), "/s at best, ",
                static_cast<uint64_t>(smallNs / 1000 + 0.5), " us for ", formatBytes(small.bytes),
                " alone");
}

Status writeProbe(const ProbeOptions &options) {
  MOERT_RETURN_IF_ERROR(checkWritable(options.output, {options.path}));
  // Created before the measurement, so that an unwritable path is reported at once, not 30 s later.
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(options.output, kMostProfileBytes));
  MOERT_ASSIGN_OR_RETURN(probe::DeviceReport report, measure(options));
  MOERT_RETURN_IF_ERROR(file.append(probe::toYaml(report)));
  MOERT_RETURN_IF_ERROR(file.commit());
  printError(strCat(
      report.name, "\n  disk: ", readSummary(report.disk), " (", report.disk.description,
      ")\n  memory: ", formatBytes(report.availableMemoryBytes), " to use, read at ",
      formatBytes(static_cast<uint64_t>(report.compute.memoryBytesPerSecond.allThreads.value)),
      "/s\n  kernels: ", report.compute.isa, "\nwritten to ", options.output));
  if (report.compute.coreFraction < kIdleCoreFraction)
    printError(busyRemark(report.compute.coreFraction));
  return {};
}

} // namespace

void addProbeCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ProbeOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("probe", "Measure this machine, for moec to plan with");
  command
      ->add_option("--path", options->path,
                   "The model's file (at least 64 MiB), which is read; or a folder on the disk "
                   "that will hold "
                   "it, where a temporary file of up to 512 MiB is written. A file that was just "
                   "written may "
                   "be read faster than a model (default: the current folder)")
      ->type_name("FILE|DIR")
      ->group("Measure");
  command->add_option("-o,--output", options->output, "The device profile to write")
      ->type_name("DEVICE.yaml")
      ->required()
      ->group("Output");
  command->footer("Takes less than 30 s. Nothing else should run on the machine meanwhile.\n" +
                  exampleFooter("moert probe -o laptop.yaml --path ~/models/qwen.moe"));
  command->callback([options, &chosen] { chosen = [options] { return writeProbe(*options); }; });
}

} // namespace moert::cli
