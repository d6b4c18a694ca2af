#include "compiler/accuracy/QuickLoss.h"

#include "compiler/accuracy/SearchCalibration.h"
#include "compiler/search/WindowLanes.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/RandomFile.h"
#include "runtime/format/Reader.h"
#include "runtime/format/Writer.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <numeric>

using namespace moert;

namespace moec {

constexpr uint32_t kWidestTried = 6;

std::optional<uint32_t> widthAfter(uint32_t bits, const QuickLoss &quick) {
  const bool isMissed = quick.loss > kQuickLossAim && bits < kWidestTried;
  return isMissed ? std::optional(bits + 1) : std::nullopt;
}

std::string missedAimText(uint32_t bits, uint32_t wider, const QuickLoss &quick) {
  char loss[32];
  std::snprintf(loss, sizeof loss, "%+.2f%%", quick.loss * 100);
  return strCat("experts of ", bits, " bits change perplexity by ", loss, ", above the aim of ",
                kQuickLossAim * 100, "%: compiling them with ", wider, " bits; --bits ", bits,
                " keeps ", bits);
}

double chanceOfWider(uint32_t bits, const QuickLoss &quick) {
  // A quarter of the windows has twice the error of all.
  constexpr double kNear = 1.5, kLikely = 0.95;
  if (bits >= kWidestTried || quick.loss * kNear < kQuickLossAim)
    return 1 - kLikely;
  return quick.loss > kQuickLossAim * kNear ? kLikely : kChanceOfWider;
}

/// Windows [first, end) of a text that was read.
static WindowSet windowsOf(const TextWindows &text, size_t first, size_t end) {
  WindowSet set;
  set.windows = end - first;
  set.ids.emplace_back(text.tokens.begin() + ptrdiff_t(first * text.windowTokens),
                       text.tokens.begin() + ptrdiff_t(end * text.windowTokens));
  set.units.emplace_back(text.units.begin() + ptrdiff_t(first),
                         text.units.begin() + ptrdiff_t(end));
  set.indices.emplace_back(set.windows);
  std::iota(set.indices[0].begin(), set.indices[0].end(), uint32_t(first));
  return set;
}

static Result<TextWindows> writeWindows(const AccurateCompileRequest &request,
                                        const ImportedModel &model,
                                        const CheckpointHash &checkpoint,
                                        const std::string &referencePath, const WorkDirectory &work,
                                        const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const std::string path,
                         writeSelfText(request, SelfTextUse::kAcceptance, kWritingMeasured,
                                       kQuickWindows, checkpoint, referencePath, work, session));
  AccurateCompileRequest written = request;
  written.calibrationTexts.clear();
  written.acceptanceTexts = {path};
  Session quiet = session;
  quiet.say = {}; // Warnings about the tokenizer came before.
  MOERT_ASSIGN_OR_RETURN(const CompileTexts texts, readCompileTexts(written, model, quiet));
  return texts.acceptance.front().windows;
}

static QuickLoss quickLossOf(std::span<const SampleScore> scores, uint32_t windowTokens) {
  const SampleScore sum = sumOf(scores);
  return {sum.perplexity() / sum.referencePerplexity() - 1, sum.kl(), 1 - sum.agreement(),
          uint32_t(scores.size()), windowTokens};
}

Result<QuickLoss> measureQuickLoss(const AccurateCompileRequest &asked, const ImportedModel &model,
                                   const CheckpointHash &checkpoint,
                                   const std::string &referencePath,
                                   const std::string &artifactPath, const WorkDirectory &work,
                                   const Session &session, const OnQuickLoss &onFirst) {
  AccurateCompileRequest request = asked;
  request.amounts.windowTokens = std::min(kQuickWindowTokens, model.description.maxPositions);
  MOERT_ASSIGN_OR_RETURN(const TextWindows windows,
                         writeWindows(request, model, checkpoint, referencePath, work, session));
  if (session.progress)
    session.progress->beginCounting(kMeasuringLoss, "windows", 1, windows.windows(), 0);
  std::vector<SampleScore> scores;
  const size_t all = windows.windows(), quarter = divideUp(all, size_t(4));
  Status status;
  for (const size_t end : {quarter, all}) {
    const size_t first = scores.size();
    auto some = evaluateBeside(
        artifactPath, referencePath, windowsOf(windows, first, end), windows.windowTokens,
        request.threads,
        [&](uint64_t done, uint64_t) {
          if (session.progress)
            session.progress->advanceTo(first + done);
        },
        session.stop);
    status = some.status();
    if (!status.isOk())
      break;
    scores.insert(scores.end(), some->begin(), some->end());
    if (end == quarter)
      onFirst(quickLossOf(scores, windows.windowTokens));
  }
  if (session.progress)
    session.progress->end();
  MOERT_RETURN_IF_ERROR(status);
  return quickLossOf(scores, windows.windowTokens);
}

Status addQuickLoss(const std::string &artifactPath, const QuickLoss &quick) {
  MOERT_ASSIGN_OR_RETURN(Artifact artifact, readArtifact(artifactPath));
  artifact.quickLoss = quick;
  MOERT_ASSIGN_OR_RETURN(const SealedArtifact sealed, sealArtifact(artifact));
  MOERT_ASSIGN_OR_RETURN(const RandomFile file, RandomFile::open(artifactPath, O_RDWR));
  MOERT_RETURN_IF_ERROR(file.writeAt(sealed.manifestOffset, sealed.manifest));
  std::error_code error;
  std::filesystem::resize_file(artifactPath, artifact.fileBytes, error);
  if (error)
    return failed("cannot resize '", artifactPath, "': ", error.message());
  return file.writeAt(0, sealed.prefix);
}

} // namespace moec
