// Layerwise execution gives the results of steps, for any memory; runs that do not fit are refused.
#include "tests/unit/engine/SyntheticModel.h"

#include "compiler/calibrate/BufferUses.h"
#include "compiler/calibrate/LayerCollector.h"
#include "compiler/calibrate/Layerwise.h"
#include "compiler/calibrate/LayerwisePlan.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/Reader.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>
#include <vector>

using namespace moec;
using namespace moert;
using namespace moert::test;

namespace {

constexpr uint32_t kWindow = 9, kWindows = 5;

std::vector<int32_t> windowTokens() {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < kWindow * kWindows; ++i)
    tokens.push_back(static_cast<int32_t>((i * i + 7 * i + 3) % kVocabulary));
  return tokens;
}

struct SyntheticFile {
  std::string path;
  std::unique_ptr<Model> model;

  explicit SyntheticFile(WeightKind experts = WeightKind::kBF16,
                         WeightKind residents = WeightKind::kBF16, bool hasStates = false) {
    static int count = 0;
    // Not in /tmp: it may be tmpfs, where older kernels refuse O_DIRECT.
    path = std::filesystem::current_path() /
           ("layerwise_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".moe");
    SyntheticOptions options;
    options.experts = experts;
    options.residents = residents;
    options.hasStates = hasStates;
    auto written = writeSyntheticModel(path, options);
    REQUIRE_MESSAGE(written.isOk(), written.status().message());
    auto opened = Model::open(path);
    REQUIRE_MESSAGE(opened.isOk(), opened.status().message());
    model = std::move(opened).value();
  }
  ~SyntheticFile() { std::remove(path.c_str()); }
};

/// All results: logits and, per MoE layer, the choices of all tokens.
struct Seen {
  std::vector<float> logits;
  std::map<uint32_t, std::vector<int32_t>> experts;
  std::map<uint32_t, std::vector<float>> weights;

  bool operator==(const Seen &other) const {
    auto same = [](const std::vector<float> &a, const std::vector<float> &b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
    };
    bool isSame = same(logits, other.logits) && experts == other.experts;
    for (const auto &[layer, values] : weights)
      isSame = isSame && same(values, other.weights.at(layer));
    return isSame;
  }
};

struct StepRecorder : StepObserver {
  Seen seen;
  Status onLogits(Session &, uint32_t, std::span<const float> logits) override {
    seen.logits.insert(seen.logits.end(), logits.begin(), logits.end());
    return {};
  }
  void onRoute(Session &, uint32_t moeLayer, uint32_t, std::span<const int32_t> experts,
               std::span<const float> weights) override {
    seen.experts[moeLayer].insert(seen.experts[moeLayer].end(), experts.begin(), experts.end());
    seen.weights[moeLayer].insert(seen.weights[moeLayer].end(), weights.begin(), weights.end());
  }
};

Seen seenStepByStep(const Model &model) {
  EngineOptions options;
  options.contextTokens = kWindow;
  options.memory = BudgetSize{uint64_t(1) << 30, {}};
  options.io = IoBackend::kThreads;
  options.prefillChunk = 4;
  auto account = accountMemory(model, options);
  REQUIRE_MESSAGE(account.isOk(), account.status().message());
  auto engine = Engine::load(model, options, *account);
  REQUIRE_MESSAGE(engine.isOk(), engine.status().message());
  auto session = (*engine)->createSession();
  REQUIRE(session.isOk());
  StepRecorder recorder;
  std::vector<int32_t> tokens = windowTokens();
  for (uint32_t window = 0; window < kWindows; ++window) {
    (*session)->reset();
    Status status = (*engine)->prefill(
        {session->get(), std::span(tokens).subspan(window * kWindow, kWindow), LogitsWanted::kAll},
        recorder);
    REQUIRE_MESSAGE(status.isOk(), status.message());
  }
  return recorder.seen;
}

struct LayerRecorder : LayerObserver {
  Seen seen;
  std::map<uint32_t, std::vector<float>> inputs; // Per MoE layer.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<float>> laterScores, scores;
  std::map<int32_t, std::vector<float>> products; // What each resident matrix reads.
  uint64_t rows = 0;                              // Rows of the batch.

  Status onRouted(const Routed &routed) override {
    for (uint64_t row = 0; row < rows; ++row) {
      append(seen.experts[routed.moeLayer], routed.experts.row(row));
      append(seen.weights[routed.moeLayer], routed.weights.row(row));
      append(inputs[routed.moeLayer], routed.input.row(row));
      append(scores[{routed.moeLayer, 0}], routed.scores.row(row));
    }
    return {};
  }
  Status onLaterRouter(const Routed &routed, uint32_t ahead, LayerRows<float> later,
                       const Router &) override {
    for (uint64_t row = 0; row < rows; ++row)
      append(laterScores[{routed.moeLayer, ahead}], later.row(row));
    return {};
  }
  Status onProduct(int32_t weight, LayerRows<float> input) override {
    for (uint64_t row = 0; row < rows; ++row)
      append(products[weight], input.row(row));
    return {};
  }
  Status onLogits(uint64_t token, std::span<const float> logits) override {
    CHECK(seen.logits.size() % (rows * kVocabulary) == token * kVocabulary);
    append(seen.logits, logits);
    return {};
  }

  template <typename T> static void append(std::vector<T> &to, std::span<const T> values) {
    to.insert(to.end(), values.begin(), values.end());
  }
};

LayerwiseOptions layerwiseOptions() {
  LayerwiseOptions options;
  options.windowTokens = kWindow;
  options.windows = kWindows;
  options.wantsLogits = true;
  options.memory = BudgetSize{uint64_t(1) << 30, {}};
  options.io = IoBackend::kThreads;
  return options;
}

struct LoadedEngine {
  LayerRecorder recorder;
  LayerwiseAccount account;
  uint64_t bytesRead = 0;
};

LoadedEngine executeLayerwise(const Model &model, const LayerwiseOptions &options) {
  LoadedEngine executed;
  auto account = accountLayerwise(model, options);
  REQUIRE_MESSAGE(account.isOk(), account.status().message());
  executed.account = *account;
  auto made = LayerwiseExecutor::create(model, options, *account);
  REQUIRE_MESSAGE(made.isOk(), made.status().message());
  LayerwiseExecutor &executor = **made;
  std::vector<int32_t> tokens = windowTokens();
  std::vector<std::byte> states, next;
  for (uint32_t segment = 0; segment < executor.segments(); ++segment) {
    uint64_t before = executor.stateBytes(segment), after = executor.stateBytes(segment + 1);
    next.assign(tokens.size() * after, std::byte(0));
    Status status = executor.begin(segment);
    REQUIRE_MESSAGE(status.isOk(), status.message());
    for (uint64_t begin = 0; begin < tokens.size();) {
      uint64_t count =
          std::min<uint64_t>(uint64_t(account->batchWindows) * kWindow, tokens.size() - begin);
      executed.recorder.rows = count;
      status = executor.execute(std::span(tokens).subspan(begin, count),
                                std::span(states).subspan(begin * before, count * before),
                                std::span(next).subspan(begin * after, count * after),
                                executed.recorder);
      REQUIRE_MESSAGE(status.isOk(), status.message());
      begin += count;
    }
    states.swap(next);
  }
  executed.bytesRead = executor.bytesRead();
  return executed;
}

uint64_t smallestBudget(const Model &model, LayerwiseOptions options) {
  options.memory = BudgetSize{1, {}};
  auto refused = accountLayerwise(model, options);
  REQUIRE(!refused.isOk());
  CHECK(refused.status().code() == StatusCode::kInvalidInput);
  const std::string &message = refused.status().message();
  return std::strtoull(message.c_str() + message.find("works is ") + 9, nullptr, 10);
}

/// A bf16 matrix of few rows, which is stored in the file row by row.
std::vector<float> matrixOf(const SyntheticFile &file, const std::string &name) {
  const Artifact &artifact = file.model->artifact();
  for (const ResidentWeight &weight : artifact.residents)
    if (weight.name == name) {
      REQUIRE(weight.bytes >= uint64_t(weight.shape.rows) * weight.shape.cols * 2);
      auto source = FileSource::open(file.path);
      REQUIRE(source.isOk());
      std::vector<uint16_t> stored(uint64_t(weight.shape.rows) * weight.shape.cols);
      REQUIRE(source
                  ->read(artifact.residentOffset + weight.offset,
                         std::as_writable_bytes(std::span(stored)))
                  .isOk());
      std::vector<float> values;
      for (uint16_t bits : stored)
        values.push_back(std::bit_cast<float>(uint32_t(bits) << 16));
      return values;
    }
  FAIL("there is no weight " << name);
  return {};
}

uint64_t expertBytes(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      bytes += expert.bytes;
  return bytes;
}

} // namespace

TEST_CASE("layerwise execution gives the logits and choices of steps, float and quantized") {
  for (auto [experts, residents] : {std::pair(WeightKind::kBF16, WeightKind::kBF16),
                                    std::pair(WeightKind::kF32, WeightKind::kF32),
                                    std::pair(WeightKind::kInt4, WeightKind::kInt8)}) {
    SyntheticFile file(experts, residents);
    CHECK(executeLayerwise(*file.model, layerwiseOptions()).recorder.seen ==
          seenStepByStep(*file.model));
  }
}

TEST_CASE("layerwise execution begins the states of every window with zeros") {
  SyntheticFile file(WeightKind::kBF16, WeightKind::kBF16, true);
  LayerwiseOptions options = layerwiseOptions();
  const Seen expected = seenStepByStep(*file.model);
  CHECK(executeLayerwise(*file.model, options).recorder.seen == expected);
  options.memory = BudgetSize{smallestBudget(*file.model, options), {}};
  LoadedEngine smallest = executeLayerwise(*file.model, options);
  CHECK(smallest.account.batchWindows == 1);
  CHECK(smallest.recorder.seen == expected);
  // A window has the states of one layer.
  CHECK(windowMemoryBytes(file.model->artifact(), kWindow) ==
        32 * placeLayerKv(file.model->artifact()).bytes + 4864);
}

TEST_CASE("the rows that products read are observed, the head's too where no logits are wanted") {
  SyntheticFile file;
  LayerwiseOptions options = layerwiseOptions();
  const LayerRecorder with = executeLayerwise(*file.model, options).recorder;
  options.wantsLogits = false;
  const LayerRecorder without = executeLayerwise(*file.model, options).recorder;
  CHECK(with.products == without.products);
  const Program &program = layerwiseProgram(file.model->artifact());
  size_t products = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const auto *linear = std::get_if<LinearInstruction>(&program.instructions[i]);
    const auto *route = i + 1 < program.instructions.size()
                            ? std::get_if<RouteInstruction>(&program.instructions[i + 1])
                            : nullptr;
    if (const auto *head = std::get_if<HeadInstruction>(&program.instructions[i]))
      CHECK(with.products.at(head->weight).size() == windowTokens().size() * kHidden);
    products += linear != nullptr || std::get_if<HeadInstruction>(&program.instructions[i]);
    if (linear && route) // A router's row is that of its experts.
      CHECK(with.products.at(linear->weight) == with.inputs.at(route->moeLayer));
  }
  CHECK(with.products.size() == products);
}

TEST_CASE("the inputs of resident matrices are listed once, without routers") {
  SyntheticFile file;
  const Artifact &artifact = file.model->artifact();
  const auto inputs = residentInputsOf(artifact, layerwiseProgram(artifact));
  std::set<std::string> weights;
  size_t listed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CHECK((i == 0 || inputs[i].layer >= inputs[i - 1].layer));
    for (const std::string &weight : inputs[i].weights) {
      weights.insert(weight);
      ++listed;
      CHECK(weight.find("router") == std::string::npos);
    }
  }
  CHECK(weights.size() == listed);
  CHECK(inputs.back().layer == kAfterLayers);
  // Queries, keys and values read one row.
  CHECK(inputs.front().weights.size() == 3);
}

TEST_CASE("results do not depend on memory, threads or instruction set") {
  SyntheticFile file;
  LayerwiseOptions options = layerwiseOptions();
  Seen expected = executeLayerwise(*file.model, options).recorder.seen;
  options.threads = 3;
  CHECK(executeLayerwise(*file.model, options).recorder.seen == expected);
  options.isa = Isa::kReference;
  CHECK(executeLayerwise(*file.model, options).recorder.seen == expected);
  options.memory = BudgetSize{smallestBudget(*file.model, options), {}};
  LoadedEngine smallest = executeLayerwise(*file.model, options);
  CHECK(smallest.account.batchWindows == 1);
  CHECK(!smallest.account.holdsLayer);
  CHECK(smallest.recorder.seen == expected);
}

TEST_CASE(
    "with a pool for a whole layer each expert is read once, and the resident weights twice") {
  SyntheticFile file;
  LoadedEngine executed = executeLayerwise(*file.model, layerwiseOptions());
  REQUIRE(executed.account.holdsLayer);
  REQUIRE(executed.account.batchWindows < kWindows);
  const Artifact &artifact = file.model->artifact();
  // Once to check them, once to use them; segments may begin and end inside a block.
  uint64_t residents = 2 * artifact.residentBytes + 2 * 4096 * (kLayers + 2);
  CHECK(executed.bytesRead <= expertBytes(artifact) + residents);
}

TEST_CASE("the smallest budget works and one byte less is refused") {
  SyntheticFile file;
  LayerwiseOptions options = layerwiseOptions();
  uint64_t smallest = smallestBudget(*file.model, options);
  // The memory of the process itself is measured each time, and may change a little.
  options.memory = BudgetSize{smallest + 65536, {}};
  CHECK(accountLayerwise(*file.model, options).isOk());
  options.memory = BudgetSize{smallest - 65536, {}};
  CHECK(!accountLayerwise(*file.model, options).isOk());
}

TEST_CASE("without logits the head's weights are not read") {
  SyntheticFile file;
  LayerwiseOptions options = layerwiseOptions();
  uint64_t whole = executeLayerwise(*file.model, options).bytesRead;
  options.wantsLogits = false;
  LoadedEngine executed = executeLayerwise(*file.model, options);
  CHECK(executed.recorder.seen.logits.empty());
  CHECK(executed.bytesRead < whole);
  CHECK(executed.recorder.seen.experts == seenStepByStep(*file.model).experts);
}

TEST_CASE("later routers get this layer's input") {
  SyntheticFile file;
  LayerwiseOptions options = layerwiseOptions();
  options.laterRouters = 2;
  LoadedEngine executed = executeLayerwise(*file.model, options);
  CHECK(executed.recorder.laterScores.size() == 3); // 0 to 1, 0 to 2, 1 to 2.
  for (const auto &[layers, scores] : executed.recorder.laterScores) {
    std::vector<float> router =
        matrixOf(file, strCat("layer", layers.first + layers.second, ".router"));
    const std::vector<float> &inputs = executed.recorder.inputs.at(layers.first);
    REQUIRE(scores.size() == uint64_t(kWindow) * kWindows * kExperts);
    for (size_t i = 0; i < scores.size(); ++i) {
      double sum = 0;
      for (size_t c = 0; c < kHidden; ++c)
        sum += static_cast<double>(router[i % kExperts * kHidden + c]) *
               static_cast<double>(inputs[i / kExperts * kHidden + c]);
      // 64 products of f32, each rounded once.
      CHECK(static_cast<double>(scores[i]) == doctest::Approx(sum).epsilon(1e-5).scale(1));
    }
  }
}

TEST_CASE("a batch that is not whole windows, or beyond the account, is refused") {
  SyntheticFile file;
  LayerwiseOptions options = layerwiseOptions();
  auto account = accountLayerwise(*file.model, options);
  REQUIRE(account.isOk());
  auto executor = LayerwiseExecutor::create(*file.model, options, *account);
  REQUIRE(executor.isOk());
  LayerRecorder recorder;
  std::vector<int32_t> tokens(kWindow * 100, 1);
  std::vector<std::byte> states(tokens.size() * (*executor)->stateBytes(1));
  auto refuses = [&](size_t count) {
    auto out = std::span(states).first(count * (*executor)->stateBytes(1));
    return !(*executor)->execute(std::span(tokens).first(count), {}, out, recorder).isOk();
  };
  CHECK(refuses(kWindow)); // Before begin().
  REQUIRE((*executor)->begin(0).isOk());
  CHECK(!refuses(kWindow));
  CHECK(refuses(kWindow - 1));
  CHECK(refuses((account->batchWindows + 1) * kWindow));
  tokens[0] = kVocabulary;
  CHECK(refuses(kWindow));
}

TEST_CASE("a window beyond the model's positions is refused with both numbers") {
  SyntheticFile file;
  LayerwiseOptions options = layerwiseOptions();
  options.windowTokens = file.model->artifact().model.maxPositions + 1;
  auto refused = accountLayerwise(*file.model, options);
  REQUIRE(!refused.isOk());
  CHECK(refused.status().message().find(std::to_string(options.windowTokens)) != std::string::npos);
}

TEST_CASE("a layer that reads another's keys is refused") {
  SyntheticFile file;
  Artifact artifact = file.model->artifact();
  Program program = layerwiseProgram(artifact);
  for (Instruction &instruction : program.instructions)
    if (auto *attend = std::get_if<AttendInstruction>(&instruction))
      attend->slot = 0;
  auto segments = segmentsOf(artifact, program, layerwiseOptions());
  REQUIRE(!segments.isOk());
  CHECK(segments.status().message().find("cannot be executed layer by layer") != std::string::npos);
}

TEST_CASE("between layers of the synthetic model one row of the hidden size is live") {
  SyntheticFile file;
  const Artifact &artifact = file.model->artifact();
  auto segments = segmentsOf(artifact, layerwiseProgram(artifact), layerwiseOptions());
  REQUIRE(segments.isOk());
  REQUIRE(segments->size() == kLayers + 2);
  CHECK((*segments)[0].stateBytes == 0);
  for (size_t i = 1; i < segments->size(); ++i)
    CHECK((*segments)[i].stateBytes == kHidden * sizeof(float));
}

TEST_CASE("the experts' input is found before its quantization and its weights") {
  SyntheticFile file(WeightKind::kInt8);
  const Artifact &artifact = file.model->artifact();
  Program program = layerwiseProgram(artifact);
  const auto inputOf = [&] {
    auto segments = segmentsOf(artifact, program, layerwiseOptions());
    REQUIRE_MESSAGE(segments.isOk(), segments.status().message());
    for (const Segment &segment : *segments)
      if (segment.moeLayer == 0u)
        return std::pair(segment.routerInput, segment.expertsInput);
    return std::pair(kNone, kNone);
  };
  const auto inputs = inputOf();
  const auto routerInput = inputs.first, shared = inputs.second;
  CHECK(shared == routerInput);

  // A norm for the experts alone, and then also weights that multiply its result.
  const auto newBuffer = [&] {
    program.buffers.push_back(program.buffers[size_t(routerInput)]);
    return int32_t(program.buffers.size()) - 1;
  };
  const auto insertAt = [&](ptrdiff_t index, const Instruction &instruction) {
    program.instructions.insert(program.instructions.begin() + index, instruction);
    program.layers.insert(program.layers.begin() + index, program.layers[size_t(index)]);
  };
  const int32_t normed = newBuffer(), scaled = newBuffer();
  const auto experts =
      std::find_if(program.instructions.begin(), program.instructions.end(), [](const auto &each) {
        return std::holds_alternative<ExpertsInstruction>(each);
      });
  REQUIRE(experts != program.instructions.end());
  const ExpertsInstruction first = std::get<ExpertsInstruction>(*experts);
  const auto quantize =
      std::find_if(program.instructions.begin(), experts, [&](const Instruction &each) {
        const auto *found = std::get_if<QuantizeInstruction>(&each);
        return found && found->dst == first.src;
      });
  REQUIRE(quantize != experts);
  const ptrdiff_t at = quantize - program.instructions.begin();
  std::get<QuantizeInstruction>(*quantize).src = normed;
  insertAt(at, NormInstruction{routerInput, normed, kNone, kNone, NormKind::kRms, 1e-5f, 0});
  CHECK(inputOf() == std::pair(routerInput, normed));
  std::get<QuantizeInstruction>(program.instructions[size_t(at) + 1]).src = scaled;
  insertAt(at + 1, ScaleInputInstruction{normed, first.weights, scaled});
  CHECK(inputOf() == std::pair(routerInput, normed));
}

TEST_CASE("memory goes to the layer if it fits, and to the batch if not") {
  auto split = [](uint64_t budget) {
    return splitLayerwise(8, 10, 40, 100, [budget](const LayerwiseSplit &tried) {
      return tried.batchWindows * 20 + tried.poolPages <= budget;
    });
  };
  CHECK(!split(29));
  CHECK(split(30)->poolPages == 10);
  CHECK(split(45)->poolPages == 25); // One window, and the rest.
  CHECK(split(119)->poolPages == 59);
  CHECK(split(119)->batchWindows == 3);
  CHECK(split(120)->poolPages == 100);
  CHECK(split(120)->batchWindows == 1);
  CHECK(split(1000)->poolPages == 100);
  CHECK(split(1000)->batchWindows == 4);
}
