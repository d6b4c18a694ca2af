#include "compiler/calibrate/Calibrate.h"

#include "compiler/calibrate/CalibrationJournal.h"
#include "compiler/calibrate/CalibrationWindows.h"
#include "compiler/calibrate/LayerCollector.h"
#include "compiler/calibrate/Layerwise.h"
#include "compiler/calibrate/LayerwisePlan.h"
#include "compiler/calibrate/StateFile.h"
#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/session/KeptForResume.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/RandomStream.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/Engine.h"
#include "runtime/memory/MemoryRoom.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

using namespace moert;

namespace moec {

/// The numbers of an image's rows stand for its content, as a text's tokens do.
static CalibrationWindows windowsOf(const CalibrationImages &images,
                                    const CalibrateOptions &options) {
  CalibrationWindows windows{images.texts, {}};
  for (const uint32_t image : images.chosen) {
    RandomStream numbers(images.all->all()[image].hash);
    for (uint32_t row = 0; row < options.windowTokens; ++row)
      windows.tokens.push_back(static_cast<int32_t>(numbers.nextBelow(options.vocabularySize)));
  }
  return windows;
}

Result<CalibrationWindows> calibrationWindowsOf(const Checkpoint &checkpoint,
                                                const CalibrateOptions &options,
                                                const std::function<void(std::string_view)> &say) {
  if (options.images)
    return windowsOf(*options.images, options);
  MOERT_RETURN_IF_ERROR(requireTokenizer(checkpoint, "reading calibration texts"));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> table, makeTokenizerTable(checkpoint));
  MOERT_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(table, options.vocabularySize));
  WindowRequest request;
  request.textPaths = options.textPaths;
  request.documentSeparator = options.documentSeparator;
  request.endTokens = options.endTokens;
  request.vocabularySize = options.vocabularySize;
  request.windowTokens = options.windowTokens;
  request.tokens = options.tokens;
  request.seed = options.seed;
  request.memoryBytes = options.memory && !options.memory->expertFraction ? options.memory->bytes
                                                                          : availableMemoryBytes();
  return readCalibrationWindows(request, tokenizer, say);
}

// The reference must be the checkpoint itself: later losses are relative to the profile.
static Status checkReference(const Artifact &artifact) {
  for (const ResidentWeight &weight : artifact.residents)
    if (isQuantized(weight.format.kind))
      return invalidInput("the weight ", weight.name, " is stored as ", nameOf(weight.format.kind),
                          ", expected a reference at the checkpoint's own precision");
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      for (const Slice &slice : expert.slices)
        if (slice.format.isQuantized() || expert.slices.size() != 1)
          return invalidInput("an expert of layer ", layer.layer, " is stored as ",
                              nameOf(slice.format.gateUp.kind),
                              ", expected a reference at the checkpoint's own precision");
  if (artifact.moeLayers.empty())
    return invalidInput("the model has no routed experts; there is nothing to calibrate");
  return {};
}

/// The width of a layer's rows, 0 if it is the model's.
static uint32_t ownWidthOf(const MoeLayer &layer, uint32_t hiddenSize) {
  const uint32_t width = layer.matrices.front().shape.cols;
  return width == hiddenSize ? 0 : width;
}

static CalibrationInfo infoOf(const Artifact &artifact, const CalibrateOptions &options,
                              CalibrationWindows windows, const CheckpointHash &hash) {
  CalibrationInfo info;
  info.checkpointHash = hash;
  info.seed = options.seed;
  info.windowTokens = options.windowTokens;
  info.hiddenSize = artifact.model.hiddenSize;
  info.vocabularySize = artifact.model.vocabularySize;
  info.texts = std::move(windows.texts);
  info.tokens = std::move(windows.tokens);
  for (const MoeLayer &layer : artifact.moeLayers)
    info.moeLayers.push_back({layer.layer,
                              static_cast<uint32_t>(layer.experts.size()),
                              layer.topK,
                              {},
                              {},
                              ownWidthOf(layer, info.hiddenSize)});
  info.residentInputs = residentInputsOf(artifact, layerwiseProgram(artifact));
  return info;
}

// Covers everything that determines the profile's bytes; the manifest's weights follow from the
// checkpoint, whose hash is in the info.
static uint64_t fingerprintOf(const CalibrationInfo &info, const Artifact &artifact) {
  ProfileHeader header;
  header.info = info;
  header.checksums.resize(info.moeLayers.size());
  header.inputChecksums.resize(info.residentInputs.size());
  std::vector<std::byte> bytes = encodeProfileHeader(header);
  for (uint64_t number : {artifact.residentChecksum, artifact.manifestBytes, artifact.fileBytes})
    for (std::byte byte : std::as_bytes(std::span(&number, 1)))
      bytes.push_back(byte);
  return checksum64(bytes);
}

static LayerwiseOptions layerwiseOptionsOf(const CalibrateOptions &options,
                                           const CalibrationInfo &info, uint64_t layerBytes) {
  // Buffers for writing states, and small allocations.
  constexpr uint64_t kOwnBytes = uint64_t(8) << 20;
  LayerwiseOptions layerwise;
  layerwise.windowTokens = options.images ? 1 : options.windowTokens;
  layerwise.windows = info.windows();
  layerwise.laterRouters = kPredictionDepths;
  layerwise.memory = options.memory;
  layerwise.threads = options.threads;
  // The model's tables, the tokens, and earlier allocations of the caller are in memory by now.
  layerwise.extraBytes = privateMemoryBytes() + ProfileWriter::memoryBytes(info) +
                         LayerCollector::memoryBytes(info) + kOwnBytes + layerBytes;
  if (options.images)
    layerwise.extraBytes +=
        options.images->all->pixels() * sizeof(float) + options.images->all->readingBytes();
  return layerwise;
}

namespace {

/// One calibration, from the reference to the profile. Lives for one call of calibrate().
class Calibration {
public:
  Calibration(const CalibrateOptions &asked, const CalibrateListeners &told, const Model &reference)
      : options(asked), listeners(told), model(reference) {}

  Status run(CalibrationInfo info);

private:
  Status start(CalibrationInfo info);
  Result<bool> resume(uint64_t stateBytes);
  Status startOver(CalibrationInfo info, uint64_t stateBytes);
  Status goOn(CalibrationJournal before, uint64_t stateBytes);
  Status executeAll();
  Status executeSegment(uint32_t segment);
  Status finishSegment(uint32_t segment);
  Status handOver(size_t moeLayer, const std::function<void(double)> &advance);

  void removeJournal() const { ::unlink(CalibrationJournal::pathOf(options.outputPath).c_str()); }
  const std::vector<int32_t> &tokens() const { return writer->header().info.tokens; }
  /// The executor's tokens of a window.
  uint64_t perWindow() const { return options.images ? 1 : options.windowTokens; }
  Status executeWindows(uint32_t segment, uint64_t first, uint64_t count);
  /// Segments, and layers that are handed over, of which `part` of one more.
  void advance(double part) const {
    if (listeners.progress)
      listeners.progress->advanceTo(uint64_t((double(steps) + part) * double(tokens().size())));
  }

  const CalibrateOptions &options;
  const CalibrateListeners &listeners;
  const Model &model;
  uint64_t fingerprint = 0;
  uint32_t firstSegment = 0; // Earlier ones are finished.
  uint64_t steps = 0;        // That are done.
  uint32_t batchWindows = 0;
  std::unique_ptr<LayerwiseExecutor> executor;
  std::optional<ProfileWriter> writer;
  std::optional<StateFile> states;
  std::optional<LayerCollector> collector;
  std::vector<std::byte> before, after; // The states of a batch.
  std::vector<float> pixels;            // An image's.
};

} // namespace

Status Calibration::startOver(CalibrationInfo info, uint64_t stateBytes) {
  MOERT_ASSIGN_OR_RETURN(ProfileWriter created,
                         ProfileWriter::create(options.outputPath, std::move(info)));
  writer.emplace(std::move(created));
  removeJournal();
  MOERT_ASSIGN_OR_RETURN(StateFile file, StateFile::open(options.outputPath, stateBytes, false));
  states.emplace(std::move(file));
  return {};
}

Status Calibration::goOn(CalibrationJournal journal, uint64_t stateBytes) {
  if (journal.fingerprint != fingerprint)
    return invalidInput(
        CalibrationJournal::pathOf(options.outputPath),
        " is for another checkpoint, other texts or other options; --restart begins "
        "anew");
  // A refusal from here on must not remove what can be resumed.
  MOERT_ASSIGN_OR_RETURN(StateFile file, StateFile::open(options.outputPath, stateBytes, true));
  file.keep();
  uint64_t bytes =
      executor->stateBytes(journal.segments) * perWindow() * journal.header.info.windows();
  auto checksum = file.checksumOf(journal.segments, bytes);
  if (checksum.status().code() == StatusCode::kInvalidInput)
    return invalidInput(checksum.status().message(), "; --restart begins anew");
  MOERT_ASSIGN_OR_RETURN(const uint64_t found, std::move(checksum));
  if (found != journal.stateChecksum)
    return invalidInput(StateFile::pathOf(options.outputPath), ": the states have checksum ",
                        formatChecksum(found), ", the journal has ",
                        formatChecksum(journal.stateChecksum), "; --restart begins anew");
  MOERT_ASSIGN_OR_RETURN(ProfileWriter resumed,
                         ProfileWriter::resume(options.outputPath, std::move(journal.header),
                                               journal.finishedLayers, journal.finishedInputs));
  writer.emplace(std::move(resumed));
  writer->keep();
  const size_t handed = listeners.onLayer ? writer->finishedLayers() : 0;
  for (size_t layer = 0; layer < handed; ++layer)
    if (Status status = handOver(layer, [](double) {}); !status.isOk()) {
      writer.reset(); // Its lock would refuse starting over.
      return status;
    }
  firstSegment = journal.segments;
  steps = firstSegment + handed;
  states.emplace(std::move(file));
  if (listeners.say)
    listeners.say(strCat("resuming after ", writer->finishedLayers(), " of ",
                         writer->header().info.moeLayers.size(), " MoE layers"));
  return {};
}

/// Returns whether an unfinished calibration was resumed.
Result<bool> Calibration::resume(uint64_t stateBytes) {
  MOERT_ASSIGN_OR_RETURN(std::optional<CalibrationJournal> journal,
                         loadJournal(options.outputPath));
  if (!journal)
    return false;
  if (OutputFile::isCommitted(options.outputPath)) {
    if (listeners.say)
      listeners.say(strCat(options.outputPath, " already exists; starting over"));
    removeJournal();
    return false;
  }
  MOERT_RETURN_IF_ERROR(goOn(std::move(*journal), stateBytes));
  return true;
}

Status Calibration::start(CalibrationInfo info) {
  LayerwiseOptions layerwise = layerwiseOptionsOf(options, info, listeners.layerBytes);
  MOERT_ASSIGN_OR_RETURN(LayerwiseAccount account, accountLayerwise(model, layerwise));
  if (options.memory)
    MOERT_RETURN_IF_ERROR(checkRoom(account.memory, systemMemory()));
  if (listeners.say)
    listeners.say(strCat("memory: ", formatBytes(account.memory.totalBytes()), " of ",
                         formatBytes(account.memory.budgetBytes), "; ", account.batchWindows,
                         account.batchWindows == 1 ? " window" : " windows", " at a time, ",
                         account.holdsLayer ? "all experts of a layer in memory"
                                            : "experts read again for each batch"));
  batchWindows = account.batchWindows;
  MOERT_ASSIGN_OR_RETURN(executor, LayerwiseExecutor::create(model, layerwise, account));
  uint64_t stateBytes = 0;
  for (uint32_t boundary = 0; boundary < executor->segments(); ++boundary)
    stateBytes = std::max(stateBytes, executor->stateBytes(boundary));
  const uint64_t batchTokens = batchWindows * perWindow();
  before.reserve(batchTokens * stateBytes);
  after.reserve(batchTokens * stateBytes);
  if (options.images)
    pixels.resize(options.images->all->pixels());
  stateBytes *= perWindow() * info.windows();

  Result<bool> resumed = options.resume ? resume(stateBytes) : false;
  if (options.startsOverIfRefused && resumed.status().code() == StatusCode::kInvalidInput)
    resumed = false;
  MOERT_RETURN_IF_ERROR(resumed.status());
  if (!*resumed)
    MOERT_RETURN_IF_ERROR(startOver(std::move(info), stateBytes));
  collector.emplace(*writer, model.artifact().residents);
  return {};
}

Status Calibration::executeWindows(uint32_t segment, uint64_t first, uint64_t count) {
  const uint64_t bytesBefore = executor->stateBytes(segment) * perWindow();
  const uint64_t bytesAfter = executor->stateBytes(segment + 1) * perWindow();
  before.resize(count * bytesBefore);
  after.resize(count * bytesAfter);
  if (bytesBefore != 0)
    MOERT_RETURN_IF_ERROR(states->read(segment, first * bytesBefore, before));
  else if (options.images)
    MOERT_RETURN_IF_ERROR(options.images->all->read(options.images->chosen[first], pixels));
  collector->beginBatch(count * options.windowTokens);
  const std::vector<int32_t> ofImages(options.images ? count : 0);
  const auto batch = options.images
                         ? std::span(ofImages)
                         : std::span(tokens()).subspan(first * perWindow(), count * perWindow());
  MOERT_RETURN_IF_ERROR(executor->execute(batch, before, after, *collector, pixels));
  return bytesAfter != 0 ? states->write(segment + 1, first * bytesAfter, after) : Status();
}

Status Calibration::executeSegment(uint32_t segment) {
  MOERT_RETURN_IF_ERROR(executor->begin(segment));
  const uint64_t windows = writer->header().info.windows();
  for (uint64_t done = 0; done < windows;) {
    if (listeners.stop && listeners.stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    const uint64_t count = std::min<uint64_t>(batchWindows, windows - done);
    MOERT_RETURN_IF_ERROR(executeWindows(segment, done, count));
    done += count;
    advance(double(done) / double(windows));
  }
  return {};
}

Status Calibration::handOver(size_t moeLayer, const std::function<void(double)> &advanceStep) {
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<CalibrationProfile> finished, writer->unfinished());
  MOERT_RETURN_IF_ERROR(listeners.onLayer(*finished, moeLayer, advanceStep));
  writer->dropRows(moeLayer);
  return {};
}

// The journal may only list parts that are on the disk, so it is written last.
Status Calibration::finishSegment(uint32_t segment) {
  const size_t handed = writer->finishedLayers();
  MOERT_RETURN_IF_ERROR(collector->endSegment());
  ++steps;
  for (size_t layer = handed; listeners.onLayer && layer < writer->finishedLayers(); ++layer) {
    MOERT_RETURN_IF_ERROR(handOver(layer, [this](double part) { advance(part); }));
    ++steps;
  }
  MOERT_RETURN_IF_ERROR(states->sync());
  MOERT_RETURN_IF_ERROR(writer->sync());
  CalibrationJournal journal;
  journal.fingerprint = fingerprint;
  journal.segments = segment + 1;
  journal.stateChecksum =
      executor->stateBytes(segment + 1) == 0 ? ChecksumStream().digest() : states->checksum();
  journal.finishedLayers = static_cast<uint32_t>(writer->finishedLayers());
  journal.finishedInputs = static_cast<uint32_t>(writer->finishedInputs());
  journal.header = writer->header();
  return storeJournal(options.outputPath, journal);
}

Status Calibration::executeAll() {
  for (uint32_t segment = firstSegment; segment < executor->segments(); ++segment) {
    Status status = executeSegment(segment);
    if (status.isOk())
      status = finishSegment(segment);
    if (!status.isOk()) {
      auto layer = executor->layerOf(segment);
      return layer ? std::move(status).withContext(strCat("layer ", *layer)) : status;
    }
  }
  return {};
}

Status Calibration::run(CalibrationInfo info) {
  fingerprint = fingerprintOf(info, model.artifact());
  MOERT_RETURN_IF_ERROR(start(std::move(info)));
  if (listeners.progress)
    listeners.progress->beginCounting(
        listeners.onLayer ? kCalibratingExperts : kCalibrating, "steps", tokens().size(),
        (executor->segments() + (listeners.onLayer ? writer->header().info.moeLayers.size() : 0)) *
            tokens().size(),
        steps * tokens().size());
  Status status = executeAll();
  if (listeners.progress)
    listeners.progress->end();
  if (status.isOk())
    status = writer->commit();
  std::error_code ignored;
  const bool hasJournal =
      std::filesystem::exists(CalibrationJournal::pathOf(options.outputPath), ignored);
  if (isKeptForResume(status, firstSegment > 0, hasJournal)) {
    writer->keep();
    states->keep();
    return status;
  }
  states->dispose();
  removeJournal();
  return status;
}

Status calibrate(const Checkpoint &checkpoint, const CalibrateOptions &options,
                 const CalibrateListeners &listeners) {
  MOERT_RETURN_IF_ERROR(checkReplacesNone(options.outputPath, options.textPaths));
  MOERT_ASSIGN_OR_RETURN(CalibrationWindows windows,
                         calibrationWindowsOf(checkpoint, options, listeners.say));
  MOERT_ASSIGN_OR_RETURN(CheckpointHash hash, checkpointHash(checkpoint, listeners.stop));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(options.referencePath));
  MOERT_RETURN_IF_ERROR(checkReference(model->artifact()).withContext(options.referencePath));
  CalibrationInfo info = infoOf(model->artifact(), options, std::move(windows), hash);
  return Calibration(options, listeners, *model).run(std::move(info));
}

} // namespace moec
