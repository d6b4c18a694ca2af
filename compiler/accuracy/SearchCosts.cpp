#include "compiler/accuracy/SearchCosts.h"

#include "compiler/accuracy/PooledArtifacts.h"
#include "compiler/accuracy/QuickLoss.h"
#include "compiler/accuracy/ResidentClasses.h"
#include "compiler/accuracy/SearchedWidths.h"
#include "compiler/commands/SelfText.h"
#include "compiler/quantize/QuantizeExpert.h"
#include "compiler/search/KeptRows.h"
#include "compiler/search/WindowLanes.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Duration.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/RandomStream.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace moert;

namespace moec {

constexpr double kSecondNs = 1e9;
/// Times relative to windows that the reference executes in one piece: a document's tokens are
/// decoded in batches and drawn, 1.3 of CPU time for a dense model of 135M parameters (AMD EPYC
/// with AVX-512); calibration writes what it observes. The steps' own rates replace what these
/// give.
constexpr double kWritingCost = 1.3, kCalibrationCost = 1.2;
/// A class of resident matrices is probed at 8 and at 4 bits.
constexpr uint64_t kProbesOfClass = 2;
/// Measurements and tests of a usual search.
constexpr uint64_t kUsualMeasurements = 16, kUsualTests = 4;

namespace {

/// What the probe found.
struct Rates {
  double window = 0; // Seconds of the reference's windows, one after another, on all threads.
  double expert = 0; // Seconds in which all threads quantize one at every width...
  double weight = 0; // ...and of that, a weight at one width.
};

} // namespace

std::string emittedPathOf(const AccurateCompileRequest &request) {
  return hasQuickLoss(request) ? WorkDirectory::pathOf(request.outputPath) + "/unmeasured.moe"
                               : request.outputPath;
}

static std::string writingOutput(const AccurateCompileRequest &request) {
  return "writing " + emittedPathOf(request);
}

/// Whether experts are quantized as a step of its own, after calibration.
static bool quantizesAlone(const AccurateCompileRequest &request) {
  return !request.profilePath.empty() || keepsProfileRows(request);
}

static const char *calibrating(const AccurateCompileRequest &request) {
  return quantizesAlone(request) ? kCalibrating : kCalibratingExperts;
}

std::vector<PlannedStep> stepsOf(const AccurateCompileRequest &request) {
  std::vector<PlannedStep> steps;
  if (hasReference(request)) // It is there before the others are planned.
    steps.push_back(
        {"writing " + WorkDirectory::pathOf(request.outputPath) + "/reference.moe", 0.0});
  const auto add = [&](bool isThere, std::string label) {
    if (isThere)
      steps.push_back({std::move(label), std::nullopt});
  };
  add(calibratesOnSelfText(request), kWritingCalibration);
  add(acceptsOnSelfText(request), kWritingAcceptance);
  add(request.profilePath.empty(), calibrating(request));
  add(quantizesAlone(request), kQuantizingExperts);
  add(request.hasTarget(), kMeasuringLosses);
  add(true, writingOutput(request));
  add(hasQuickLoss(request), kWritingMeasured);
  add(hasQuickLoss(request), kMeasuringLoss);
  if (request.isWidthRaised && hasQuickLoss(request))
    for (const std::string &label :
         {std::string(kQuantizingExperts), writingOutput(request), std::string(kMeasuringLoss)})
      steps.push_back({label, std::nullopt, kChanceOfWider});
  return steps;
}

SearchWork usualWork(const AccurateCompileRequest &request, uint64_t searchWindows,
                     uint64_t probeWindows, uint64_t acceptedCount, uint64_t probes,
                     const KnownWindows &known) {
  SearchWork work;
  work.testsReference = request.metric != LossMetric::kPerplexity;
  const uint64_t executed =
      work.testsReference ? searchWindows
                          : searchWindows - std::min(known.search, searchWindows - probeWindows) +
                                acceptedCount - std::min(known.accepted, acceptedCount);
  work.of(SearchPass::kReference) = {1, executed};
  work.of(SearchPass::kCandidate) = {kUsualMeasurements, searchWindows};
  if (request.solver != SolverChoice::kUniform)
    work.of(SearchPass::kProbe) = {probes + request.checkedEstimates, probeWindows};
  work.of(SearchPass::kAcceptance) = {kUsualTests, acceptedCount};
  return work;
}

static std::vector<float> randomRows(RandomStream &random, size_t count) {
  std::vector<float> values(count);
  for (float &value : values)
    value = float(random.nextUnit() - 0.5);
  return values;
}

// Random tokens: what a window takes does not depend on its text.
static Result<double> secondsOfWindow(const AccurateCompileRequest &request,
                                      const LabelledImages *images,
                                      const std::string &referencePath, const Session &session) {
  const uint32_t tokens = request.amounts.windowTokens;
  MOERT_ASSIGN_OR_RETURN(
      std::vector<EngineCrew> crews,
      loadCrews({&referencePath, 1}, images ? 1 : tokens, request.threads, images));
  std::vector<WindowLane> lanes;
  for (const EngineCrew::Member &member : crews.front().members)
    lanes.push_back({member.source.get(), nullptr, nullptr});
  RandomStream random(1);
  WindowSet set;
  set.windows = lanes.size();
  set.units = {std::vector<uint32_t>(set.windows)};
  std::vector<int32_t> &ids = set.ids.emplace_back();
  for (uint64_t i = 0; i < set.windows * tokens; ++i)
    ids.push_back(images ? 0 // The first image, and the first class.
                         : int32_t(random.nextBelow(lanes.front().artifact->vocabularySize())));
  const EvaluationOptions evaluation = evaluationOptionsOf(crews.front(), tokens, false);
  // Experts of the first are read from the disk; small models execute more than one in a moment.
  constexpr uint64_t kEnoughNs = 1'000'000'000;
  uint64_t ns = 0, windows = 0;
  for (int pass = 0; pass < 4 && (windows == 0 || ns < kEnoughNs); ++pass) {
    const uint64_t begin = monotonicNs();
    MOERT_RETURN_IF_ERROR(evaluateWindows(set, evaluation, lanes, {}, session.stop).status());
    const uint64_t took = monotonicNs() - begin;
    if (pass == 0 && took < kEnoughNs)
      continue;
    ns += took;
    windows += set.windows;
  }
  return double(ns) / kSecondNs / double(windows);
}

// Random weights and inputs: what an expert takes does not depend on them.
static Status probeExpert(const AccurateCompileRequest &request, const MoeLayer &layer,
                          Rates &rates) {
  const auto [width, hidden] = layer.matrices.front().shape;
  const uint64_t tokens = divideUp(request.calibrationTokens * layer.topK, layer.experts.size());
  RandomStream random(1);
  const size_t weights = size_t(hidden) * width;
  const size_t gateWeights = hasGate(layer.activation.kind) ? weights : 0;
  const std::vector<float> gate = randomRows(random, gateWeights), up = randomRows(random, weights),
                           down = randomRows(random, weights),
                           rows = randomRows(random, tokens * hidden), ofRouter(tokens, 1.0f);
  MOERT_ASSIGN_OR_RETURN(const std::vector<ExpertGrid> grids, poolGridsOf(request, {&layer, 1}));
  MOERT_ASSIGN_OR_RETURN(const LayerMoments moments, layerMomentsOf(hidden, rows));
  const uint64_t begin = monotonicNs();
  MOERT_RETURN_IF_ERROR(
      quantizeExpert({hidden, width, gate, up, down, {layer.activation, {}, {}, {}}},
                     {rows, ofRouter}, &moments, request.method, grids)
          .status());
  rates.expert = double(monotonicNs() - begin) / kSecondNs / std::max(request.threads, 1u);
  rates.weight = rates.expert / double((gateWeights + 2 * weights) * grids.size());
  return {};
}

static uint64_t acceptedWindows(const AccurateCompileRequest &request, const CompileInputs &inputs,
                                uint64_t selfWritten) {
  const TextAmounts amounts = amountsOf(request);
  if (inputs.texts.items)
    return inputs.texts.items->kept.size();
  uint64_t windows = selfWritten;
  for (const SearchText &text : inputs.texts.acceptance)
    windows += text.windows.windows();
  return std::min<uint64_t>(windows == 0 ? amounts.setAsideWindows : windows,
                            amounts.acceptanceWindows);
}

// Bytes of the work directory and of the output at most.
static uint64_t diskBytes(const AccurateCompileRequest &request, const Artifact &reference,
                          uint64_t referenceBytes) {
  const TextAmounts amounts = amountsOf(request);
  double widths = 0, weights = 0;
  for (const ExpertWidth &width : searchedWidths(request))
    widths += width.meanBits() + 0.25; // With scales of a byte for 32.
  // The traces of all layers, and the rows of one at a time, unless they are kept.
  const uint64_t layersOfRows = keepsProfileRows(request) ? reference.moeLayers.size() : 1;
  uint64_t profile =
      request.calibrationTokens * layersOfRows * 2 * (reference.model.hiddenSize + 1ull);
  for (const MoeLayer &layer : reference.moeLayers) {
    for (const ExpertMatrix &matrix : layer.matrices)
      weights += double(layer.experts.size()) * matrix.shape.rows * matrix.shape.cols;
    const uint64_t candidates = 4 * candidatesOf(uint32_t(layer.experts.size()), layer.topK);
    profile += request.calibrationTokens * (4 + 6ull * (layer.topK + candidates));
  }
  const uint64_t rows = !request.hasTarget() ? 0
                        : isOfItems(request.metric) || request.metric != LossMetric::kPerplexity
                            ? amounts.searchWindows
                            : amounts.probeWindows;
  uint64_t residents = 0;
  for (const ResidentWeight &weight : reference.residents)
    residents += weight.bytes;
  const uint64_t kept =
      (request.profilePath.empty() ? profile : 0) + uint64_t(weights * widths / 8) +
      rows * amounts.windowTokens * KeptRows::bytesOf(reference.model.vocabularySize);
  const uint64_t candidate = uint64_t(weights) + residents;
  // A search for a perplexity removes the reference once it is recorded.
  const bool isRemoved = request.hasTarget() && request.metric == LossMetric::kPerplexity;
  return kept + (isRemoved ? std::max(referenceBytes, candidate) : referenceBytes + candidate);
}

static double calibratedWindows(const AccurateCompileRequest &request,
                                const CompileInputs &inputs) {
  return inputs.texts.images ? double(inputs.texts.images->calibrated.chosen.size())
                             : double(request.calibrationTokens) / amountsOf(request).windowTokens;
}

Status tellCosts(const AccurateCompileRequest &request, const CompileInputs &inputs,
                 const std::string &referencePath, const WorkDirectory &work,
                 WholeProgress &progress, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::open(referencePath));
  const Artifact &reference = model->artifact();
  if (reference.moeLayers.empty())
    return {};
  Rates rates;
  MOERT_ASSIGN_OR_RETURN(
      rates.window, secondsOfWindow(request, inputs.texts.imagesOrNull(), referencePath, session));
  MOERT_RETURN_IF_ERROR(probeExpert(request, reference.moeLayers.front(), rates));
  const TextAmounts amounts = amountsOf(request);
  const SelfWritten written = selfWrittenOf(request);
  uint64_t experts = 0;
  for (const MoeLayer &layer : reference.moeLayers)
    experts += layer.experts.size();
  progress.expect(kWritingCalibration, kWritingCost * rates.window * double(written.calibrated));
  progress.expect(kWritingAcceptance, kWritingCost * rates.window * double(written.accepted));
  const double quantizing = rates.expert * double(experts);
  progress.expect(calibrating(request),
                  kCalibrationCost * rates.window * calibratedWindows(request, inputs) +
                      (quantizesAlone(request) ? 0 : quantizing));
  progress.expect(kQuantizingExperts, quantizing);
  // An artifact's experts are copied; its other matrices are quantized anew.
  uint64_t residents = 0;
  for (const ResidentWeight &weight : reference.residents)
    residents += uint64_t(weight.shape.rows) * weight.shape.cols;
  const double writing = rates.weight * double(residents);
  progress.expect(writingOutput(request), writing);
  if (request.hasTarget()) {
    uint64_t probes = 1 + std::min(reference.moeLayers.size(), kMaxLayerGroups);
    if (request.areResidentBitsChosen) {
      static const Session quiet;
      MOERT_ASSIGN_OR_RETURN(const std::vector<ResidentClass> classes,
                             residentClassesOf(inputs.model, quiet));
      probes += kProbesOfClass * classes.size();
    }
    const SearchWork search =
        usualWork(request, amounts.searchWindows, amounts.probeWindows,
                  acceptedWindows(request, inputs, written.accepted), probes,
                  {written.calibrated > 0 ? amounts.searchWindows : 0, written.accepted});
    progress.expect(kMeasuringLosses,
                    secondsOf(search, rates.window) + writing * double(search.artifacts()));
  }
  const double quickWindows = double(kQuickWindows) * kQuickWindowTokens / amounts.windowTokens;
  progress.expect(kWritingMeasured, kWritingCost * rates.window * quickWindows);
  progress.expect(kMeasuringLoss, (1 + kCandidateCost) * rates.window * quickWindows);
  std::error_code ignored;
  const uint64_t bytes =
      diskBytes(request, reference, std::filesystem::file_size(referencePath, ignored));
  const auto durationWith = [&](double chance) {
    return formatDuration(uint64_t(std::llround(*progress.secondsLeft(chance))));
  };
  const std::string widened =
      request.isWidthRaised
          ? strCat(" or, where ", *request.bits, " bits miss the aim, ", durationWith(1))
          : "";
  sayTo(session, strCat(progress.stepCount(), " steps, about ", durationWith(0), widened,
                        " on this machine as busy as it is now, and up to ", formatBytes(bytes),
                        " in ", work.path()));
  return {};
}

} // namespace moec
