// Measures what plans lose: each is decoded on texts, in an engine beside the reference's.
#pragma once

#include "compiler/session/Session.h"
#include "moert/Engine.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/EvaluationSet.h"
#include "runtime/policy/Plan.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// Borrows its inputs; one thread uses it.
class PlanJudge {
public:
  struct Inputs {
    const std::string &artifactPath, &referencePath;
    const moert::EvaluationRequest &texts; // With a metric of windows.
    unsigned threads = 1;
  };
  PlanJudge(const Inputs &judged, const Session &with) : inputs(judged), session(with) {}

  /// Reads the texts and opens the models.
  moert::Status open();
  std::span<const moert::EvaluatedText> texts() const { return set->textsRead(); }

  /// Decodes all texts with the plan's cache, which begins empty or as the plan starts it.
  moert::Result<moert::PlanLoss> measure(const moert::Plan &plan, double confidence) const;
  /// The same without a bound, of any number of documents.
  moert::Result<moert::SampleScore> scoreOf(const moert::Plan &plan) const;

private:
  moert::Result<std::vector<moert::SampleScore>> decode(const moert::Plan &plan) const;
  moert::Result<moert::PlanLoss> lossOfScores(std::span<const moert::SampleScore> scores,
                                              double confidence) const;

  Inputs inputs;
  const Session &session;
  std::unique_ptr<moert::Model> reference, tokenizerOwner;
  std::optional<moert::EvaluationSet> set;
};

} // namespace moec
