#include "compiler/accuracy/CompileInputs.h"

#include "compiler/accuracy/SearchMaterial.h"
#include "compiler/emit/CheckpointChat.h"
#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/plan/MakePlans.h"
#include "compiler/planning/CheckpointMark.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/RandomStream.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>

using namespace moert;

namespace moec {

TextAmounts amountsOf(const AccurateCompileRequest &request) {
  TextAmounts amounts = request.amounts;
  amounts.isAcceptedOnItems = isOfItems(request.metric);
  return amounts;
}

//===-- Texts ---------------------------------------------------------------------------------===//

static ImageModel imageModelOf(const ImportedModel &model) {
  const PatchesDescription &patches = *model.description.patches;
  const uint32_t classes = model.description.vocabularySize;
  return {{kNone, patches.channels, patches.side, patches.patch},
          classes,
          readClassNames(model.checkpoint, classes, {})};
}

/// Rows of an image that calibration keeps of each layer: those of the layer that has the fewest.
static uint32_t rowsOfImage(const ModelDescription &model) {
  uint32_t rows = UINT32_MAX;
  for (const LayerDescription &layer : model.layers)
    if (layer.moe && layer.windowAttention)
      rows = std::min(rows, layer.windowAttention->side * layer.windowAttention->side);
  return rows;
}

/// Draws the images of a folder that calibration reads: as many as asked for, but at most half.
static std::vector<uint32_t> drawImages(const LabelledFolder &folder, uint64_t wanted,
                                        RandomStream &random) {
  std::vector<uint32_t> images(folder.count);
  std::iota(images.begin(), images.end(), static_cast<uint32_t>(folder.first));
  const auto count = static_cast<size_t>(std::min(wanted, divideUp(folder.count, uint64_t(2))));
  for (size_t i = 0; i < count; ++i)
    std::swap(images[i], images[i + random.nextBelow(static_cast<uint32_t>(images.size() - i))]);
  images.resize(count);
  std::sort(images.begin(), images.end());
  return images;
}

/// A window for each image that calibration does not read.
static TextWindows windowsOfOthers(const LabelledImages &images, const LabelledFolder &folder,
                                   std::span<const uint32_t> calibrated) {
  TextWindows windows;
  windows.windowTokens = kImageWindowTokens;
  for (auto image = static_cast<uint32_t>(folder.first); image < folder.first + folder.count;
       ++image) {
    if (std::binary_search(calibrated.begin(), calibrated.end(), image))
      continue;
    const LabelledImage &labelled = images.all()[image];
    windows.tokens.insert(windows.tokens.end(), {int32_t(image), int32_t(labelled.label)});
    windows.units.push_back(static_cast<uint32_t>(windows.units.size()));
    windows.documents.push_back(1);
    windows.documentIds.push_back(idOfImage(labelled));
  }
  windows.documentsRead = folder.count;
  return windows;
}

static Result<CompileTexts> readCompileImages(const AccurateCompileRequest &request,
                                              const ImportedModel &model) {
  CompileTexts texts;
  texts.calibrationPaths = request.calibrationTexts;
  texts.images =
      std::make_unique<CompileImages>(CompileImages{LabelledImages(imageModelOf(model)), {}});
  LabelledImages &all = texts.images->all;
  CalibrationImages &read = texts.images->calibrated;
  read.all = &all;
  RandomStream random(request.seed);
  const uint64_t wanted = divideUp(request.calibrationTokens, rowsOfImage(model.description));
  for (const std::string &path : request.calibrationTexts) {
    MOERT_ASSIGN_OR_RETURN(const LabelledFolder folder, all.add(path));
    const std::vector<uint32_t> drawn =
        drawImages(folder, divideUp(wanted, request.calibrationTexts.size()), random);
    SearchText &text = texts.calibration.emplace_back();
    MOERT_ASSIGN_OR_RETURN(text.name, nameOfText(path));
    text.hash = folder.hash;
    text.bytes = folder.bytes;
    text.windows = windowsOfOthers(all, folder, drawn);
    read.texts.push_back({text.name, text.hash, text.bytes, uint32_t(drawn.size())});
    read.chosen.insert(read.chosen.end(), drawn.begin(), drawn.end());
  }
  MOERT_RETURN_IF_ERROR(checkDistinct(texts.calibration, request.calibrationTexts));
  if (request.hasTarget()) {
    MOERT_ASSIGN_OR_RETURN(
        texts.items, readAcceptanceItems(request, model.description, {}, imageModelOf(model)));
    texts.acceptance = texts.items->files;
  }
  return texts;
}

Result<CompileTexts> readCompileTexts(const AccurateCompileRequest &request,
                                      const ImportedModel &model, const Session &session) {
  if (request.readsImages)
    return readCompileImages(request, model);
  MOERT_RETURN_IF_ERROR(
      requireTokenizer(model, "reading texts, which --no-calibration does without,"));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> table, makeTokenizerTable(model.checkpoint));
  const uint32_t vocabulary = model.description.vocabularySize;
  MOERT_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(table, vocabulary));
  warnOfTokenizer(model.checkpoint, tokenizer, vocabulary, session.say);
  MOERT_ASSIGN_OR_RETURN(const WindowCutter cutter,
                         WindowCutter::create(tokenizer, model.description.eosTokens, vocabulary,
                                              request.amounts.windowTokens));
  CompileTexts texts;
  texts.calibrationPaths = request.calibrationTexts;
  MOERT_ASSIGN_OR_RETURN(texts.calibration, readSearchTexts(request.calibrationTexts,
                                                            request.documentSeparator, cutter));
  if (!request.hasTarget() || !isOfItems(request.metric)) {
    MOERT_ASSIGN_OR_RETURN(texts.acceptance, readSearchTexts(request.acceptanceTexts,
                                                             request.documentSeparator, cutter));
    return texts;
  }
  // Copied, not moved: the tokenizer uses the table where it lies.
  MOERT_ASSIGN_OR_RETURN(texts.items, readAcceptanceItems(request, model.description, table));
  texts.acceptance = texts.items->files;
  return texts;
}

CalibrateOptions calibrateOptions(const AccurateCompileRequest &request, const ImportedModel &model,
                                  const CompileTexts &texts) {
  CalibrateOptions options;
  options.textPaths = texts.calibrationPaths;
  options.documentSeparator = request.documentSeparator;
  options.endTokens = model.description.eosTokens;
  options.vocabularySize = model.description.vocabularySize;
  options.tokens = request.calibrationTokens;
  options.seed = request.seed;
  if (texts.images) {
    options.images = texts.images->calibrated;
    options.windowTokens = rowsOfImage(model.description);
  }
  return options;
}

std::vector<SearchText> searchTextsOf(const AccurateCompileRequest &request,
                                      const CompileTexts &texts, const CalibrationInfo &info) {
  if (!texts.calibration.empty())
    return texts.calibration;
  return {textOfCalibration(std::filesystem::path(request.profilePath).filename().string(),
                            info.tokens, request.amounts.windowTokens)};
}

//===-- Other inputs --------------------------------------------------------------------------===//

Result<std::unique_ptr<CalibrationProfile>> openProfileOf(const CompileInputs &inputs,
                                                          const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<CalibrationProfile> profile,
                         CalibrationProfile::open(path));
  MOERT_RETURN_IF_ERROR(
      checkSameCheckpoint(profile->info().checkpointHash, path, inputs.hash,
                          strCat("is that of ", inputs.model.checkpoint.directory())));
  return profile;
}

static Status readDevice(const std::string &path, CompileInputs &inputs) {
  if (path.empty())
    return {};
  MOERT_ASSIGN_OR_RETURN(inputs.device, readDeviceFile(path));
  MOERT_ASSIGN_OR_RETURN(const std::string text, readInput(path));
  inputs.deviceHash = checksum64(std::as_bytes(std::span(text)));
  return {};
}

/// A budget that the fewest bits exceed is out of reach whatever the search finds.
static Status checkBudgets(const AccurateCompileRequest &request, const CompileInputs &inputs,
                           MemoryWarnings &warnings, const Session &session) {
  mlir::moe::CompileOptions passes = request.passes;
  passes.device.clear(); // The account of memory does not depend on it.
  if (!request.bits)
    passes.bits = mlir::moe::ExpertBits::k2;
  if (request.areResidentBitsChosen && request.hasTarget())
    passes.residentBits = mlir::moe::ResidentBits::k4;
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<ModelIr> ir, ModelIr::create(inputs.model, session));
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, ir->plan({}, passes));
  std::vector<Preset> presets;
  for (const std::string &name : passes.presets) {
    MOERT_ASSIGN_OR_RETURN(Preset preset, exactPresetOf(name));
    presets.push_back(preset);
  }
  MOERT_RETURN_IF_ERROR(checkPrefetching(presets, /*hasTrace=*/true, inputs.device.has_value()));
  std::vector<std::string> absolute;
  for (const std::string &budget : passes.budgets) {
    MOERT_ASSIGN_OR_RETURN(const Size size, parseSize(budget));
    if (!size.fraction)
      absolute.push_back(budget);
  }
  if (inputs.device)
    warnings.check(absolute, plan.artifact.plans, *inputs.device, session);
  return {};
}

Result<CompileInputs> readCompileInputs(const AccurateCompileRequest &request, ImportedModel model,
                                        MemoryWarnings &warnings, const Session &session) {
  CompileInputs inputs{std::move(model), {}, {}, 0, {}, nullptr};
  MOERT_ASSIGN_OR_RETURN(inputs.hash, checkpointHash(inputs.model.checkpoint, session.stop));
  MOERT_RETURN_IF_ERROR(readDevice(request.passes.device, inputs));
  MOERT_ASSIGN_OR_RETURN(inputs.texts, readCompileTexts(request, inputs.model, session));
  if (!request.profilePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(inputs.profile, openProfileOf(inputs, request.profilePath));
  }
  if (request.hasTarget() && !calibratesOnSelfText(request) && !acceptsOnSelfText(request))
    MOERT_RETURN_IF_ERROR(checkSearchMaterial(request, inputs, inputs.texts));
  MOERT_RETURN_IF_ERROR(checkBudgets(request, inputs, warnings, session));
  return inputs;
}

} // namespace moec
