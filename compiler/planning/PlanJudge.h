// Measures what plans lose: each is decoded on texts, beside the reference's logits, which are
// computed once. Logits and scores stay in a work directory, so that an interrupted command can
// be resumed.
#pragma once

#include "compiler/profile/SeenText.h"
#include "compiler/search/AcceptanceTarget.h"
#include "compiler/search/MeasurementLog.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"
#include "runtime/engine/Engine.h"
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
    const WorkDirectory &work;
    unsigned threads = 1;
    AcceptanceTarget target = {}; // For what a loss states of its target.
  };
  PlanJudge(const Inputs &given, const Session &with) : inputs(given), session(with) {}

  /// Reads the texts and opens the models. seen: units that overlap it are left out, and so are
  /// copies of units.
  moert::Status open(const SeenText *seen = nullptr);
  std::span<const moert::EvaluatedText> texts() const { return set->textsRead(); }
  uint64_t units() const;
  /// Refuses texts of fewer units than a bound needs.
  moert::Status checkUnits() const;

  /// Hash of all that decides how an artifact is scored: the reference, the texts and their
  /// windows.
  uint64_t samplesHash() const { return samples; }
  /// Checksum of the artifact with one plan: of its weights, program and tokenizer too.
  moert::Result<uint64_t> artifactWith(const moert::Plan &plan) const;
  /// Hash of the checkpoint that the artifact was made from.
  uint64_t checkpoint() const;

  /// Decodes all texts with the plan's cache, which begins empty or as the plan starts it.
  /// which: said in progress after the plan's name and rule.
  moert::Result<moert::PlanLoss> measure(const moert::Plan &plan, double confidence,
                                         const std::string &which = "");
  /// The same without a bound, of any number of documents.
  moert::Result<moert::SampleScore> scoreOf(const moert::Plan &plan);

private:
  using Scores = std::vector<moert::SampleScore>;
  std::string rowsPath() const { return inputs.work.path() + "/" + rowsStep; }
  /// For decoding all texts with a model; extraBytes is left to the caller.
  moert::EngineOptions engineOptions(const moert::Model &model) const;
  void leaveOut(const SeenText &seen);
  moert::Status recordReference();
  moert::Result<Scores> decode(const moert::Plan &plan, const std::string &which);
  moert::Result<Scores> scoresOf(const moert::Plan &plan, const std::string &which);
  moert::Result<Scores> evaluate(moert::LogitsSource &artifact, moert::LogitsSource *reference,
                                 const std::string &what) const;
  moert::Result<moert::PlanLoss> lossOfScores(std::span<const moert::SampleScore> scores,
                                              double confidence) const;

  Inputs inputs;
  const Session &session;
  std::unique_ptr<moert::Model> reference, judged;
  std::optional<moert::EvaluationSet> set;
  bool hasLeftOut = false;
  uint64_t samples = 0;
  std::string rowsStep; // The file of the reference's logits, and the step that completes it.
  std::optional<MeasurementLog> log; // Scores of plans; since the texts are known.
};

} // namespace moec
