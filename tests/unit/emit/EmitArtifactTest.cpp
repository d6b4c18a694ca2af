#include "compiler/emit/EmitArtifact.h"

#include "compiler/quantize/PackWeights.h"
#include "runtime/format/Verify.h"
#include "tests/unit/emit/TinyPlan.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/support/FileSizeLimit.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

using namespace moec;
using namespace moert;

namespace {

/// The tiny checkpoint in its own directory.
struct Fixture {
  TemporaryDirectory directory;
  std::string checkpointPath = directory.path("checkpoint");
  std::string output = directory.path("out.moe");
  EmitPlan plan = tinyPlan();
  Tensors tensors = randomTensors(plan, 5);

  Fixture() {
    plan.paths.assign(5000, std::byte(6));
    plan.trace.assign(100, std::byte(5));
    writeCheckpoint(checkpointPath, plan, tensors);
  }

  Result<EmitResult> emit(EmitOptions options = {}) {
    auto checkpoint = Checkpoint::open(checkpointPath);
    REQUIRE_MESSAGE(checkpoint.isOk(), checkpoint.status().message());
    options.outputPath = output;
    return emitArtifact(plan, *checkpoint, options);
  }
  std::string emitted(EmitOptions options = {}) {
    auto result = emit(options);
    REQUIRE_MESSAGE(result.isOk(), result.status().message());
    return contentOf(output);
  }
};

/// Sets a stop flag after a number of bytes.
class StoppingProgress final : public Progress {
public:
  explicit StoppingProgress(uint64_t afterBytes) : limit(afterBytes) {}
  void begin(std::string_view, uint64_t, uint64_t) override {}
  void advanceTo(uint64_t doneBytes) override {
    if (doneBytes >= limit)
      stop = true;
  }
  void end() override {}

  std::atomic<bool> stop = false;

private:
  uint64_t limit;
};

} // namespace

static Status interruptAfter(Fixture &fixture, uint64_t bytes) {
  StoppingProgress progress(bytes);
  EmitOptions options;
  options.progress = &progress;
  options.stop = &progress.stop;
  return fixture.emit(options).status();
}

TEST_CASE("an emitted file reads and verifies") {
  Fixture fixture;
  fixture.emitted();
  auto source = FileSource::open(fixture.output);
  REQUIRE(source.isOk());
  Status status = verifyArtifact(*source);
  CHECK_MESSAGE(status.isOk(), status.message());
}

TEST_CASE("paths and trace are stored unchanged, and absent if not given") {
  Fixture fixture;
  fixture.emitted();
  auto source = FileSource::open(fixture.output);
  REQUIRE(source.isOk());
  auto artifact = readArtifact(*source);
  REQUIRE(artifact.isOk());
  CHECK(*readPaths(*source, *artifact) == fixture.plan.paths);
  CHECK(*readTrace(*source, *artifact) == fixture.plan.trace);

  fixture.plan.paths.clear();
  fixture.plan.trace.clear();
  fixture.emitted();
  auto without = readArtifact(fixture.output);
  REQUIRE(without.isOk());
  CHECK(without->pathsBytes == 0);
  CHECK(without->traceBytes == 0);
  CHECK(without->manifestOffset < artifact->manifestOffset);
}

TEST_CASE("other paths or another trace refuse to resume") {
  for (auto section : {&EmitPlan::paths, &EmitPlan::trace}) {
    Fixture fixture;
    REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
    (fixture.plan.*section).back() ^= std::byte(1);
    EmitOptions options;
    options.resume = true;
    CHECK(fixture.emit(options).status().code() == StatusCode::kInvalidInput);
  }
}

TEST_CASE("nothing but the output is left") {
  Fixture fixture;
  fixture.emitted();
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint", "out.moe"});
}

// No bytes are anywhere.
static bool isAt(const std::string &file, uint64_t offset, const std::vector<std::byte> &bytes) {
  return bytes.empty() || std::memcmp(file.data() + offset, bytes.data(), bytes.size()) == 0;
}

// The artifact gives the position of a matrix; packing the whole tensor gives its bytes.
static void checkStored(const std::string &file, uint64_t offset, const MatrixShape &shape,
                        const WeightFormat &format, const std::vector<float> &values) {
  auto layout = layoutOf(shape, format);
  auto packed = packWeights(shape, {&format, 1}, 0, shape.rows, values);
  REQUIRE(layout.isOk());
  REQUIRE(packed.isOk());
  REQUIRE(offset + layout->bytes <= file.size());
  const PackedWeights &part = packed->front();
  CHECK(isAt(file, offset, part.codes));
  CHECK(isAt(file, offset + layout->scalesOffset, part.scales));
  CHECK(isAt(file, offset + layout->offsetsOffset, part.offsets));
}

// The same for a matrix of an expert, in each of its slices.
static void checkExpertMatrix(const std::string &file, const MoeLayer &layer, const Expert &expert,
                              size_t matrix, const std::vector<float> &values) {
  const MatrixShape &shape = layer.matrices[matrix].shape;
  const std::vector<WeightFormat> formats = formatsOf(expert.slices, layer.matrices[matrix].part);
  auto packed = packWeights(shape, formats, 0, shape.rows, values);
  REQUIRE(packed.isOk());
  for (size_t s = 0; s < formats.size(); ++s) {
    const Slice &slice = expert.slices[s];
    auto places = sliceLayoutOf(layer, slice.format);
    auto layout = layoutOf(shape, formats[s]);
    REQUIRE(places.isOk());
    const PackedWeights &part = (*packed)[s];
    uint64_t begin = expert.fileOffset + slice.offset + places->matrixOffsets[matrix];
    REQUIRE(begin + layout->bytes <= file.size());
    CHECK(isAt(file, begin, part.codes));
    for (size_t p = 0; p < part.lowPlanes.size(); ++p)
      CHECK(isAt(file, begin + layout->planeOffsets.at(p + 1), part.lowPlanes[p]));
    if (s == 0)
      CHECK(isAt(file, begin + layout->scalesOffset, part.scales));
    CHECK(isAt(file, begin + layout->rowScalesOffset, part.rowScales));
    CHECK(isAt(file, begin + layout->offsetsOffset, part.offsets));
  }
}

TEST_CASE("every weight lies where the artifact says, packed from its tensor") {
  for (const Artifact &formats :
       {tinyArtifact(), tinyWiderDownArtifact(), tinyHadamardArtifact()}) {
    Fixture fixture;
    fixture.plan.artifact.moeLayers[1].experts = formats.moeLayers[1].experts;
    fixture.plan.artifact.programs = formats.programs;
    std::string file = fixture.emitted();
    auto artifact = readArtifact(fixture.output);
    REQUIRE(artifact.isOk());
    for (const ResidentWeight &weight : artifact->residents)
      checkStored(file, artifact->residentOffset + weight.offset, weight.shape, weight.format,
                  fixture.tensors.at(weight.name));
    for (size_t l = 0; l < artifact->moeLayers.size(); ++l)
      for (size_t e = 0; e < artifact->moeLayers[l].experts.size(); ++e)
        for (size_t m = 0; m < artifact->moeLayers[l].matrices.size(); ++m)
          checkExpertMatrix(file, artifact->moeLayers[l], artifact->moeLayers[l].experts[e], m,
                            fixture.tensors.at(fixture.plan.expertSources[l][e][m].tensor));
  }
}

TEST_CASE("measurements reach the file unchanged") {
  Fixture fixture;
  fixture.emitted();
  auto without = readArtifact(fixture.output);
  REQUIRE(without.isOk());
  CHECK_FALSE(without->measured);
  fixture.plan.artifact.measured = tinyMeasured();
  fixture.emitted();
  auto with = readArtifact(fixture.output);
  REQUIRE(with.isOk());
  CHECK(with->measured == tinyMeasured());
}

TEST_CASE("the file does not depend on the number of threads") {
  Fixture fixture;
  std::string alone = fixture.emitted();
  for (unsigned threads : {2u, 7u, 64u}) {
    EmitOptions options;
    options.threads = threads;
    CHECK(fixture.emitted(options) == alone);
  }
}

TEST_CASE("a checkpoint in another directory gives the same file") {
  Fixture first, second;
  CHECK(first.emitted() == second.emitted());
}

TEST_CASE("an interrupted emission leaves what resumes to the same bytes, wherever it stopped") {
  Fixture whole;
  std::string expected = whole.emitted();
  for (uint64_t bytes = 0; bytes < expected.size(); bytes += 4096) {
    Fixture fixture;
    Status status = interruptAfter(fixture, bytes);
    if (status.isOk()) // Too late to interrupt.
      continue;
    REQUIRE(status.code() == StatusCode::kInterrupted);
    CHECK(fixture.directory.fileNames() ==
          std::vector<std::string>{"checkpoint", "out.moe.partial", "out.moe.partial.journal"});
    EmitOptions options;
    options.resume = true;
    CHECK(fixture.emitted(options) == expected);
    CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint", "out.moe"});
  }
}

TEST_CASE("a resumed emission does not rewrite finished parts") {
  Fixture fixture;
  uint64_t half = 60000;
  REQUIRE(interruptAfter(fixture, half).code() == StatusCode::kInterrupted);
  EmitOptions options;
  options.resume = true;
  auto result = fixture.emit(options);
  REQUIRE(result.isOk());
  CHECK(result->resumedBytes > half / 2);
  CHECK(result->resumedBytes < result->fileBytes);
}

TEST_CASE("an emission can be interrupted and resumed again and again") {
  Fixture whole, fixture;
  std::string expected = whole.emitted();
  for (uint64_t bytes = 20000; bytes < 60000; bytes += 10000) {
    StoppingProgress progress(bytes);
    EmitOptions options;
    options.progress = &progress;
    options.stop = &progress.stop;
    options.resume = true;
    REQUIRE(fixture.emit(options).status().code() == StatusCode::kInterrupted);
  }
  EmitOptions options;
  options.resume = true;
  CHECK(fixture.emitted(options) == expected);
}

TEST_CASE("with nothing to resume an emission starts from the beginning") {
  Fixture whole, fixture;
  EmitOptions options;
  options.resume = true;
  CHECK(fixture.emitted(options) == whole.emitted());
}

TEST_CASE("without --resume an emission starts from the beginning") {
  Fixture whole, fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  auto result = fixture.emit();
  REQUIRE(result.isOk());
  CHECK(result->resumedBytes == 0);
  CHECK(contentOf(fixture.output) == whole.emitted());
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint", "out.moe"});
}

static std::string refusalToResume(Fixture &fixture) {
  EmitOptions options;
  options.resume = true;
  Status status = fixture.emit(options).status();
  REQUIRE(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("--restart begins anew") != std::string::npos);
  return status.message();
}

TEST_CASE("an emission of other weights is not resumed, and not lost") {
  Fixture fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  auto before = fixture.directory.fileNames();
  const std::filesystem::path weights = fixture.checkpointPath + "/model.safetensors";
  const auto written = std::filesystem::last_write_time(weights);
  writeCheckpoint(fixture.checkpointPath, fixture.plan, randomTensors(fixture.plan, 6));
  // File times may have a coarse resolution.
  std::filesystem::last_write_time(weights, written + std::chrono::seconds(1));
  CHECK(refusalToResume(fixture).find("have changed") != std::string::npos);
  CHECK(fixture.directory.fileNames() == before);
}

TEST_CASE("an emission of another plan is not resumed") {
  Fixture fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  fixture.plan.artifact.plans[0].prefillChunk = 3;
  CHECK(refusalToResume(fixture).find("have changed") != std::string::npos);
}

TEST_CASE("a damaged unfinished emission is refused, or started over if the option is set") {
  Fixture whole;
  const std::string expected = whole.emitted();
  for (auto damage :
       {+[](const std::string &partial) { std::filesystem::remove(partial); },
        +[](const std::string &partial) { std::filesystem::resize_file(partial, 9); },
        +[](const std::string &partial) { std::ofstream(partial + ".journal") << "nothing\n"; },
        +[](const std::string &partial) {
          std::filesystem::remove(partial + ".journal");
          REQUIRE(::mkfifo((partial + ".journal").c_str(), 0600) == 0);
        }}) {
    Fixture fixture;
    REQUIRE(interruptAfter(fixture, 60000).code() == StatusCode::kInterrupted);
    damage(fixture.output + ".partial");
    refusalToResume(fixture);
    EmitOptions options;
    options.resume = options.startsOverIfRefused = true;
    auto result = fixture.emit(options);
    REQUIRE_MESSAGE(result.isOk(), result.status().message());
    CHECK(result->hasStartedOver);
    CHECK(contentOf(fixture.output) == expected);
    CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint", "out.moe"});
  }
}

TEST_CASE("an emission of another plan is started over if the option is set") {
  Fixture fixture, whole;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  for (Fixture *each : {&fixture, &whole})
    each->plan.artifact.plans[0].prefillChunk = 3;
  EmitOptions options;
  options.resume = options.startsOverIfRefused = true;
  auto result = fixture.emit(options);
  REQUIRE(result.isOk());
  CHECK(result->hasStartedOver);
  CHECK(result->resumedBytes == 0);
  CHECK(contentOf(fixture.output) == whole.emitted());
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint", "out.moe"});
}

TEST_CASE("an interruption whose journal cannot be written leaves no partial file") {
  Fixture fixture;
  std::filesystem::create_directory(fixture.output + ".partial.journal");
  Status status = interruptAfter(fixture, 0);
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(fixture.directory.fileNames() ==
        std::vector<std::string>{"checkpoint", "out.moe.partial.journal"});
}

TEST_CASE("a partial file that is shorter than its journal covers is not resumed") {
  Fixture fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  std::ofstream(fixture.output + ".partial", std::ios::trunc) << "short";
  CHECK(refusalToResume(fixture).find("has 5 bytes, its journal expects") != std::string::npos);
}

TEST_CASE("a journal without its partial file is not resumed") {
  Fixture fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  REQUIRE(std::remove((fixture.output + ".partial").c_str()) == 0);
  CHECK(refusalToResume(fixture).find("is gone") != std::string::npos);
  CHECK(fixture.directory.fileNames() ==
        std::vector<std::string>{"checkpoint", "out.moe.partial.journal"});
}

TEST_CASE("a journal with an unexpected line is not resumed") {
  Fixture fixture;
  REQUIRE(interruptAfter(fixture, 60000).code() == StatusCode::kInterrupted);
  std::string journal = contentOf(fixture.output + ".partial.journal");
  std::string names[] = {"resident", "record 0 0", "moec-journal"};
  for (const std::string &name : names) {
    std::string broken = journal;
    broken.replace(broken.find(name), name.size(), "nonsense");
    std::ofstream(fixture.output + ".partial.journal") << broken;
    refusalToResume(fixture);
  }
}

TEST_CASE("a journal whose last line was cut off resumes from the line before") {
  Fixture whole, fixture;
  REQUIRE(interruptAfter(fixture, 60000).code() == StatusCode::kInterrupted);
  std::string path = fixture.output + ".partial.journal", journal = contentOf(path);
  REQUIRE(journal.find("record 0 1") != std::string::npos);
  std::ofstream(path) << journal.substr(0, journal.size() - 3);
  EmitOptions options;
  options.resume = true;
  CHECK(fixture.emitted(options) == whole.emitted());
}

TEST_CASE("weights that are not finite are refused with the tensor's name, and nothing is left") {
  Fixture fixture;
  fixture.tensors["layer1.expert2.down"][7] = NAN;
  writeCheckpoint(fixture.checkpointPath, fixture.plan, fixture.tensors);
  Status status = fixture.emit().status();
  REQUIRE(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("tensor layer1.expert2.down: the value in row 0, column 7 is nan") !=
        std::string::npos);
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint"});
}

TEST_CASE("the first of several broken tensors is named, whatever the number of threads") {
  for (unsigned threads : {1u, 4u, 16u}) {
    Fixture fixture;
    for (const char *name : {"layer0.expert3.up", "layer1.expert0.gate", "layer1.expert3.down"})
      fixture.tensors[name][0] = INFINITY;
    writeCheckpoint(fixture.checkpointPath, fixture.plan, fixture.tensors);
    EmitOptions options;
    options.threads = threads;
    Status status = fixture.emit(options).status();
    REQUIRE(!status.isOk());
    CHECK(status.message().find("layer0.expert3.up") != std::string::npos);
  }
}

TEST_CASE("a failed emission leaves the output that was there before") {
  Fixture fixture;
  std::string before = fixture.emitted();
  fixture.tensors["q"][0] = NAN;
  writeCheckpoint(fixture.checkpointPath, fixture.plan, fixture.tensors);
  REQUIRE(!fixture.emit().isOk());
  CHECK(contentOf(fixture.output) == before);
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint", "out.moe"});
}

static void failAt(Fixture &fixture, uint64_t bytes, const EmitOptions &options) {
  Status status;
  {
    FileSizeLimit limit(bytes);
    status = fixture.emit(options).status();
  }
  CHECK(status.code() == StatusCode::kFailed);
  CHECK_MESSAGE(status.message().find("File too large") != std::string::npos, status.message());
}

// Resumes from at least leastBytes, with the same result as an uninterrupted emission.
static void checkResumes(Fixture &fixture, uint64_t leastBytes) {
  EmitOptions options;
  options.resume = true;
  auto result = fixture.emit(options);
  REQUIRE_MESSAGE(result.isOk(), result.status().message());
  CHECK(result->resumedBytes >= leastBytes);
  CHECK(contentOf(fixture.output) == Fixture().emitted());
}

TEST_CASE("a resumed emission that fails can be resumed again") {
  Fixture fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  const auto before = fixture.directory.fileNames();
  EmitOptions options;
  options.resume = true;
  failAt(fixture, 60000, options);
  CHECK(fixture.directory.fileNames() == before);
  checkResumes(fixture, 20000);
}

TEST_CASE("a failed emission leaves the parts in its journal, and nothing without a journal") {
  Fixture fixture;
  EmitOptions options;
  failAt(fixture, 60000, options);
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint"});
  options.journalIntervalBytes = 10000;
  failAt(fixture, 60000, options);
  checkResumes(fixture, 20000);
}

TEST_CASE("files left by a kill after the renaming do not disturb later emissions") {
  Fixture whole, fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  const std::string left = contentOf(fixture.output + ".partial.journal");
  EmitOptions options;
  options.resume = true;
  fixture.emitted(options);
  fixture.directory.write("out.moe.partial.journal", left);
  CHECK(fixture.emitted(options) == whole.emitted());
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint", "out.moe"});
}

namespace {

/// Creates a directory at the output path before the file gets its name.
class BlockingProgress final : public Progress {
public:
  explicit BlockingProgress(std::string outputPath) : path(std::move(outputPath)) {}
  void begin(std::string_view, uint64_t, uint64_t) override {}
  void advanceTo(uint64_t) override { std::filesystem::create_directory(path); }
  void end() override {}

private:
  std::string path;
};

} // namespace

TEST_CASE("an emission whose final renaming fails can be resumed") {
  Fixture fixture;
  BlockingProgress progress(fixture.output);
  EmitOptions options;
  options.journalIntervalBytes = 10000;
  options.progress = &progress;
  CHECK(fixture.emit(options).status().code() == StatusCode::kFailed);
  std::filesystem::remove(fixture.output);
  checkResumes(fixture, 1);
}

TEST_CASE("a resumed emission whose input is refused removes nothing") {
  Fixture fixture;
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  const auto before = fixture.directory.fileNames();
  const std::filesystem::path weights = fixture.checkpointPath + "/model.safetensors";
  const auto written = std::filesystem::last_write_time(weights);
  fixture.tensors["layer1.expert3.down"][0] = NAN;
  writeCheckpoint(fixture.checkpointPath, fixture.plan, fixture.tensors);
  std::filesystem::last_write_time(weights, written); // Appears unchanged.
  EmitOptions options;
  options.resume = true;
  Status status = fixture.emit(options).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK_MESSAGE(status.message().find("layer1.expert3.down") != std::string::npos,
                status.message());
  CHECK(fixture.directory.fileNames() == before);
}

TEST_CASE("a plan that a reader would refuse is refused before anything is written") {
  Fixture fixture;
  fixture.plan.artifact.programs.pop_back();
  Status status = fixture.emit().status();
  REQUIRE(!status.isOk());
  CHECK(status.message().find("'decode' and 'prefill'") != std::string::npos);
  CHECK(fixture.directory.fileNames() == std::vector<std::string>{"checkpoint"});
}

TEST_CASE("a source of another shape than its matrix is refused with both shapes") {
  Fixture fixture;
  fixture.plan.expertSources[1][3][0].rows = 23;
  Status status = fixture.emit().status();
  REQUIRE(!status.isOk());
  CHECK(status.message().find("layer 1, expert 3: tensor layer1.expert3.gate has 23 x 32 values, "
                              "the plan needs 24 x 32") != std::string::npos);
}

TEST_CASE("an output in a directory that does not exist, or that is a directory, is refused") {
  Fixture fixture;
  fixture.output = fixture.directory.path("nowhere/out.moe");
  CHECK(fixture.emit().status().message().find("there is no directory") != std::string::npos);
  fixture.output = fixture.checkpointPath;
  CHECK(fixture.emit().status().message().find("is a directory") != std::string::npos);
  fixture.output = "/dev/null";
  CHECK(fixture.emit().status().message().find("not a regular file") != std::string::npos);
  fixture.output = "";
  CHECK(fixture.emit().status().message().find("name of the output file is empty") !=
        std::string::npos);
}

TEST_CASE(
    "an output path that is a link is written at its target, with its partial file and journal") {
  Fixture whole, fixture;
  std::filesystem::create_directory(fixture.directory.path("disk"));
  std::filesystem::create_symlink("disk/real.moe", fixture.output);
  REQUIRE(interruptAfter(fixture, 30000).code() == StatusCode::kInterrupted);
  CHECK(std::filesystem::exists(fixture.directory.path("disk/real.moe.partial")));
  CHECK(std::filesystem::exists(fixture.directory.path("disk/real.moe.partial.journal")));
  EmitOptions options;
  options.resume = true;
  fixture.emitted(options);
  CHECK(std::filesystem::is_symlink(fixture.output));
  CHECK(contentOf(fixture.directory.path("disk/real.moe")) == whole.emitted());
}

TEST_CASE("two emissions to one output do not mix: the second one is refused") {
  Fixture fixture;
  auto checkpoint = Checkpoint::open(fixture.checkpointPath);
  REQUIRE(checkpoint.isOk());
  struct Second final : Progress {
    explicit Second(Fixture &f) : fixture(f) {}
    void begin(std::string_view, uint64_t, uint64_t) override {
      EmitPlan plan = tinyPlan();
      auto again = Checkpoint::open(fixture.checkpointPath);
      EmitOptions options;
      options.outputPath = fixture.output;
      second = emitArtifact(plan, *again, options).status();
    }
    void advanceTo(uint64_t) override {}
    void end() override {}
    Fixture &fixture;
    Status second;
  } progress(fixture);
  EmitOptions options;
  options.progress = &progress;
  REQUIRE(fixture.emit(options).isOk());
  CHECK(progress.second.message().find("is being written by another process") != std::string::npos);
  CHECK(readArtifact(fixture.output).isOk());
}
