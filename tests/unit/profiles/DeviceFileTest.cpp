#include "profiles/DeviceFile.h"

#include "runtime/exec/Kernels.h"

#include <doctest/doctest.h>
#include <string>
#include <tuple>

using namespace moec;

namespace {

const char *const kDevice = R"(# A made-up machine.
device_profile: 1
name: two cores and a disk
processor:
  isa: !measured avx2
  cores: !measured 2
  dispatch_ns: !measured 1500
  fraction_while_reading: !measured 0.9
memory:
  total_bytes: !stated 8589934592
  available_bytes: !assumed 4294967296
  bytes_per_second: {one_thread: !measured 1e10, all_threads: !measured 1.5e10}
disk:
  backend: !measured uring
  registered_buffers: !measured true
  cached_bytes_per_second: !measured 5e9
  fraction_while_computing: !measured 0.75
  submit_ns_per_mib: !derived 12000
  wake_ns: !measured 250000
  direct:
    - {bytes: 65536, depth: 4, bytes_per_second: !derived 9e8}
    - {bytes: 4096, depth: 1, bytes_per_second: !measured 4e7}
    - {bytes: 4096, depth: 4, bytes_per_second: !measured 1e8}
    - {bytes: 65536, depth: 1, bytes_per_second: !measured 4e8}
products:
  - {weights: int8, tokens: 1, threads: 1, weight_bytes_per_second: !measured 9e9, multiply_adds_per_second: !measured 8e9}
  - {weights: int8, tokens: 1, threads: 2, weight_bytes_per_second: !measured 1e10, multiply_adds_per_second: !measured 9e9}
  - {weights: int8, tokens: 32, threads: 1, weight_bytes_per_second: !measured 1e9, multiply_adds_per_second: !measured 3e10}
  - {weights: int8, tokens: 32, threads: 2, weight_bytes_per_second: !measured 2e9, multiply_adds_per_second: !measured 6e10}
  - {weights: f32, tokens: 1, threads: 1, weight_bytes_per_second: !measured 9e9, multiply_adds_per_second: !measured 2e9}
  - {weights: f32, tokens: 1, threads: 2, weight_bytes_per_second: !measured 1e10, multiply_adds_per_second: !measured 3e9}
  - {weights: f32, tokens: 32, threads: 1, weight_bytes_per_second: !measured 1e9, multiply_adds_per_second: !measured 1e10}
  - {weights: f32, tokens: 32, threads: 2, weight_bytes_per_second: !measured 2e9, multiply_adds_per_second: !measured 2e10}
attention:
  bytes_per_second: {one_thread: !measured 5e9, all_threads: !measured 9e9}
  memory_bytes_per_second: {one_thread: !measured 3e9, all_threads: !measured 4e9}
)";

std::string changed(const std::string &from, const std::string &to) {
  std::string text = kDevice;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string without(const std::string &line) {
  std::string text = kDevice;
  const size_t at = text.find(line);
  REQUIRE(at != std::string::npos);
  return text.erase(at, text.find('\n', at) + 1 - at);
}

std::string withoutLines(std::initializer_list<const char *> lines) {
  std::string text = kDevice;
  for (const char *line : lines) {
    const size_t at = text.find(line);
    REQUIRE(at != std::string::npos);
    const size_t begin = text.rfind('\n', at) + 1;
    text.erase(begin, text.find('\n', at) + 1 - begin);
  }
  return text;
}

/// The message of the error, which must be bad input.
std::string refusalOf(const std::string &text) {
  const moert::Result<DeviceProfile> device = parseDevice(text, "device.yaml");
  REQUIRE(!device.isOk());
  CHECK(device.status().code() == moert::StatusCode::kInvalidInput);
  return device.status().message();
}

} // namespace

TEST_CASE("every field of a device file is read with its value and its origin") {
  const moert::Result<DeviceProfile> read = parseDevice(kDevice, "device.yaml");
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  const DeviceProfile &device = *read;
  CHECK(device.name == "two cores and a disk");
  CHECK(device.isa == "avx2");
  CHECK(device.cores == 2);
  CHECK(device.dispatchNs == Quantity{1500, Origin::kMeasured});
  CHECK(device.totalMemoryBytes == Quantity{8589934592.0, Origin::kStated});
  CHECK(device.availableMemoryBytes == Quantity{4294967296.0, Origin::kAssumed});
  CHECK(device.memoryBytesPerSecond.oneThread.value == 1e10);
  CHECK(device.memoryBytesPerSecond.allThreads.value == 1.5e10);
  CHECK(device.attentionBytesPerSecond.allThreads.value == 9e9);
  CHECK(device.ioBackend == "uring");
  CHECK(device.hasRegisteredBuffers);
  CHECK(device.cachedBytesPerSecond.value == 5e9);
  CHECK(device.products.size() == 8);
  CHECK(device.products[3].weights == "int8");
  CHECK(device.products[3].tokens == 32);
  CHECK(device.products[3].threads == 2);
  CHECK(device.products[3].multiplyAddsPerSecond.value == 6e10);
}

TEST_CASE("the fields for contention may be absent, and are then zero") {
  const DeviceProfile device = parseDevice(kDevice, "device.yaml").value();
  CHECK(device.fractionWhileReading == Quantity{0.9, Origin::kMeasured});
  CHECK(device.fractionWhileComputing == Quantity{0.75, Origin::kMeasured});
  CHECK(device.submitNsPerMiB == Quantity{12000, Origin::kDerived});
  CHECK(device.wakeNs == Quantity{250000, Origin::kMeasured});
  const DeviceProfile old =
      parseDevice(withoutLines({"fraction_while_reading", "fraction_while_computing", "submit_ns",
                                "wake_ns"}),
                  "device.yaml")
          .value();
  CHECK(old.fractionWhileReading == Quantity{1, Origin::kAssumed});
  CHECK(old.fractionWhileComputing == Quantity{1, Origin::kAssumed});
  CHECK(old.submitNsPerMiB == Quantity{0, Origin::kAssumed});
  CHECK(old.wakeNs == Quantity{0, Origin::kAssumed});
  CHECK(refusalOf(changed("fraction_while_computing: !measured 0.75",
                          "fraction_while_computing: !measured 1.1"))
            .find("disk.fraction_while_computing: found '1.1', expected a number from 0.01 to 1") !=
        std::string::npos);
}

TEST_CASE("a disk may have faster rates into reused memory, by default it has not") {
  CHECK(parseDevice(kDevice, "device.yaml").value().directReads.reused.empty());
  auto withReused = [](const std::string &points) {
    return changed("  direct:\n", "  reused_memory: " + points + "\n  direct:\n");
  };
  const DeviceProfile device = parseDevice(withReused("[{bytes: 8388608, factor: !measured 1.25}, "
                                                      "{bytes: 33554432, factor: !derived 0.9}]"),
                                           "device.yaml")
                                   .value();
  REQUIRE(device.directReads.reused.size() == 2);
  CHECK(device.directReads.reused[0].bytes == 8388608);
  CHECK(device.directReads.reused[0].factor == Quantity{1.25, Origin::kMeasured});
  CHECK(device.directReads.reused[1].factor == Quantity{0.9, Origin::kDerived});
  for (auto [points, expected] : {
           std::pair("[]", "found an empty list, expected a list of {bytes, factor}"),
           {"[{bytes: 134217728, factor: !measured 1}]", "from 512 to 134217727"},
           {"[{bytes: 8388608, factor: !measured 0}]", "from 0.1 to 10"},
           {"[{bytes: 8388608, factor: 1}]", "!measured"},
           {"[{bytes: 4096, factor: !measured 1}, {bytes: 4096, factor: !measured 1}]",
            "disk.reused_memory[1].bytes: found '4096', expected more bytes than 4096"},
       }) {
    const std::string message = refusalOf(withReused(points));
    CAPTURE(message);
    CHECK(message.find("disk.reused_memory") != std::string::npos);
    CHECK(message.find(expected) != std::string::npos);
  }
}

TEST_CASE("keys and values are read at half of the memory's rate by default") {
  const DeviceProfile said = parseDevice(kDevice, "device.yaml").value();
  CHECK(said.attentionMemoryBytesPerSecond.oneThread == Quantity{3e9, Origin::kMeasured});
  const DeviceProfile derived =
      parseDevice(withoutLines({"  memory_bytes_per_second"}), "device.yaml").value();
  CHECK(derived.attentionMemoryBytesPerSecond.oneThread == Quantity{5e9, Origin::kDerived});
  CHECK(derived.attentionMemoryBytesPerSecond.allThreads == Quantity{7.5e9, Origin::kDerived});
}

TEST_CASE("points of a read table may be in any order") {
  const DeviceProfile device = parseDevice(kDevice, "device.yaml").value();
  CHECK(device.directReads.sizes == std::vector<uint64_t>{4096, 65536});
  CHECK(device.directReads.depths == std::vector<uint32_t>{1, 4});
  CHECK(device.directReads.bytesPerSecond[1] == Quantity{1e8, Origin::kMeasured});
  CHECK(device.directReads.bytesPerSecond[3] == Quantity{9e8, Origin::kDerived});
  CHECK(device.bufferedReads.sizes.empty());
}

TEST_CASE("an error names file, line, field, the found and the expected value") {
  CHECK(
      refusalOf(changed("dispatch_ns: !measured 1500", "dispatch_ns: !measured fast")) ==
      "device.yaml:7: processor.dispatch_ns: found 'fast', expected a number from 0 to 1000000000");
  CHECK(refusalOf(changed("depth: 4, bytes_per_second: !derived 9e8",
                          "depth: four, bytes_per_second: !derived 9e8")) ==
        "device.yaml:21: disk.direct[0].depth: found 'four', expected a whole number from 1 to "
        "1024");
}

TEST_CASE("an unknown field is refused anywhere in the file") {
  CHECK(refusalOf(std::string(kDevice) + "gpu: none\n") ==
        "device.yaml:37: gpu: unknown field; profiles/README.md lists the known ones");
  CHECK(refusalOf(changed("cores:", "speed_mhz: !measured 3\n  cores:"))
            .find("device.yaml:6: processor.speed_mhz: unknown field") == 0);
  CHECK(refusalOf(changed("{bytes: 4096,", "{latency_us: 3, bytes: 4096,"))
            .find("device.yaml:22: disk.direct[1].latency_us: unknown field") == 0);
}

TEST_CASE("a unit that is not the field's own is an unknown field") {
  CHECK(refusalOf(changed("dispatch_ns", "dispatch_us")).find("processor.dispatch_ns") !=
        std::string::npos);
  CHECK(refusalOf(changed("total_bytes: !stated 8589934592", "total_bytes: !stated 8GiB"))
            .find("found '8GiB', expected a number") != std::string::npos);
}

TEST_CASE("a missing field is refused, and named") {
  CHECK(refusalOf(without("  isa:")) == "device.yaml:5: processor.isa: the field is missing");
  CHECK(refusalOf(without("name:")) == "device.yaml:2: name: the field is missing");
}

TEST_CASE("a device may have only instruction sets for which there are kernels") {
  using moert::Isa;
  for (Isa isa :
       {Isa::kReference, Isa::kAvx2, Isa::kAvx512, Isa::kNeon, Isa::kDotprod, Isa::kI8mm}) {
    const auto device = parseDevice(changed("avx2", moert::nameOf(isa)), "device.yaml");
    REQUIRE(device.isOk());
    CHECK(device->isa == moert::nameOf(isa));
  }
  CHECK(refusalOf(changed("avx2", "sve")).find("sve") != std::string::npos);
}

TEST_CASE("a field that is given twice is refused") {
  CHECK(refusalOf(changed("  cores:", "  cores: !measured 4\n  cores:")) ==
        "device.yaml:7: processor: field 'cores' is given twice");
}

TEST_CASE("a value without an origin tag is refused") {
  CHECK(refusalOf(changed("!measured 1500", "1500")) ==
        "device.yaml:7: processor.dispatch_ns: found no tag, expected one of "
        "!measured, !stated, !derived and !assumed before the value");
  CHECK(refusalOf(changed("!measured 1500", "!inferred 1500")).find("found !inferred") !=
        std::string::npos);
  CHECK(refusalOf(changed("!measured avx2", "avx2")).find("found no tag") != std::string::npos);
}

TEST_CASE("a name with unprintable characters is refused") {
  const std::string expected = ", expected at most 256 bytes of text without control characters";
  const char *name = "name: two cores and a disk";
  CHECK(refusalOf(changed(name, "name: \"a\\e[31mb\"")) ==
        "device.yaml:3: name: found 'a\\x1b[31mb'" + expected);
  CHECK(refusalOf(changed(name, "name: \"a\\0b\"")) ==
        "device.yaml:3: name: found 'a\\x00b'" + expected);
  CHECK(refusalOf(changed(name, "name: \"a\\x9bb\"")) ==
        "device.yaml:3: name: found 'a\\xc2\\x9bb'" + expected);
  CHECK(refusalOf(changed(name, "name: |\n  two\n  lines")).find(expected) != std::string::npos);
  CHECK(refusalOf(changed(name, "name: a\xff")).find("byte 0xff at offset") != std::string::npos);
  CHECK(refusalOf(changed(name, "name: " + std::string(257, 'x'))).find(expected) !=
        std::string::npos);
  CHECK(parseDevice(changed(name, "name: Gerät™"), "device.yaml").value().name == "Gerät™");
}

TEST_CASE("a value outside its range is refused") {
  for (const auto &[from, to] : {std::pair("cores: !measured 2", "cores: !measured 0"),
                                 {"cores: !measured 2", "cores: !measured -2"},
                                 {"cores: !measured 2", "cores: !measured 2.5"},
                                 {"cores: !measured 2", "cores: !measured 99999999999999999999"},
                                 {"!measured 5e9", "!measured nan"},
                                 {"!measured 5e9", "!measured inf"},
                                 {"!measured 5e9", "!measured 0"},
                                 {"!stated 8589934592", "!stated 8"},
                                 {"bytes: 65536, depth: 4", "bytes: 1, depth: 4"},
                                 {"depth: 4", "depth: 1025"}}) {
    const std::string refusal = refusalOf(changed(from, to));
    CHECK_MESSAGE(refusal.find("expected a") != std::string::npos, refusal);
  }
}

TEST_CASE("a range is named with all digits of its bounds") {
  for (const auto &[from, to, expected] :
       {std::tuple("bytes: 65536, depth: 4", "bytes: 1, depth: 4",
                   "expected a whole number from 512 to 1073741824"),
        {"!stated 8589934592", "!stated 8", "expected a number from 1048576 to 1125899906842624"},
        {"!measured 5e9", "!measured 0", "expected a number from 1000 to 1000000000000000"}}) {
    const std::string refusal = refusalOf(changed(from, to));
    CHECK_MESSAGE(refusal.substr(refusal.find("expected")) == expected, refusal);
  }
}

TEST_CASE("a read table that is not a full grid is refused") {
  CHECK(refusalOf(without("    - {bytes: 65536, depth: 4")) ==
        "device.yaml:21: disk.direct: found a list, expected every size at every depth, but there "
        "is no point of 65536 bytes at depth 4");
  CHECK(refusalOf(changed("{bytes: 65536, depth: 4", "{bytes: 4096, depth: 1"))
            .find("other than 4096 bytes at depth 1, which is already listed above") !=
        std::string::npos);
  CHECK(refusalOf(changed("uring", "buffered")).find("disk.buffered: the field is missing") !=
        std::string::npos);
}

TEST_CASE("rates of products that leave a time undefined are refused") {
  CHECK(
      refusalOf(without("  - {weights: f32, tokens: 1, threads: 2")) ==
      "device.yaml:26: products: found 1 rates of f32 for 1 tokens, expected one for 1 thread and "
      "one for 2");
  CHECK(
      refusalOf(changed("weights: f32", "weights: q4_k")).find("found 'q4_k', expected int2 or") !=
      std::string::npos);
  CHECK(refusalOf(changed("tokens: 1, threads: 1", "tokens: 1, threads: 3"))
            .find("found '3', expected 1 or processor.cores, which is 2") != std::string::npos);
  CHECK(refusalOf(changed("tokens: 1, threads: 1", "tokens: 1, threads: 2"))
            .find("other weights, tokens or threads") != std::string::npos);
}

TEST_CASE("more available than total memory is refused") {
  CHECK(refusalOf(changed("!assumed 4294967296", "!assumed 9294967296"))
            .find("memory.available_bytes: found '9294967296', expected at most total_bytes") !=
        std::string::npos);
}

TEST_CASE("files that are not device profiles are refused") {
  CHECK(refusalOf("").find("device.yaml: ") == 0);
  CHECK(refusalOf("- 1\n- 2\n") == "device.yaml:1: found a list, expected a map of fields");
  CHECK(refusalOf("a: [1, 2\nb: }").find("not YAML") != std::string::npos);
  CHECK(refusalOf("a: \"\\\x1b\"").find("\\x1b") != std::string::npos);
  CHECK(refusalOf("a: 1\n---\nb: 2\n").find("several YAML documents") != std::string::npos);
  CHECK(refusalOf(std::string(2 << 20, '#')).find("expected a device profile of at most") !=
        std::string::npos);
  // An endless sequence of documents.
  CHECK(refusalOf(", depth: 4, b}\x18*").find("device.yaml") == 0);
  CHECK(refusalOf(std::string(100000, '[')).find("device.yaml") == 0);
  CHECK(refusalOf(changed("device_profile: 1", "device_profile: 2")) ==
        "device.yaml: device_profile: version 2, this program reads 1");
  CHECK(refusalOf(changed("processor:", "? [1]\n: 3\nprocessor:"))
            .find("expected the name of a field") != std::string::npos);
}

TEST_CASE("an alias is refused, since aliases of aliases grow without end") {
  CHECK(refusalOf(changed("cores: !measured 2", "cores: &a !measured 2\n  x: *a")) ==
        "device.yaml:7: found an alias, expected values");
}

TEST_CASE("a missing file is refused, and named") {
  const moert::Result<DeviceProfile> device = readDeviceFile("/nowhere/device.yaml");
  REQUIRE(!device.isOk());
  CHECK(device.status().message().find("/nowhere/device.yaml") != std::string::npos);
}
