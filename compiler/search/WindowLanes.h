// Evaluates windows, or items, in parallel lanes: each sample goes to the lane that is free first.
// A score depends on its tokens only, so the lane does not matter. A lane computes alone and never
// waits for another, as threads do that share every operation.
#pragma once

#include "compiler/search/KeptRows.h"
#include "compiler/search/SearchTexts.h"
#include "runtime/engine/Engine.h"
#include "runtime/evaluation/EngineSource.h"
#include "runtime/evaluation/EvaluationSet.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// Borrowed sources, used by one thread at a time. Beside the artifact runs the reference, or what
/// is kept of its rows takes part, or none.
struct WindowLane {
  moert::LogitsSource *artifact = nullptr;
  moert::LogitsSource *reference = nullptr;
  KeptRows *kept = nullptr;
};

/// Returns the scores of all windows, text after text, in the order of the set, or the failure of
/// the first window that failed. evaluation.scoreFrom is 1. Ends with kInterrupted once *stop is
/// set.
moert::Result<std::vector<moert::SampleScore>>
evaluateWindows(const WindowSet &set, const moert::EvaluationOptions &evaluation,
                std::span<const WindowLane> lanes, const moert::EvaluationProgress &progress,
                const std::atomic<bool> *stop);

/// The scores of some of a set's items, in their order. The lanes have no kept rows.
moert::Result<std::vector<moert::SampleScore>>
evaluateItems(const moert::EvaluationSet &set, std::span<const uint32_t> items,
              std::span<const WindowLane> lanes, const moert::EvaluationProgress &progress,
              const std::atomic<bool> *stop);

/// Engines of one artifact, each with a session. Movable; the sources go with it.
struct EngineCrew {
  std::unique_ptr<moert::Model> model;
  struct Member {
    std::unique_ptr<moert::Engine> engine;
    std::unique_ptr<moert::EngineSource> source;
  };
  std::vector<Member> members;
};

/// One crew for each artifact, all of the same size: a member for each thread if the available
/// memory holds them all with all their experts. Otherwise one member with all threads; the crews
/// then share the memory evenly and read experts that do not fit repeatedly. images: of a vision
/// model, whose contextTokens are 1; they must outlive the crews.
moert::Result<std::vector<EngineCrew>> loadCrews(std::span<const std::string> paths,
                                                 uint32_t contextTokens, uint32_t threads,
                                                 const moert::LabelledImages *images = nullptr);

/// How windows are evaluated on a crew: with a reference its lanes hold the rows of a step.
moert::EvaluationOptions evaluationOptionsOf(const EngineCrew &crew, uint32_t windowTokens,
                                             bool hasReference);

/// A lane for each member of two crews: an artifact's beside its reference's.
std::vector<WindowLane> lanesBeside(std::span<EngineCrew> crews);

/// evaluateWindows() on an artifact beside its reference. Both share the memory: the reference's
/// rows on all windows can be too large for a file.
moert::Result<std::vector<moert::SampleScore>>
evaluateBeside(const std::string &artifactPath, const std::string &referencePath,
               const WindowSet &set, uint32_t windowTokens, uint32_t threads,
               const moert::EvaluationProgress &progress, const std::atomic<bool> *stop);

} // namespace moec
