#include "tools/moert/probe/DeviceYaml.h"

#include <cstdio>

namespace moert::probe {

namespace {

bool isPlain(char c) {
  return c >= ' ' && c <= '~';
}

/// Four significant digits: no measurement here is more precise than 0.1%.
std::string decimal(double value) {
  char digits[32]; // std::to_chars() would link 100 KB of tables for shortest decimals.
  std::snprintf(digits, sizeof digits, "%.4g", value);
  return digits;
}

std::string tagged(const Number &number) {
  return strCat(number.origin == Origin::kMeasured ? "!measured " : "!derived ",
                decimal(number.value));
}

std::string threadNumbers(const ThreadNumbers &numbers) {
  return strCat("{one_thread: ", tagged(numbers.oneThread),
                ", all_threads: ", tagged(numbers.allThreads), "}\n");
}

void appendPoints(std::string &out, const char *key, const std::vector<ReadPoint> &points) {
  if (points.empty())
    return;
  out += strCat("  ", key, ":\n");
  for (const ReadPoint &point : points)
    out += strCat("    - {bytes: ", point.bytes, ", depth: ", point.depth,
                  ", bytes_per_second: ", tagged(point.bytesPerSecond), "}\n");
}

void appendReuse(std::string &out, const std::vector<ReusePoint> &points) {
  if (!points.empty())
    out += "  reused_memory:\n";
  for (const ReusePoint &point : points)
    out += strCat("    - {bytes: ", point.bytes, ", factor: ", tagged(point.factor), "}\n");
}

void appendDisk(std::string &out, const DeviceReport &report) {
  const DiskReport &disk = report.disk;
  const ContentionReport &contention = report.contention;
  out += strCat("disk:\n  backend: !measured ", ioBackendName(disk.backend),
                "\n  registered_buffers: !measured ", disk.hasRegisteredBuffers ? "true" : "false",
                "\n  cached_bytes_per_second: ", tagged(disk.cachedBytesPerSecond),
                "\n  fraction_while_computing: ", tagged(contention.readingFraction),
                "\n  submit_ns_per_mib: ", tagged(contention.submitNsPerMiB),
                "\n  wake_ns: ", tagged(contention.wakeNs), "\n");
  appendReuse(out, report.reuse);
  appendPoints(out, "direct", disk.direct);
  appendPoints(out, "buffered", disk.buffered);
}

void appendProducts(std::string &out, const std::vector<ProductRate> &products) {
  out += "products:\n";
  for (const ProductRate &rate : products)
    out += strCat("  - {weights: ", rate.weights, ", tokens: ", rate.tokens,
                  ", threads: ", rate.threads,
                  ", weight_bytes_per_second: ", tagged(rate.weightBytesPerSecond),
                  ", multiply_adds_per_second: ", tagged(rate.multiplyAddsPerSecond), "}\n");
}

} // namespace

std::string quoteYaml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    quoted += isPlain(c) ? c : '?';
  }
  return quoted + '"';
}

std::string toYaml(const DeviceReport &report) {
  std::string out;
  for (const std::string &remark : report.remarks) {
    out += "# ";
    for (const char c : remark)
      out += isPlain(c) ? c : '?';
    out += '\n';
  }
  out += strCat("device_profile: 1\nname: ", quoteYaml(report.name), "\n");
  out += strCat("processor:\n  isa: !measured ", report.compute.isa, "\n  cores: !measured ",
                report.compute.threads, "\n  dispatch_ns: ", tagged(report.compute.dispatchNs),
                "\n  fraction_while_reading: ", tagged(report.contention.computingFraction), "\n");
  out += strCat("memory:\n  total_bytes: !measured ", report.totalMemoryBytes,
                "\n  available_bytes: !measured ", report.availableMemoryBytes,
                "\n  bytes_per_second: ", threadNumbers(report.compute.memoryBytesPerSecond));
  appendDisk(out, report);
  appendProducts(out, report.compute.products);
  out += strCat(
      "attention:\n  bytes_per_second: ", threadNumbers(report.compute.attentionBytesPerSecond),
      "  memory_bytes_per_second: ", threadNumbers(report.compute.attentionMemoryBytesPerSecond));
  return out;
}

} // namespace moert::probe
