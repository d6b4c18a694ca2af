#include "runtime/evaluation/PairedPass.h"

#include <algorithm>

namespace moert {

PairedPass::PairedPass(uint32_t tokensOfStep, LogitsSource &artifactSource,
                       LogitsSource *referenceSource, const std::atomic<bool> *stopFlag)
    : stepTokens(tokensOfStep), artifact(artifactSource), reference(referenceSource),
      stop(stopFlag) {
  if (reference)
    rows.resize(uint64_t(stepTokens) * reference->vocabularySize());
}

Status PairedPass::run(std::span<const int32_t> tokens, uint32_t firstRow,
                       const TakeRows &takeRows) {
  artifact.reset();
  if (reference)
    reference->reset();
  const auto size = static_cast<uint32_t>(tokens.size());
  for (uint32_t begin = 0; begin < size; begin += stepTokens) {
    if (stop && stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    MOERT_RETURN_IF_ERROR(
        step(tokens, begin, std::min(stepTokens, size - begin), firstRow, takeRows));
  }
  return {};
}

Status PairedPass::step(std::span<const int32_t> tokens, uint32_t begin, uint32_t count,
                        uint32_t firstRow, const TakeRows &takeRows) {
  const std::span<const int32_t> taken = tokens.subspan(begin, count);
  // The last token's row predicts nothing.
  const bool isWanted = begin + count > firstRow && begin + 1 < tokens.size();
  if (!isWanted) {
    if (reference)
      MOERT_RETURN_IF_ERROR(reference->append(taken, {}).withContext("reference"));
    return artifact.append(taken, {});
  }
  if (reference)
    MOERT_RETURN_IF_ERROR(
        reference
            ->append(taken,
                     [&](uint32_t index, std::span<const float> logits) -> Status {
                       std::copy(logits.begin(), logits.end(), rowOf(index).begin());
                       return {};
                     })
            .withContext("reference"));
  return artifact.append(taken, [&](uint32_t index, std::span<const float> logits) -> Status {
    const uint32_t row = begin + index;
    if (row < firstRow || row + 1 >= tokens.size())
      return {};
    return takeRows(row, logits, reference ? rowOf(index) : std::span<float>{});
  });
}

std::span<float> PairedPass::rowOf(uint32_t index) {
  const uint64_t width = reference->vocabularySize();
  return std::span(rows).subspan(index * width, width);
}

Result<SampleScore> scoreTokens(PairedPass &pass, std::span<const int32_t> tokens,
                                uint32_t scoreFrom) {
  SampleScore score;
  MOERT_RETURN_IF_ERROR(pass.run(
      tokens, scoreFrom - 1,
      [&](uint32_t index, std::span<const float> logits, std::span<const float> reference) {
        auto row = scoreRow(logits, reference, tokens[index + 1]);
        if (!row.isOk())
          return row.status().withContext(strCat("after token ", index));
        score.add(*row);
        return Status();
      }));
  return score;
}

Status checkVocabularies(const LogitsSource &artifact, const LogitsSource *reference) {
  if (reference && reference->vocabularySize() != artifact.vocabularySize())
    return invalidInput("the reference has a vocabulary of ", reference->vocabularySize(),
                        " tokens, the artifact one of ", artifact.vocabularySize(),
                        "; expected the same");
  return {};
}

} // namespace moert
