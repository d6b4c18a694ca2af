#include "compiler/search/WindowLanes.h"

#include "runtime/base/SystemLimits.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

using namespace moert;

namespace moec {

namespace {

/// State shared by the lanes. `next` is used without the lock, the rest under it.
class SampleQueue {
public:
  SampleQueue(const char *sampleName, uint64_t samples, const EvaluationProgress &heard)
      : what(sampleName), progress(heard), scores(samples) {}

  /// The next sample; nullopt after the last one or after a failure.
  std::optional<uint64_t> take() {
    uint64_t index = next.fetch_add(1);
    if (index >= scores.size())
      return std::nullopt;
    return index;
  }
  void give(uint64_t sample, Result<SampleScore> score);
  Result<std::vector<SampleScore>> result() &&;

private:
  const char *const what;
  const EvaluationProgress &progress;
  std::atomic<uint64_t> next{0};
  std::mutex lock;
  std::vector<SampleScore> scores;
  uint64_t done = 0, firstFailed = UINT64_MAX;
  Status failure;
};

} // namespace

void SampleQueue::give(uint64_t sample, Result<SampleScore> score) {
  std::lock_guard<std::mutex> guard(lock);
  if (!score.isOk()) {
    next = scores.size();
    if (sample < firstFailed) {
      firstFailed = sample;
      failure = score.status().withContext(strCat(what, " ", sample + 1, " of ", scores.size()));
    }
    return;
  }
  scores[sample] = *score;
  if (progress)
    progress(++done, scores.size());
}

Result<std::vector<SampleScore>> SampleQueue::result() && {
  MOERT_RETURN_IF_ERROR(failure);
  return std::move(scores);
}

// execute: takes samples from the queue until it is empty.
template <typename Score>
static void evaluateLanes(std::span<const WindowLane> lanes, const Score &execute) {
  std::vector<std::thread> others;
  for (const WindowLane &lane : lanes.subspan(1))
    try {
      others.emplace_back(execute, std::cref(lane));
    } catch (const std::system_error &) {
      break; // The lanes that were started take all samples.
    }
  execute(lanes.front());
  for (std::thread &other : others)
    other.join();
}

/// scoreTokens() with what is kept of the reference's rows, from row `first` on.
static Result<SampleScore> scoreBeside(KeptRows &kept, uint64_t first, PairedPass &pass,
                                       std::span<const int32_t> tokens) {
  SampleScore score;
  MOERT_RETURN_IF_ERROR(pass.run(
      tokens, 0, [&](uint32_t index, std::span<const float> logits, std::span<const float>) {
        auto row = kept.score(first + index, logits, tokens[index + 1]);
        if (!row.isOk())
          return row.status().withContext(strCat("after token ", index));
        score.add(*row);
        return Status();
      }));
  return score;
}

Result<std::vector<SampleScore>> evaluateWindows(const WindowSet &set,
                                                 const EvaluationOptions &evaluation,
                                                 std::span<const WindowLane> lanes,
                                                 const EvaluationProgress &progress,
                                                 const std::atomic<bool> *stop) {
  struct Window {
    uint32_t text, unit;
    std::span<const int32_t> tokens;
  };
  std::vector<Window> windows;
  const uint32_t length = evaluation.windowTokens;
  for (uint32_t text = 0; text < set.ids.size(); ++text)
    for (size_t w = 0; w < set.units[text].size(); ++w)
      windows.push_back(
          {text, set.units[text][w], std::span(set.ids[text]).subspan(w * length, length)});
  SampleQueue queue("window", windows.size(), progress);
  evaluateLanes(lanes, [&](const WindowLane &lane) {
    PairedPass pass(evaluation.stepTokens, *lane.artifact, lane.reference, stop);
    while (std::optional<uint64_t> window = queue.take()) {
      const std::span<const int32_t> tokens = windows[*window].tokens;
      auto score = lane.kept ? scoreBeside(*lane.kept, *window * length, pass, tokens)
                             : scoreTokens(pass, tokens, evaluation.scoreFrom);
      if (score.isOk()) {
        score->text = windows[*window].text;
        score->unit = windows[*window].unit;
      }
      queue.give(*window, std::move(score));
    }
  });
  return std::move(queue).result();
}

Result<std::vector<SampleScore>> evaluateItems(const EvaluationSet &set,
                                               std::span<const uint32_t> items,
                                               std::span<const WindowLane> lanes,
                                               const EvaluationProgress &progress,
                                               const std::atomic<bool> *stop) {
  SampleQueue queue("item", items.size(), progress);
  evaluateLanes(lanes, [&](const WindowLane &lane) {
    while (std::optional<uint64_t> i = queue.take())
      queue.give(*i, set.evaluateItem(items[*i], *lane.artifact, lane.reference, stop));
  });
  return std::move(queue).result();
}

// The rest is for a judge's other data, mainly rows of the reference, and for the page cache of the
// files that it writes and reads. If too little is left, the program's own code is paged in again
// and again.
static uint64_t memoryForEngines() {
  return availableMemoryBytes() / 4 * 3;
}

static EngineOptions engineOptions(uint32_t contextTokens, uint32_t threads, bool isFirst,
                                   uint64_t memory) {
  constexpr uint32_t kLogitsRows = 16; // The head's weights are read once for this many rows.
  EngineOptions options;
  options.contextTokens = contextTokens;
  options.logitsRows = std::min(kLogitsRows, contextTokens);
  options.threads = threads;
  options.takesFewerThreads = true;
  options.memory = BudgetSize{memory, {}};
  // The first engine's account includes what the process already holds.
  options.sharesProcess = !isFirst;
  options.extraBytes = isFirst ? privateMemoryBytes() : 0;
  return options;
}

// A window is one chunk: if experts do not fit, every chunk reads nearly all of them, so memory for
// the rows of a whole window gains more than a larger cache.
static Result<MemoryAccount> accountOf(const Model &model, EngineOptions &options) {
  options.prefillChunk = options.contextTokens;
  auto account = accountMemory(model, options);
  if (account.isOk())
    return account;
  options.prefillChunk.reset();
  return accountMemory(model, options);
}

static Status addMember(EngineCrew &crew, EngineOptions options, const LabelledImages *images) {
  MOERT_ASSIGN_OR_RETURN(MemoryAccount account, accountOf(*crew.model, options));
  EngineCrew::Member &member = crew.members.emplace_back();
  MOERT_ASSIGN_OR_RETURN(member.engine, Engine::load(*crew.model, options, account));
  MOERT_ASSIGN_OR_RETURN(member.source, EngineSource::create(*member.engine, images));
  return {};
}

// An account takes every expert as far as memory allows: if there is not enough for one account,
// there is not enough for two.
static Result<bool> hasRoomForAll(std::span<const EngineCrew> crews, uint32_t contextTokens,
                                  uint32_t members) {
  const uint64_t memory = memoryForEngines();
  uint64_t needed = 0;
  for (const EngineCrew &crew : crews) {
    EngineOptions options = engineOptions(contextTokens, 1, true, memory);
    auto account = accountOf(*crew.model, options);
    MOERT_RETURN_IF_ERROR(account.status());
    if (account->totalBytes() > memory / members)
      return false;
    needed += account->totalBytes() * members;
  }
  return needed <= memory;
}

Result<std::vector<EngineCrew>> loadCrews(std::span<const std::string> paths,
                                          uint32_t contextTokens, uint32_t threads,
                                          const LabelledImages *images) {
  std::vector<EngineCrew> crews(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(crews[i].model, Model::open(paths[i]));
  }
  MOERT_ASSIGN_OR_RETURN(bool isRoomy, hasRoomForAll(crews, contextTokens, std::max(threads, 2u)));
  const uint32_t members = isRoomy ? threads : 1, threadsOfEach = isRoomy ? 1 : threads;
  // Read before the first engine is loaded, which uses up free memory.
  const uint64_t memory = memoryForEngines() / (isRoomy ? 1 : crews.size());
  for (uint32_t member = 0; member < members; ++member)
    for (size_t i = 0; i < crews.size(); ++i) {
      const bool isFirst = member == 0 && i == 0;
      MOERT_RETURN_IF_ERROR(addMember(
          crews[i], engineOptions(contextTokens, threadsOfEach, isFirst, memory), images));
    }
  return crews;
}

EvaluationOptions evaluationOptionsOf(const EngineCrew &crew, uint32_t windowTokens,
                                      bool hasReference) {
  constexpr uint64_t kRowsBytes = 32 << 20; // Bytes of the reference's rows held at a time.
  EvaluationOptions evaluation;
  evaluation.windowTokens = evaluation.stepTokens = windowTokens;
  const uint64_t rowBytes =
      crew.members.front().source->vocabularySize() * sizeof(float) * crew.members.size();
  if (hasReference)
    evaluation.stepTokens = uint32_t(std::clamp<uint64_t>(kRowsBytes / rowBytes, 1, windowTokens));
  return evaluation;
}

std::vector<WindowLane> lanesBeside(std::span<EngineCrew> crews) {
  std::vector<WindowLane> lanes;
  for (size_t member = 0; member < crews[0].members.size(); ++member)
    lanes.push_back(
        {crews[0].members[member].source.get(), crews[1].members[member].source.get(), nullptr});
  return lanes;
}

Result<std::vector<SampleScore>>
evaluateBeside(const std::string &artifactPath, const std::string &referencePath,
               const WindowSet &set, uint32_t windowTokens, uint32_t threads,
               const EvaluationProgress &progress, const std::atomic<bool> *stop) {
  const std::string paths[] = {artifactPath, referencePath};
  MOERT_ASSIGN_OR_RETURN(std::vector<EngineCrew> crews, loadCrews(paths, windowTokens, threads));
  return evaluateWindows(set, evaluationOptionsOf(crews[0], windowTokens, true), lanesBeside(crews),
                         progress, stop);
}

} // namespace moec
