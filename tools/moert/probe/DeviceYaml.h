// A probe's result as YAML: profiles/README.md of the project describes the fields, and
// profiles/DeviceFile.h reads them.
#pragma once

#include "tools/moert/probe/ComputeProbe.h"
#include "tools/moert/probe/ContentionProbe.h"
#include "tools/moert/probe/DiskProbe.h"
#include "tools/moert/probe/ReuseProbe.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert::probe {

struct DeviceReport {
  std::vector<std::string> remarks; // Comments at the top, one line each.
  std::string name;
  uint64_t totalMemoryBytes = 0, availableMemoryBytes = 0;
  ComputeReport compute;
  DiskReport disk;
  std::vector<ReusePoint> reuse; // Empty: reads into any memory are equally fast.
  ContentionReport contention;
};

std::string toYaml(const DeviceReport &report);

/// Any text as a YAML scalar in double quotes. Bytes that are not printable ASCII become question
/// marks, so that any terminal can show a device's name.
std::string quoteYaml(std::string_view text);

} // namespace moert::probe
