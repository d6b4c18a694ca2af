#include "compiler/commands/SelfText.h"

#include "compiler/commands/Reference.h"
#include "compiler/import/ImportCheckpoint.h"
#include "moert/Engine.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/generation/Sampler.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

using namespace moert;

namespace moec {

namespace {

/// Sequences that are sampled side by side, so that an expert is read once for all of them.
constexpr uint32_t kLanes = 32;
/// First tokens that are drawn for a document before the model is said to write none.
constexpr int kMostDraws = 1000;

/// A document on its way.
struct Lane {
  std::unique_ptr<moert::Session> session;
  std::optional<Sampler> sampler;
  uint64_t document = 0;
  int32_t last = 0; // The token that the session gets next.
  std::vector<int32_t> ids;
  bool isActive = false;
};

/// Writes the documents of one call. One thread.
class SelfTextWriter final : public StepObserver {
public:
  SelfTextWriter(const SelfTextRequest &asked, const Session &told) : request(asked), about(told) {}

  Status open();
  Status run();

  Status onLogits(moert::Session &session, uint32_t position,
                  std::span<const float> logits) override;

private:
  Status load();
  Result<MemoryAccount> accountForLanes(EngineOptions &options) const;
  Status begin(Lane &lane, uint64_t document);
  Status step();
  Status flush();
  bool isEnd(int32_t token) const {
    return std::find(endTokens.begin(), endTokens.end(), token) != endTokens.end();
  }

  const SelfTextRequest &request;
  const Session &about;
  std::optional<OutputFile> output;
  uint64_t written = 0; // Documents in the file.
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  std::vector<Lane> lanes;
  std::vector<int32_t> endTokens;
  std::optional<int32_t> separator;
  std::map<uint64_t, std::string> finished; // Lines that wait for earlier documents.
};

} // namespace

// The next state of a counter-based stream: documents of one seed get unrelated streams.
static uint64_t seedOf(uint64_t seed, uint64_t document) {
  const std::array<uint64_t, 2> parts = {seed, document};
  return checksum64(std::as_bytes(std::span(parts)));
}

Status SelfTextWriter::open() {
  const std::string partial = OutputFile::partialPathOf(request.outputPath);
  std::error_code ignored;
  if (request.resume && std::filesystem::is_regular_file(partial, ignored)) {
    MOERT_ASSIGN_OR_RETURN(std::string lines, readInput(partial));
    lines.resize(lines.rfind('\n') + 1); // npos + 1 is 0.
    written = static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
    if (written <= request.documents) {
      MOERT_ASSIGN_OR_RETURN(OutputFile kept,
                             OutputFile::resume(request.outputPath, lines.size(), 0));
      output.emplace(std::move(kept));
      return {};
    }
    written = 0;
  }
  MOERT_ASSIGN_OR_RETURN(OutputFile created, OutputFile::create(request.outputPath));
  output.emplace(std::move(created));
  return {};
}

// As many lanes as the memory has room for.
Result<MemoryAccount> SelfTextWriter::accountForLanes(EngineOptions &options) const {
  uint32_t count = static_cast<uint32_t>(std::min<uint64_t>(kLanes, request.documents - written));
  for (;; count /= 2) {
    options.sessions = count;
    options.prefillChunk = count;
    options.logitsRows = count;
    auto account = accountMemory(*model, options);
    if (account.isOk() || count == 1)
      return account;
  }
}

Status SelfTextWriter::load() {
  MOERT_ASSIGN_OR_RETURN(model, Model::open(request.referencePath));
  if (!model->tokenizer())
    return invalidInput(request.referencePath,
                        ": the checkpoint has no tokenizer, which writing text needs");
  const ModelInfo &info = model->artifact().model;
  endTokens = info.eosTokens;
  MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> added, model->tokenizer()->encode("", true));
  if (!added.empty())
    separator = added.front();
  else if (!endTokens.empty())
    separator = endTokens.front();
  EngineOptions options;
  options.contextTokens = std::min(request.documentTokens, info.maxPositions);
  options.threads = request.threads;
  options.takesFewerThreads = true;
  options.memory = BudgetSize{availableMemoryBytes() / 4 * 3, {}};
  options.extraBytes = privateMemoryBytes();
  MOERT_ASSIGN_OR_RETURN(MemoryAccount account, accountForLanes(options));
  MOERT_ASSIGN_OR_RETURN(engine, Engine::load(*model, options, account));
  lanes.resize(options.sessions);
  for (Lane &lane : lanes) {
    MOERT_ASSIGN_OR_RETURN(lane.session, engine->createSession());
  }
  return {};
}

Status SelfTextWriter::begin(Lane &lane, uint64_t document) {
  const uint32_t vocabulary = model->artifact().model.vocabularySize;
  const uint64_t seed = seedOf(request.seed, request.firstDocument + document);
  SamplingOptions sampling;
  sampling.temperature = 1;
  sampling.seed = seed;
  MOERT_ASSIGN_OR_RETURN(lane.sampler, Sampler::create(sampling, vocabulary));
  lane.session->reset();
  lane.document = document;
  lane.ids.clear();
  lane.last = separator ? *separator : int32_t(RandomStream(~seed).nextBelow(vocabulary));
  if (!separator)
    lane.ids.push_back(lane.last);
  lane.isActive = true;
  return {};
}

Status SelfTextWriter::onLogits(moert::Session &session, uint32_t, std::span<const float> logits) {
  Lane &lane = *std::find_if(lanes.begin(), lanes.end(), [&](const Lane &candidate) {
    return candidate.session.get() == &session;
  });
  MOERT_ASSIGN_OR_RETURN(lane.last, lane.sampler->sample(logits));
  for (int again = 0; isEnd(lane.last) && lane.ids.empty(); ++again) {
    if (again == kMostDraws)
      return failed(request.referencePath,
                    ": the model ends every document before its first token");
    MOERT_ASSIGN_OR_RETURN(lane.last, lane.sampler->sample(logits));
  }
  if (isEnd(lane.last))
    lane.isActive = false;
  else
    lane.ids.push_back(lane.last);
  if (lane.ids.size() + separator.has_value() >= session.capacity())
    lane.isActive = false;
  if (lane.isActive)
    return {};
  std::string line;
  JsonWriter json(line);
  json.beginObject();
  json.key("text").string(model->tokenizer()->decode(lane.ids, true));
  json.endObject();
  finished.emplace(lane.document, line + "\n");
  return {};
}

Status SelfTextWriter::step() {
  std::vector<SessionTokens> batch;
  for (Lane &lane : lanes)
    if (lane.isActive)
      batch.push_back({lane.session.get(), {&lane.last, 1}, LogitsWanted::kLast});
  return engine->step(batch, *this);
}

Status SelfTextWriter::flush() {
  for (auto next = finished.find(written); next != finished.end(); next = finished.find(written)) {
    MOERT_RETURN_IF_ERROR(output->append(std::string_view(next->second)));
    finished.erase(next);
    ++written;
  }
  return {};
}

Status SelfTextWriter::run() {
  if (about.progress)
    about.progress->beginCounting("writing text", "documents", 1, request.documents, written);
  Status status = written < request.documents ? load() : Status();
  for (uint64_t next = written; status.isOk() && written < request.documents;) {
    for (Lane &lane : lanes)
      if (!lane.isActive && next < request.documents && status.isOk())
        status = begin(lane, next++);
    if (about.stop && about.stop->load())
      status = Status(StatusCode::kInterrupted, "interrupted");
    if (status.isOk())
      status = step();
    if (status.isOk())
      status = flush();
    if (about.progress)
      about.progress->advanceTo(written);
  }
  if (about.progress)
    about.progress->end();
  if (!status.isOk()) {
    if (written > 0)
      output->keep();
    return status;
  }
  return output->commit();
}

Status writeSelfText(const SelfTextRequest &request, const Session &session) {
  SelfTextWriter writer(request, session);
  MOERT_RETURN_IF_ERROR(writer.open());
  return writer.run();
}

Status writeSelfTextInto(const WorkDirectory &work, const std::string &step, const std::string &key,
                         SelfTextRequest request, const Session &session) {
  std::error_code ignored;
  request.resume = work.isMarked(step, key);
  if (request.resume && std::filesystem::is_regular_file(request.outputPath, ignored))
    return {};
  MOERT_RETURN_IF_ERROR(work.mark(step, key));
  return writeSelfText(request, session);
}

static Status makeAndWrite(const Checkpoint &checkpoint, SelfTextRequest request,
                           const WorkDirectory &work, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(CheckpointHash hash, checkpointHash(checkpoint, session.stop));
  const std::string key = strCat(formatChecksum(hash.sample), " ", request.seed, " ",
                                 request.firstDocument, " ", request.documentTokens);
  request.resume = request.resume && work.isMarked("self-text", key);
  MOERT_RETURN_IF_ERROR(work.mark("self-text", key));
  Session quiet = session;
  quiet.say = {};
  MOERT_ASSIGN_OR_RETURN(
      request.referencePath,
      makeReference({checkpoint.directory(), formatChecksum(hash.sample), request.threads}, work,
                    quiet));
  return writeSelfText(request, session);
}

Status selfTextOfCheckpoint(const std::string &checkpointDirectory, SelfTextRequest request,
                            const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, model.checkpoint));
  MOERT_ASSIGN_OR_RETURN(WorkDirectory work,
                         WorkDirectory::open(request.outputPath, request.resume));
  Status status = makeAndWrite(model.checkpoint, request, work, session);
  if (status.isOk() && session.say)
    session.say(strCat("wrote ", request.outputPath, ", ", request.documents, " documents"));
  return work.keepAfter(std::move(status),
                        std::array{OutputFile::partialPathOf(request.outputPath)});
}

} // namespace moec
