#include "profiles/DeviceFile.h"

#include "profiles/YamlFields.h"
#include "runtime/base/Excerpt.h"
#include "runtime/base/InputText.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <yaml-cpp/eventhandler.h>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

constexpr uint64_t kFormatVersion = 1;
/// Many times the size of a probe's output; bounds the time for parsing a wrong file.
constexpr size_t kMaxFileBytes = 1 << 20;

/// More than a line of a terminal.
constexpr size_t kMaxNameBytes = 256;

// Plausible limits for any machine; the README repeats them.
constexpr Range kBytesPerSecond = {1e3, 1e15};
constexpr Range kMultiplyAddsPerSecond = {1e3, 1e18};
constexpr Range kMemoryBytes = {1 << 20, 1125899906842624.0}; // 1 MiB to 1 PiB
constexpr Range kCores = {1, 4096};
constexpr Range kTokens = {1, 4096};
constexpr Range kNanoseconds = {0, 1e9};
constexpr Range kFraction = {0.01, 1};
constexpr Range kRecordBytes = {512, 1 << 30};
constexpr Range kDepth = {1, 1024};
constexpr Range kReusedBytes = {512, double(kLongUnusedBytes - 1)};
constexpr Range kReusedFactor = {0.1, 10};

Status readThreadRates(YamlFields &parent, const std::string &key, ThreadRates &rates) {
  MOERT_ASSIGN_OR_RETURN(YamlFields fields, parent.map(key));
  MOERT_ASSIGN_OR_RETURN(rates.oneThread, fields.quantity("one_thread", kBytesPerSecond));
  MOERT_ASSIGN_OR_RETURN(rates.allThreads, fields.quantity("all_threads", kBytesPerSecond));
  return fields.finish();
}

/// Reads a field that older files lack; `absent` is its default.
Status readOr(YamlFields &fields, const std::string &key, const Range &range, Quantity absent,
              Quantity &value) {
  value = absent;
  if (fields.has(key)) {
    MOERT_ASSIGN_OR_RETURN(value, fields.quantity(key, range));
  }
  return {};
}

Status readProcessor(YamlFields &top, DeviceProfile &device) {
  MOERT_ASSIGN_OR_RETURN(YamlFields fields, top.map("processor"));
  MOERT_ASSIGN_OR_RETURN(device.isa, fields.knownWord("isa", {"reference", "avx2", "avx512", "neon",
                                                              "dotprod", "i8mm"}));
  MOERT_ASSIGN_OR_RETURN(uint64_t cores, fields.knownCount("cores", kCores));
  device.cores = static_cast<uint32_t>(cores);
  MOERT_ASSIGN_OR_RETURN(device.dispatchNs, fields.quantity("dispatch_ns", kNanoseconds));
  MOERT_RETURN_IF_ERROR(readOr(fields, "fraction_while_reading", kFraction, {1, Origin::kAssumed},
                               device.fractionWhileReading));
  return fields.finish();
}

Status readMemory(YamlFields &top, DeviceProfile &device) {
  MOERT_ASSIGN_OR_RETURN(YamlFields fields, top.map("memory"));
  MOERT_ASSIGN_OR_RETURN(device.totalMemoryBytes, fields.quantity("total_bytes", kMemoryBytes));
  MOERT_ASSIGN_OR_RETURN(device.availableMemoryBytes,
                         fields.quantity("available_bytes", kMemoryBytes));
  if (device.availableMemoryBytes.value > device.totalMemoryBytes.value)
    return fields.refuse("available_bytes", "at most total_bytes");
  MOERT_RETURN_IF_ERROR(readThreadRates(fields, "bytes_per_second", device.memoryBytesPerSecond));
  return fields.finish();
}

/// Reads a list of points that must form a full grid, in any order.
Status readTable(const std::string &file, YamlFields &disk, const std::string &key,
                 ReadTable &table) {
  MOERT_ASSIGN_OR_RETURN(YAML::Node list, disk.take(key));
  if (!list.IsSequence() || list.size() == 0)
    return disk.refuse(key, "a list of {bytes, depth, bytes_per_second}");
  std::map<std::pair<uint64_t, uint32_t>, Quantity> points;
  std::set<uint64_t> sizes;
  std::set<uint32_t> depths;
  for (size_t i = 0; i < list.size(); ++i) {
    const YAML::Node node = std::as_const(list)[i];
    const std::string place = strCat(disk.placeOf(key), "[", i, "]");
    MOERT_ASSIGN_OR_RETURN(YamlFields point, YamlFields::of(file, node, place));
    MOERT_ASSIGN_OR_RETURN(uint64_t bytes, point.count("bytes", kRecordBytes));
    MOERT_ASSIGN_OR_RETURN(uint64_t depth, point.count("depth", kDepth));
    MOERT_ASSIGN_OR_RETURN(Quantity rate, point.quantity("bytes_per_second", kBytesPerSecond));
    MOERT_RETURN_IF_ERROR(point.finish());
    const auto reads = static_cast<uint32_t>(depth);
    if (!points.emplace(std::pair(bytes, reads), rate).second)
      return refuseNode(file, node, place,
                        strCat("a size or depth other than ", bytes, " bytes at depth ", depth,
                               ", which is already listed above"));
    sizes.insert(bytes);
    depths.insert(reads);
  }
  if (*depths.begin() != 1)
    return disk.refuse(key, "a point of depth 1");
  table.sizes.assign(sizes.begin(), sizes.end());
  table.depths.assign(depths.begin(), depths.end());
  for (uint64_t bytes : sizes)
    for (uint32_t depth : depths) {
      auto point = points.find({bytes, depth});
      if (point == points.end())
        return disk.refuse(key, strCat("every size at every depth, but there is no point of ",
                                       bytes, " bytes at depth ", depth));
      table.bytesPerSecond.push_back(point->second);
    }
  return {};
}

/// Reads a list whose `bytes` ascend.
Status readReused(const std::string &file, YamlFields &disk, std::vector<ReusedMemory> &reused) {
  constexpr const char *kKey = "reused_memory";
  if (!disk.has(kKey))
    return {};
  MOERT_ASSIGN_OR_RETURN(YAML::Node list, disk.take(kKey));
  if (!list.IsSequence() || list.size() == 0)
    return disk.refuse(kKey, "a list of {bytes, factor}");
  for (size_t i = 0; i < list.size(); ++i) {
    const YAML::Node node = std::as_const(list)[i];
    const std::string place = strCat(disk.placeOf(kKey), "[", i, "]");
    MOERT_ASSIGN_OR_RETURN(YamlFields point, YamlFields::of(file, node, place));
    ReusedMemory one;
    MOERT_ASSIGN_OR_RETURN(one.bytes, point.count("bytes", kReusedBytes));
    MOERT_ASSIGN_OR_RETURN(one.factor, point.quantity("factor", kReusedFactor));
    MOERT_RETURN_IF_ERROR(point.finish());
    if (!reused.empty() && one.bytes <= reused.back().bytes)
      return refuseNode(file, node["bytes"], place + ".bytes",
                        strCat("more bytes than ", reused.back().bytes, ", the previous entry's"));
    reused.push_back(one);
  }
  return {};
}

Status readDisk(const std::string &file, YamlFields &top, DeviceProfile &device) {
  MOERT_ASSIGN_OR_RETURN(YamlFields fields, top.map("disk"));
  MOERT_ASSIGN_OR_RETURN(device.ioBackend,
                         fields.knownWord("backend", {"uring", "threads", "buffered"}));
  MOERT_ASSIGN_OR_RETURN(device.hasRegisteredBuffers, fields.knownFlag("registered_buffers"));
  MOERT_ASSIGN_OR_RETURN(device.cachedBytesPerSecond,
                         fields.quantity("cached_bytes_per_second", kBytesPerSecond));
  MOERT_RETURN_IF_ERROR(readOr(fields, "fraction_while_computing", kFraction, {1, Origin::kAssumed},
                               device.fractionWhileComputing));
  MOERT_RETURN_IF_ERROR(readOr(fields, "submit_ns_per_mib", kNanoseconds, {0, Origin::kAssumed},
                               device.submitNsPerMiB));
  MOERT_RETURN_IF_ERROR(
      readOr(fields, "wake_ns", kNanoseconds, {0, Origin::kAssumed}, device.wakeNs));
  const bool isBuffered = device.ioBackend == "buffered";
  // The backend's own table is required, the other one is optional.
  if (!isBuffered || fields.has("direct"))
    MOERT_RETURN_IF_ERROR(readTable(file, fields, "direct", device.directReads));
  if (isBuffered || fields.has("buffered"))
    MOERT_RETURN_IF_ERROR(readTable(file, fields, "buffered", device.bufferedReads));
  MOERT_RETURN_IF_ERROR(
      readReused(file, fields, (isBuffered ? device.bufferedReads : device.directReads).reused));
  return fields.finish();
}

Result<ProductRate> readProduct(YamlFields &fields, uint32_t cores) {
  ProductRate rate;
  MOERT_ASSIGN_OR_RETURN(rate.weights, fields.text("weights"));
  if (std::find(kProductWeights.begin(), kProductWeights.end(), rate.weights) ==
      kProductWeights.end()) {
    std::string names;
    for (std::string_view name : kProductWeights)
      names += strCat(names.empty() ? "" : " or ", name);
    return fields.refuse("weights", names);
  }
  MOERT_ASSIGN_OR_RETURN(uint64_t tokens, fields.count("tokens", kTokens));
  rate.tokens = static_cast<uint32_t>(tokens);
  MOERT_ASSIGN_OR_RETURN(uint64_t threads, fields.count("threads", kCores));
  rate.threads = static_cast<uint32_t>(threads);
  if (threads != 1 && threads != cores)
    return fields.refuse("threads", strCat("1 or processor.cores, which is ", cores));
  MOERT_ASSIGN_OR_RETURN(rate.weightBytesPerSecond,
                         fields.quantity("weight_bytes_per_second", kBytesPerSecond));
  MOERT_ASSIGN_OR_RETURN(rate.multiplyAddsPerSecond,
                         fields.quantity("multiply_adds_per_second", kMultiplyAddsPerSecond));
  MOERT_RETURN_IF_ERROR(fields.finish());
  return rate;
}

/// Checks what DeviceTimes.h assumes.
Status checkProducts(const std::vector<ProductRate> &products, uint32_t cores,
                     const std::string &where) {
  std::map<std::string, std::map<uint32_t, uint32_t>> threadsOf; // By weights and tokens.
  for (const ProductRate &rate : products)
    ++threadsOf[rate.weights][rate.tokens];
  for (const char *weights : {"int8", "f32"})
    if (threadsOf.count(weights) == 0)
      return invalidInput(where, "found no rates of ", weights, ", expected some");
  for (const auto &[weights, tokens] : threadsOf) {
    if (tokens.begin()->first != 1 || tokens.size() < 2)
      return invalidInput(where, "found rates of ", weights,
                          " without 1 token or without a larger number, expected both");
    for (const auto &[count, found] : tokens)
      if (found != (cores == 1 ? 1 : 2))
        return invalidInput(where, "found ", found, " rates of ", weights, " for ", count,
                            " tokens, expected one for 1 thread and one for ", cores);
  }
  return {};
}

Status readProducts(const std::string &file, YamlFields &top, DeviceProfile &device) {
  MOERT_ASSIGN_OR_RETURN(YAML::Node list, top.take("products"));
  if (!list.IsSequence())
    return top.refuse("products", "a list of rates");
  std::set<std::tuple<std::string, uint32_t, uint32_t>> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    const YAML::Node node = std::as_const(list)[i];
    const std::string place = strCat("products[", i, "]");
    MOERT_ASSIGN_OR_RETURN(YamlFields fields, YamlFields::of(file, node, place));
    MOERT_ASSIGN_OR_RETURN(ProductRate rate, readProduct(fields, device.cores));
    if (!seen.emplace(rate.weights, rate.tokens, rate.threads).second)
      return refuseNode(file, node, place,
                        "other weights, tokens or threads than an earlier one's");
    device.products.push_back(std::move(rate));
  }
  return checkProducts(device.products, device.cores,
                       strCat(file, ":", list.Mark().line + 1, ": products: "));
}

/// Keys and values lie in many short runs, so attention reads memory more slowly than the
/// sequential rate: at half of it by default.
Status readAttention(YamlFields &top, DeviceProfile &device) {
  MOERT_ASSIGN_OR_RETURN(YamlFields fields, top.map("attention"));
  MOERT_RETURN_IF_ERROR(
      readThreadRates(fields, "bytes_per_second", device.attentionBytesPerSecond));
  if (fields.has("memory_bytes_per_second")) {
    MOERT_RETURN_IF_ERROR(
        readThreadRates(fields, "memory_bytes_per_second", device.attentionMemoryBytesPerSecond));
  } else {
    auto half = [](const Quantity &rate) {
      return Quantity{rate.value / 2, worseOf(rate.origin, Origin::kDerived)};
    };
    device.attentionMemoryBytesPerSecond = {half(device.memoryBytesPerSecond.oneThread),
                                            half(device.memoryBytesPerSecond.allThreads)};
  }
  return fields.finish();
}

Result<DeviceProfile> readDevice(const std::string &file, const YAML::Node &root) {
  MOERT_ASSIGN_OR_RETURN(YamlFields top, YamlFields::of(file, root, ""));
  MOERT_ASSIGN_OR_RETURN(uint64_t version, top.count("device_profile", {1, 1e6}));
  if (version != kFormatVersion)
    return invalidInput(file, ": device_profile: version ", version, ", this program reads ",
                        kFormatVersion);
  DeviceProfile device;
  MOERT_ASSIGN_OR_RETURN(device.name, top.text("name"));
  if (device.name.size() > kMaxNameBytes || !moert::isPlainText(device.name))
    return top.refuse(
        "name", strCat("at most ", kMaxNameBytes, " bytes of text without control characters"));
  MOERT_RETURN_IF_ERROR(readProcessor(top, device));
  MOERT_RETURN_IF_ERROR(readMemory(top, device));
  MOERT_RETURN_IF_ERROR(readDisk(file, top, device));
  MOERT_RETURN_IF_ERROR(readProducts(file, top, device));
  MOERT_RETURN_IF_ERROR(readAttention(top, device));
  MOERT_RETURN_IF_ERROR(top.finish());
  return device;
}

/// Scans the parser's events for faults before any node is built.
class DocumentScan : public YAML::EventHandler {
public:
  void OnDocumentStart(const YAML::Mark &) override { ++documents; }
  void OnAlias(const YAML::Mark &mark, YAML::anchor_t) override {
    if (!alias)
      alias = mark;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark &, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark &, const std::string &, YAML::anchor_t,
                const std::string &) override {}
  void OnSequenceStart(const YAML::Mark &, const std::string &, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark &, const std::string &, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  uint32_t documents = 0;
  std::optional<YAML::Mark> alias;
};

/// Refuses several documents, since yaml-cpp's LoadAll() does not terminate on some broken files,
/// and aliases, which let small files expand to large data.
Status checkDocuments(const std::string &yaml, const std::string &name) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  DocumentScan scan;
  while (scan.documents < 2 && parser.HandleNextDocument(scan))
    continue;
  if (scan.alias)
    return invalidInput(name, ":", scan.alias->line + 1, ": found an alias, expected values");
  if (scan.documents > 1)
    return invalidInput(name, ": found several YAML documents, expected one device profile");
  return {};
}

} // namespace

Result<DeviceProfile> parseDevice(std::string_view yaml, const std::string &name) {
  if (yaml.size() > kMaxFileBytes)
    return invalidInput(name, ": found ", yaml.size(),
                        " bytes, expected a device profile of at most ", kMaxFileBytes);
  MOERT_RETURN_IF_ERROR(moert::checkUtf8(yaml, name));
  try {
    MOERT_RETURN_IF_ERROR(checkDocuments(std::string(yaml), name));
    return readDevice(name, YAML::Load(std::string(yaml)));
  } catch (const YAML::Exception &error) {
    const std::string line = error.mark.line >= 0 ? strCat(":", error.mark.line + 1) : "";
    return invalidInput(name, line,
                        ": not YAML: ", moert::excerpt(error.msg, 3 * moert::kExcerptBytes));
  }
}

Result<DeviceProfile> readDeviceFile(const std::string &path) {
  std::error_code ignored;
  // Opening a pipe would block.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return moert::invalidInput(path, ": found no regular file, expected a device profile");
  MOERT_ASSIGN_OR_RETURN(std::string text, moert::readInput(path, kMaxFileBytes));
  return parseDevice(text, path == "-" ? "standard input" : path);
}

} // namespace moec
