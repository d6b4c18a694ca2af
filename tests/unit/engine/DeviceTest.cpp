// Engines on an emulated device: the same bytes as on the processor.
#include "tests/unit/engine/EmulatedDevice.h"
#include "tests/unit/engine/EngineFixture.h"

#include "runtime/engine/device/DeviceAccount.h"

#include <csignal>
#include <sys/wait.h>

using namespace moert;
using namespace moert::test;

namespace {

constexpr uint64_t kDeviceBytes = uint64_t(64) << 20, kBytesPerMicrosecond = 500;

/// Logits of a prompt, then of tokens decoded one by one.
std::vector<float> logitsOf(const std::string &path, const EngineOptions &options) {
  Loaded loaded = load(path, options);
  Recorder recorder;
  const std::span<const int32_t> prompt(kPrompt);
  for (size_t i = 0; i < prompt.size();) {
    const size_t count = i == 0 ? 10 : 1;
    const Status done = loaded.engine->prefill(
        {loaded.session.get(), prompt.subspan(i, count), LogitsWanted::kAll}, recorder);
    REQUIRE_MESSAGE(done.isOk(), done.message());
    i += count;
  }
  return recorder.logits;
}

/// The smallest budget of the device.
uint64_t smallestOnDevice(const std::string &path, const EngineOptions &options) {
  const auto model = Model::open(path).value();
  const Artifact &artifact = model->artifact();
  const auto host = accountMemory(*model, options).value();
  return deviceNeedsOf(artifact, host).total() +
         smallestPoolPages(cacheShapeOf(artifact)) * artifact.pageBytes;
}

} // namespace

TEST_CASE("a device computes the bytes of the processor, with every width and budget") {
  struct Case {
    SyntheticOptions model;
    uint32_t chunk;
  };
  using enum WeightKind;
  SyntheticOptions nested{kInt2, kInt8, 9}, hadamard{kInt4, kInt8, 10}, narrow{kInt8, kBF16, 11};
  nested.slices = {{kInt2, kInt2}, {kInt2, kInt1}};
  hadamard.hasHadamard = true;
  narrow.kvKind = KvKind::kF16;
  SyntheticOptions codes = narrow;
  codes.kvKind = KvKind::kInt8;
  for (const Case &one :
       {Case{{kBF16, kF32, 7}, 4}, Case{{kInt8, kInt8, 7}, 64}, Case{{kInt4, kInt8, 7}, 1},
        Case{{kInt2, kInt8, 8}, 7}, Case{{kNl4, kInt8, 8}, 7}, Case{nested, 5}, Case{hadamard, 5},
        Case{narrow, 5}, Case{codes, 5}}) {
    TemporaryArtifact artifact(one.model);
    EngineOptions options = baseOptions();
    options.prefillChunk = one.chunk;
    const std::vector<float> expected = logitsOf(artifact.path, options);
    EmulatedDevice device(kDeviceBytes, kBytesPerMicrosecond);
    options.device = &device.backend();
    for (const std::optional<BudgetSize> &budget :
         {std::optional<BudgetSize>(), std::optional(BudgetSize{0, 0.25}),
          std::optional(BudgetSize{smallestOnDevice(artifact.path, options), {}})}) {
      options.deviceMemory = budget;
      CHECK(sameBytes(expected, logitsOf(artifact.path, options)));
      options.memory = BudgetSize{smallestBudget(artifact.path, options), {}};
      CHECK(sameBytes(expected, logitsOf(artifact.path, options)));
      options.memory.reset();
    }
    CHECK(device.allocatedBytes() == 0);
  }
}

TEST_CASE("an expert that stays on the device is copied once, until the cache begins again") {
  TemporaryArtifact artifact;
  EmulatedDevice device(kDeviceBytes, kBytesPerMicrosecond);
  EngineOptions options = baseOptions();
  options.device = &device.backend();
  Loaded loaded = load(artifact.path, options);
  // Bytes that a prompt copies to the device, and what it counts.
  struct Copied {
    uint64_t bytes, bytesRead, misses;
  };
  const auto prefill = [&] {
    Silent silent;
    loaded.session->reset();
    const uint64_t before = device.copiedToDevice();
    REQUIRE(loaded.engine->prefill({loaded.session.get(), kPrompt}, silent).isOk());
    Copied copied = {device.copiedToDevice() - before, 0, 0};
    for (const LayerProfile &layer : loaded.engine->lastStep()) {
      copied.bytesRead += layer.bytesRead;
      copied.misses += layer.misses;
    }
    return copied;
  };
  const Copied first = prefill(), second = prefill();
  // At least an expert of each layer.
  CHECK(first.bytes - second.bytes >=
        kLayers * recordBytesOf(loaded.model->artifact().moeLayers.front()).front());
  CHECK(second.bytesRead == 0);
  CHECK(second.misses == 0);
  REQUIRE(loaded.engine->restartCache().isOk());
  CHECK(prefill().bytes == first.bytes);
}

TEST_CASE("an engine on a device refuses another budget") {
  TemporaryArtifact artifact;
  EmulatedDevice device(kDeviceBytes, kBytesPerMicrosecond);
  EngineOptions options = baseOptions();
  options.device = &device.backend();
  Loaded loaded = load(artifact.path, options);
  const Status refused = loaded.engine->setBudget(BudgetSize{0, 0.5});
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("an engine on a device") != std::string::npos);
}

TEST_CASE("the budget of a device is never exceeded, and the smallest that works is named") {
  TemporaryArtifact artifact;
  EmulatedDevice device(kDeviceBytes, kBytesPerMicrosecond);
  EngineOptions options = baseOptions();
  options.device = &device.backend();
  const uint64_t smallest = smallestOnDevice(artifact.path, options);
  options.deviceMemory = BudgetSize{smallest, {}};
  {
    Loaded loaded = load(artifact.path, options);
    CHECK(device.allocatedBytes() <= smallest);
    CHECK(device.allocatedBytes() >= loaded.model->artifact().residentBytes);
  }
  options.deviceMemory = BudgetSize{smallest - 1, {}};
  const auto model = Model::open(artifact.path).value();
  const auto account = accountMemory(*model, options).value();
  const auto refused = Engine::load(*model, options, account);
  REQUIRE_FALSE(refused.isOk());
  CHECK(refused.status().message().find("the smallest budget that works is ") != std::string::npos);
  CHECK(device.allocatedBytes() == 0);
}

TEST_CASE("a model with an instruction that devices do not have is refused by its name") {
  SyntheticOptions model;
  model.hasStates = true;
  TemporaryArtifact artifact(model);
  EmulatedDevice device(kDeviceBytes, kBytesPerMicrosecond);
  EngineOptions options = baseOptions();
  options.device = &device.backend();
  const auto opened = Model::open(artifact.path).value();
  const auto account = accountMemory(*opened, options).value();
  const auto refused = Engine::load(*opened, options, account);
  REQUIRE_FALSE(refused.isOk());
  CHECK(refused.status().message().find("'convolve'") != std::string::npos);
}

TEST_CASE("a prefix that is copied on the device continues as if it had been computed") {
  TemporaryArtifact artifact;
  EmulatedDevice device(kDeviceBytes, kBytesPerMicrosecond);
  EngineOptions options = baseOptions();
  options.sessions = 2;
  options.device = &device.backend();
  Loaded loaded = load(artifact.path, options);
  const std::span<const int32_t> prompt(kPrompt);
  Recorder whole, rest;
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), prompt, LogitsWanted::kLast}, whole).isOk());
  auto other = loaded.engine->createSession(static_cast<uint32_t>(prompt.size()));
  REQUIRE(other.isOk());
  REQUIRE(loaded.engine->copyPrefix(*loaded.session, **other, 9).isOk());
  REQUIRE(
      loaded.engine->prefill({other->get(), prompt.subspan(9), LogitsWanted::kLast}, rest).isOk());
  CHECK(sameBytes(whole.logits, rest.logits));
}

TEST_CASE("a step that failed on the device leaves the engine able to make the next one") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.prefillChunk = 6;
  const std::vector<float> expected = logitsOf(artifact.path, options);
  for (uint64_t launches : {1, 20, 33, 34, 35, 36, 37, 50}) {
    EmulatedDevice device(kDeviceBytes, kBytesPerMicrosecond);
    EngineOptions onDevice = options;
    onDevice.device = &device.backend();
    onDevice.deviceMemory = BudgetSize{smallestOnDevice(artifact.path, onDevice), {}};
    Loaded loaded = load(artifact.path, onDevice);
    device.failLaunch(launches);
    Recorder recorder;
    const SessionTokens tokens = {loaded.session.get(), kPrompt, LogitsWanted::kAll};
    const Status failed = loaded.engine->prefill(tokens, recorder);
    CHECK(failed.message().find("an emulated device: a launch that fails") != std::string::npos);
    loaded.session->reset();
    recorder = {};
    REQUIRE(loaded.engine->prefill(tokens, recorder).isOk());
    CHECK(sameBytes(expected, recorder.logits));
  }
}

TEST_CASE("the host cannot access the memory of the emulated device") {
  EmulatedDevice device(1 << 20, kBytesPerMicrosecond);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    _exit(static_cast<int>(*const_cast<const volatile std::byte *>(device.memory())));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
}
