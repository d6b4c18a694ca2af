#include "compiler/accuracy/SearchMaterial.h"

#include "compiler/accuracy/SearchSummary.h"
#include "compiler/accuracy/SearchedWidths.h"
#include "compiler/search/AcceptanceLog.h"
#include "runtime/base/Checksum.h"

#include <optional>
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
  MOERT_RETURN_IF_ERROR(
      items.leaveOut(findSeenItems(tokens, info.tokens, info.windowTokens, material.windows,
                                   request.amounts.windowTokens),
                     *request.target));
  if (const uint64_t kept = items.kept.size(); kept < all)
    sayTo(session, strCat("accepting on ", kept, " of ", all,
                          " items: calibration or the search has read parts of the others"));
  return {};
}

/// Without the target, so that a resumed compile with another one finds the measurements. The
/// number after the first word grows when experts of the same options have other values.
static uint64_t measurementFingerprint(const AccurateCompileRequest &request,
                                       const CheckpointHash &checkpoint,
                                       const CalibrationInfo &info,
                                       const SearchMaterial &material) {
  std::string text = strCat("measure 2 ", MOE_VERSION, " ", formatChecksum(checkpoint.sample), " ",
                            nameOf(request.method), " ", request.passes.nested, " ",
                            request.passes.lowCopyBits, " ", request.passes.group, " ",
                            request.passes.activationGroup, " ", request.areResidentBitsChosen, " ",
                            int(request.passes.residentBits), " ", int(request.passes.headBits),
                            " ", metricName(material.items ? LossMetric::kKl : request.metric), " ",
                            request.amounts.windowTokens);
  for (const ExpertWidth &width : searchedWidths(request)) // Assignments are numbers of these.
    text += strCat(" ", width.text());
  ChecksumStream stream;
  stream.update(std::as_bytes(std::span(text)));
  stream.update(std::as_bytes(std::span(info.tokens)));
  const SearchWindows &windows = material.windows;
  for (const WindowSet *set : {&windows.probe, &windows.rest, &windows.acceptance})
    for (size_t t = 0; t < set->ids.size(); ++t) {
      stream.update(std::as_bytes(std::span(set->ids[t])));
      stream.update(std::as_bytes(std::span(set->units[t])));
    }
  return stream.digest();
}

Result<SearchMaterial> chooseSearchMaterial(const AccurateCompileRequest &request,
                                            const CheckpointHash &checkpoint, CompileTexts texts,
                                            const CalibrationInfo &info, const Session &session) {
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
  material.items = std::move(texts.items);
  const WindowSet &accepted = material.windows.acceptance;
  if (material.items)
    MOERT_RETURN_IF_ERROR(leaveOutSeenItems(request, info, material, session));
  else if (material.windows.isSetAside)
    sayTo(session,
          strCat("accepting on ", accepted.unitCount(), " units (", accepted.documentCount(),
                 " documents, ", accepted.windows, " windows of ", amounts.windowTokens,
                 " tokens) that are set aside from the calibration texts, as no "
                 "--eval-text was given"));
  material.acceptedOn =
      material.windows.isSetAside ? std::move(searched) : std::move(texts.acceptance);
  material.fingerprint = measurementFingerprint(request, checkpoint, info, material);
  return material;
}

/// Hash of all that decides which candidates are tested: an equal compile repeats the same tests.
static uint64_t compileFingerprint(const AccurateCompileRequest &request, uint64_t deviceHash,
                                   const SearchMaterial &material) {
  std::string text = strCat("accept ", formatChecksum(material.fingerprint), " ", *request.target,
                            " ", metricName(request.metric), " ", int(request.solver));
  const auto &passes = request.passes;
  if (deviceHash != 0) // Then times choose between candidates.
    for (const std::string &word :
         {std::string(formatChecksum(deviceHash)),
          passes.budgets.empty() ? std::string() : passes.budgets.front(),
          passes.presets.empty() ? std::string() : passes.presets.front(),
          std::to_string(passes.context), std::to_string(passes.prefillChunk),
          std::to_string(passes.threads)})
      text += strCat(" '", word, "'");
  if (material.items)
    for (const auto &[option, value] : material.items->options)
      text += strCat(" --", option, " '", value, "'");
  return checksum64(std::as_bytes(std::span(text)));
}

Result<AcceptanceTurn> takeAcceptanceLevels(const AccurateCompileRequest &request,
                                            const CheckpointHash &checkpoint, uint64_t deviceHash,
                                            const SearchMaterial &material, WorkDirectory &work,
                                            const Session &session) {
  std::string path = request.acceptanceLogPath;
  if (path.empty()) {
    MOERT_ASSIGN_OR_RETURN(path, defaultAcceptanceLog());
  }
  std::vector<uint64_t> hashes;
  for (const SearchText &text : material.acceptedOn)
    hashes.push_back(text.hash);
  AcceptanceTurn turn;
  MOERT_ASSIGN_OR_RETURN(
      turn.compile,
      addToAcceptanceLog(
          path, {checkpoint.sample, compileFingerprint(request, deviceHash, material), hashes}));
  const std::optional<AcceptanceLevels> levels = acceptanceLevels(turn.compile);
  if (!levels) {
    work.keep();
    return invalidInput(kMaxCompilesOfText,
                        " compiles have tested this checkpoint on these texts (", path,
                        "), which leaves no probability of error for another one; expected other "
                        "documents: --eval-text, or --self-text with another --seed");
  }
  turn.levels = *levels;
  if (turn.compile > 1)
    sayTo(session, strCat("compile ", turn.compile,
                          " of this checkpoint on these texts: its acceptance tests need ",
                          formatConfidence(turn.levels.confidence(AcceptanceChain::kMain)),
                          " confidence, which takes more bits than on other documents"));
  return turn;
}

} // namespace moec
