#include "compiler/accuracy/SearchMaterial.h"

#include "compiler/accuracy/SearchSummary.h"
#include "compiler/accuracy/SearchedWidths.h"
#include "runtime/base/Checksum.h"

#include <set>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

/// Removes the items that calibration or the search has read.
static Status leaveOutSeenItems(const AccurateCompileRequest &request, const CalibrationInfo &info,
                                SearchMaterial &material, const Session &session) {
  AcceptanceItems &items = *material.items;
  const uint64_t all = items.set->samples();
  std::vector<std::vector<int32_t>> tokens;
  for (uint64_t item = 0; item < all; ++item)
    tokens.push_back(items.set->itemTokens(item));
  MOERT_RETURN_IF_ERROR(items.leaveOut(findSeenItems(
      tokens, info.tokens, info.windowTokens, material.windows, request.amounts.windowTokens)));
  if (const uint64_t kept = items.kept.size(); kept < all)
    sayTo(session, strCat("accepting on ", kept, " of ", all,
                          " items: calibration or the search has read parts of the others"));
  return {};
}

/// Removes the images that are among those of calibration and search, and copies.
static Status leaveOutSeenImages(const LabelledImages &read, SearchMaterial &material,
                                 const Session &session) {
  std::set<DocumentId> known;
  for (const LabelledImage &image : read.all())
    known.insert(idOfImage(image));
  std::vector<bool> seen;
  for (const LabelledImage &image : material.items->set->imagesRead()->all())
    seen.push_back(!known.insert(idOfImage(image)).second);
  MOERT_RETURN_IF_ERROR(material.items->leaveOut(seen));
  if (const uint64_t kept = material.items->kept.size(); kept < seen.size())
    sayTo(session, strCat("accepting on ", kept, " of ", seen.size(),
                          " images: the others are copies, or among the calibration images"));
  return {};
}

static void hashWindows(const WindowSet &set, ChecksumStream &stream) {
  for (size_t t = 0; t < set.ids.size(); ++t) {
    stream.update(std::as_bytes(std::span(set.ids[t])));
    stream.update(std::as_bytes(std::span(set.units[t])));
  }
}

/// Without the target and the acceptance, so that a resumed compile with others finds the
/// measurements. The number after the first word grows when experts of the same options have other
/// values.
static uint64_t measurementFingerprint(const AccurateCompileRequest &request,
                                       const CheckpointHash &checkpoint,
                                       const CalibrationInfo &info,
                                       const SearchMaterial &material) {
  std::string text =
      strCat("measure 3 ", MOE_VERSION, " ", formatChecksum(checkpoint.sample), " ",
             nameOf(request.method), " ", request.passes.nested, " ", request.passes.lowCopyBits,
             " ", request.passes.group, " ", request.passes.activationGroup, " ",
             request.areResidentBitsChosen, " ", int(request.passes.residentBits), " ",
             int(request.passes.headBits), " ", int(request.passes.kvBits), " ",
             metricName(material.items ? LossMetric::kKl : request.metric), " ",
             request.amounts.windowTokens);
  for (const ExpertWidth &width : searchedWidths(request)) // Assignments are numbers of these.
    text += strCat(" ", width.text());
  if (material.images) // Windows have numbers of images.
    for (const LabelledImage &image : material.images->all())
      text += strCat(" ", formatChecksum(image.hash));
  ChecksumStream stream;
  stream.update(std::as_bytes(std::span(text)));
  stream.update(std::as_bytes(std::span(info.tokens)));
  hashWindows(material.windows.probe, stream);
  hashWindows(material.windows.rest, stream);
  return stream.digest();
}

Result<SearchMaterial> chooseSearchMaterial(const AccurateCompileRequest &request,
                                            const CheckpointHash &checkpoint,
                                            const CompileTexts &texts, const CalibrationInfo &info,
                                            const Session &session) {
  if (texts.calibration.empty())
    sayTo(session,
          "the search measures on the profile's own tokens, as no --calibration-text was given");
  std::vector<SearchText> searched = searchTextsOf(request, texts, info);
  const TextAmounts amounts = amountsOf(request);
  SearchMaterial material;
  MOERT_ASSIGN_OR_RETURN(material.windows, chooseWindows(searched, texts.acceptance, info.tokens,
                                                         info.windowTokens, amounts));
  material.moreWindows = amounts.searchWindows < kMinimumBoundUnits
                             ? strCat("--search-windows ", kMinimumBoundUnits)
                             : moreSearchText(searched, material.windows.isSetAside);
  if (!material.windows.hasBound())
    sayTo(session, fewWindowsText(material.windows.searchWindows(), material.moreWindows));
  material.items = texts.items.get();
  material.images = texts.imagesOrNull();
  const WindowSet &accepted = material.windows.acceptance;
  if (material.images)
    MOERT_RETURN_IF_ERROR(leaveOutSeenImages(*material.images, material, session));
  else if (material.items)
    MOERT_RETURN_IF_ERROR(leaveOutSeenItems(request, info, material, session));
  else if (material.windows.isSetAside)
    sayTo(session,
          strCat("accepting on ", accepted.unitCount(), " units (", accepted.documentCount(),
                 " documents, ", accepted.windows, " windows of ", amounts.windowTokens,
                 " tokens) that are set aside from the calibration texts, as no "
                 "--eval-text was given"));
  material.acceptedOn = material.windows.isSetAside ? searched : texts.acceptance;
  material.fingerprint = measurementFingerprint(request, checkpoint, info, material);
  return material;
}

/// Hash of all that decides which candidates are tested, and in which order.
static uint64_t candidatesHash(const AccurateCompileRequest &request, uint64_t deviceHash,
                               const SearchMaterial &material) {
  std::string text =
      strCat("widths ", formatChecksum(material.fingerprint), " ", int(request.solver));
  const auto &passes = request.passes;
  if (deviceHash != 0) // Then times choose between candidates.
    for (const std::string &word :
         {std::string(formatChecksum(deviceHash)),
          passes.budgets.empty() ? std::string() : passes.budgets.front(),
          passes.presets.empty() ? std::string() : passes.presets.front(),
          std::to_string(passes.context), std::to_string(passes.prefillChunk),
          std::to_string(passes.threads)})
      text += strCat(" '", word, "'");
  return checksum64(std::as_bytes(std::span(text)));
}

static AcceptanceSubject subjectOf(const AccurateCompileRequest &request,
                                   const CheckpointHash &checkpoint, uint64_t deviceHash,
                                   const SearchMaterial &material) {
  AcceptanceSubject subject;
  subject.checkpoint = checkpoint.sample;
  subject.candidates = candidatesHash(request, deviceHash, material);
  subject.metric = request.metric;
  subject.target = request.acceptanceTarget();
  for (const SearchText &text : material.acceptedOn)
    subject.files.push_back(text.hash);
  ChecksumStream samples;
  if (material.items) {
    const AcceptanceItems &items = *material.items;
    std::string options;
    for (const auto &[option, value] : items.options)
      options += strCat(" --", option, " '", value, "'");
    samples.update(std::as_bytes(std::span(subject.files)));
    samples.update(std::as_bytes(std::span(items.kept)));
    samples.update(std::as_bytes(std::span(options)));
    subject.documents = items.keptIds();
  } else {
    hashWindows(material.windows.acceptance, samples);
    subject.documents = material.windows.acceptance.documentIds;
  }
  subject.samples = samples.digest();
  return subject;
}

static Status checkReach(const AccurateCompileRequest &request, const SearchMaterial &material,
                         const AcceptanceTurn &turn) {
  return material.items ? material.items->checkReach(*request.target, turn)
                        : checkQuantileUnits(request.acceptanceTarget(),
                                             material.windows.acceptance.unitCount(),
                                             turn.levels.confidence(AcceptanceChain::kMain), turn);
}

Status checkSearchMaterial(const AccurateCompileRequest &request, const CompileInputs &inputs,
                           const CompileTexts &texts) {
  CalibrationInfo info;
  if (inputs.profile) {
    info = inputs.profile->info();
  } else {
    const CalibrateOptions options = calibrateOptions(request, inputs.model, texts);
    MOERT_ASSIGN_OR_RETURN(CalibrationWindows read,
                           calibrationWindowsOf(inputs.model.checkpoint, options));
    info.tokens = std::move(read.tokens);
    info.windowTokens = options.windowTokens;
  }
  MOERT_ASSIGN_OR_RETURN(const SearchMaterial material,
                         chooseSearchMaterial(request, inputs.hash, texts, info, {}));
  MOERT_ASSIGN_OR_RETURN(
      const AcceptanceTurn turn,
      findAcceptanceTurn(request.acceptanceLogPath,
                         subjectOf(request, inputs.hash, inputs.deviceHash, material)));
  return checkReach(request, material, turn);
}

Result<AcceptanceTurn> takeAcceptanceLevels(const AccurateCompileRequest &request,
                                            const CheckpointHash &checkpoint, uint64_t deviceHash,
                                            const SearchMaterial &material, WorkDirectory &work,
                                            const Session &session) {
  const AcceptanceSubject subject = subjectOf(request, checkpoint, deviceHash, material);
  auto turn = findAcceptanceTurn(request.acceptanceLogPath, subject);
  Status checked = turn.isOk() ? checkReach(request, material, *turn) : turn.status();
  if (checked.isOk()) {
    turn = takeAcceptanceTurn(request.acceptanceLogPath, subject);
    // Another compile may have come between.
    checked = turn.isOk() ? checkReach(request, material, *turn) : turn.status();
  }
  if (!checked.isOk()) {
    work.keep();
    return checked;
  }
  if (turn->compile > 1)
    sayTo(session, strCat(turn->text(), ": its acceptance tests need ",
                          formatConfidence(turn->levels.confidence(AcceptanceChain::kMain)),
                          " confidence, which takes more bits than on new documents"));
  return turn;
}

} // namespace moec
