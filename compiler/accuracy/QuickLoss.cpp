#include "compiler/accuracy/QuickLoss.h"

#include "compiler/accuracy/SearchCalibration.h"
#include "compiler/search/WindowLanes.h"
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

/// The windows of a text that was read, all of them.
static WindowSet allWindowsOf(const TextWindows &text) {
  WindowSet set;
  set.ids = {text.tokens};
  set.units = {text.units};
  set.indices.emplace_back(text.windows());
  std::iota(set.indices[0].begin(), set.indices[0].end(), 0u);
  set.windows = text.windows();
  return set;
}

static Result<WindowSet> writeWindows(const AccurateCompileRequest &request,
                                      const ImportedModel &model, const CheckpointHash &checkpoint,
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
  return allWindowsOf(texts.acceptance.front().windows);
}

Result<QuickLoss> measureQuickLoss(const AccurateCompileRequest &asked, const ImportedModel &model,
                                   const CheckpointHash &checkpoint,
                                   const std::string &referencePath,
                                   const std::string &artifactPath, const WorkDirectory &work,
                                   const Session &session) {
  AccurateCompileRequest request = asked;
  request.amounts.windowTokens = std::min(kQuickWindowTokens, model.description.maxPositions);
  MOERT_ASSIGN_OR_RETURN(const WindowSet windows,
                         writeWindows(request, model, checkpoint, referencePath, work, session));
  if (session.progress)
    session.progress->beginCounting(kMeasuringLoss, "windows", 1, windows.windows, 0);
  auto scores = evaluateBeside(
      artifactPath, referencePath, windows, request.amounts.windowTokens, request.threads,
      [&](uint64_t done, uint64_t) {
        if (session.progress)
          session.progress->advanceTo(done);
      },
      session.stop);
  if (session.progress)
    session.progress->end();
  MOERT_RETURN_IF_ERROR(scores.status());
  const SampleScore sum = sumOf(*scores);
  return QuickLoss{sum.perplexity() / sum.referencePerplexity() - 1, sum.kl(), 1 - sum.agreement(),
                   uint32_t(windows.windows), request.amounts.windowTokens};
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
