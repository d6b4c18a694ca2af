#include "compiler/commands/SelfText.h"

#include "compiler/commands/Reference.h"
#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/import/WholeInputs.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/base/ThreadPool.h"
#include "runtime/engine/Engine.h"
#include "runtime/evaluation/JsonLine.h"
#include "runtime/evaluation/RowScore.h"
#include "runtime/evaluation/TextWindows.h"
#include "runtime/text/sampling/Sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

using namespace moert;

namespace moec {

namespace {

/// Sequences that are written in one batch, at most: weights are read once for all of them, and an
/// expert that few of them choose still gets several rows.
constexpr uint64_t kLanes = 64;
/// First tokens that are drawn for a document before giving up.
constexpr int kMostDraws = 1000;
/// A document's loss, as the bits of a double.
constexpr const char *kNatsKey = "nats_f64";

/// An unfinished document.
struct Lane {
  std::unique_ptr<moert::Session> session;
  std::optional<Sampler> sampler;
  uint64_t document = 0;
  std::vector<int32_t> tokens; // What stands before the document, and the document.
  size_t fed = 0;              // Tokens that the session has got.
  bool isActive = false;
  std::vector<float> logits;   // After the last token.
  bool hasLogits = false;      // The step has given these.
  Result<int32_t> sampled = 0; // The token drawn from these.
  double nats = 0;             // The loss of all drawn tokens, summed as in a SampleScore.
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
  std::string lineOf(const Lane &lane) const;
  Status step();
  void sample(Lane &lane) const;
  Status take(Lane &lane);
  Status flush();
  uint64_t doneTokens() const; // A document that ended early counts as a whole one.
  bool endsAtEndToken() const { return !request.hasIds; }
  bool isEnd(int32_t token) const {
    return std::find(endTokens.begin(), endTokens.end(), token) != endTokens.end();
  }

  const SelfTextRequest &request;
  const Session &about;
  std::optional<OutputFile> output;
  uint64_t written = 0; // Documents in the file.
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ThreadPool> samplers;
  std::vector<Lane> lanes;
  std::vector<int32_t> endTokens;
  std::vector<int32_t> before;              // What stands before each document.
  std::map<uint64_t, std::string> finished; // Lines that wait for earlier documents.
};

} // namespace

static uint64_t mix(uint64_t seed, uint64_t number) {
  const std::array<uint64_t, 2> parts = {seed, number};
  return checksum64(std::as_bytes(std::span(parts)));
}

// Each use and each document of a seed gets a stream of its own. Files have the seed unchanged, so
// that those in tests/data/documents are what their command writes.
static uint64_t seedOf(const SelfTextRequest &request, uint64_t document) {
  const uint64_t seed = request.use == SelfTextUse::kFile
                            ? request.seed
                            : mix(request.seed, ~static_cast<uint64_t>(request.use));
  return mix(seed, document);
}

// The first `count` lines, or all that are whole.
static std::string_view firstLines(std::string_view text, uint64_t count, uint64_t &lines) {
  size_t end = 0;
  for (lines = 0; lines < count; ++lines) {
    const size_t next = text.find('\n', end);
    if (next == text.npos)
      break;
    end = next + 1;
  }
  return text.substr(0, end);
}

Status SelfTextWriter::open() {
  const std::string partial = OutputFile::partialPathOf(request.outputPath);
  std::error_code ignored;
  if (request.resume && std::filesystem::is_regular_file(partial, ignored)) {
    MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(partial));
    const uint64_t bytes = firstLines(content, request.documents, written).size();
    MOERT_ASSIGN_OR_RETURN(OutputFile kept, OutputFile::resume(request.outputPath, bytes, 0));
    output.emplace(std::move(kept));
    return {};
  }
  MOERT_ASSIGN_OR_RETURN(OutputFile created, OutputFile::create(request.outputPath));
  output.emplace(std::move(created));
  return {};
}

// As many lanes as memory allows, in rounds of equally many documents. A batch has at most as many
// tokens as the context.
Result<MemoryAccount> SelfTextWriter::accountForLanes(EngineOptions &options) const {
  const uint64_t documents = request.documents - written;
  const uint64_t rowBytes = uint64_t(model->artifact().model.vocabularySize) * sizeof(float);
  const uint64_t most = std::min<uint64_t>(kLanes, options.contextTokens);
  uint64_t count = divideUp(documents, divideUp(documents, most));
  for (;; count /= 2) {
    options.sessions = static_cast<uint32_t>(count);
    options.prefillChunk = options.sessions;
    options.logitsRows = options.sessions;
    options.extraBytes = privateMemoryBytes() + count * rowBytes;
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
  MOERT_ASSIGN_OR_RETURN(const WindowCutter cutter,
                         WindowCutter::create(*model->tokenizer(), endTokens, info.vocabularySize,
                                              request.documentTokens));
  before = cutter.addedTokens();
  if (before.empty() && cutter.separatorToken())
    before = {*cutter.separatorToken()};
  EngineOptions options;
  options.contextTokens = std::min(request.documentTokens, info.maxPositions);
  options.threads = request.threads;
  options.takesFewerThreads = true;
  options.memory = BudgetSize{availableMemoryBytes() / 4 * 3, {}};
  MOERT_ASSIGN_OR_RETURN(MemoryAccount account, accountForLanes(options));
  MOERT_ASSIGN_OR_RETURN(engine, Engine::load(*model, options, account));
  lanes.resize(options.sessions);
  for (Lane &lane : lanes) {
    MOERT_ASSIGN_OR_RETURN(lane.session, engine->createSession());
    lane.logits.resize(info.vocabularySize);
  }
  MOERT_ASSIGN_OR_RETURN(samplers,
                         ThreadPool::create(request.threads, ThreadPool::Shortage::kTakesFewer));
  return {};
}

Status SelfTextWriter::begin(Lane &lane, uint64_t document) {
  const uint32_t vocabulary = model->artifact().model.vocabularySize;
  const uint64_t seed = seedOf(request, document);
  SamplingOptions sampling;
  sampling.temperature = 1;
  sampling.seed = seed;
  MOERT_ASSIGN_OR_RETURN(lane.sampler, Sampler::create(sampling, vocabulary));
  lane.session->reset();
  lane.document = document;
  lane.tokens = before;
  lane.fed = 0;
  lane.nats = 0;
  if (before.empty())
    lane.tokens.push_back(int32_t(RandomStream(~seed).nextBelow(vocabulary)));
  lane.isActive = true;
  return {};
}

Status SelfTextWriter::onLogits(moert::Session &session, uint32_t, std::span<const float> logits) {
  Lane &lane = *std::find_if(lanes.begin(), lanes.end(), [&](const Lane &candidate) {
    return candidate.session.get() == &session;
  });
  std::copy(logits.begin(), logits.end(), lane.logits.begin());
  lane.hasLogits = true;
  return {};
}

void SelfTextWriter::sample(Lane &lane) const {
  lane.sampled = lane.sampler->sample(lane.logits);
  const bool isEmpty = lane.tokens.size() == before.size();
  for (int again = 0; endsAtEndToken() && isEmpty && lane.sampled.isOk() && isEnd(*lane.sampled);
       ++again)
    lane.sampled = again < kMostDraws
                       ? lane.sampler->sample(lane.logits)
                       : failed(request.referencePath,
                                ": the model ends every document before its first token");
  if (!request.hasNats || !lane.sampled.isOk())
    return;
  if (const auto row = scoreRow(lane.logits, {}, *lane.sampled); row.isOk())
    lane.nats += row->lossNats;
  else
    lane.sampled = row.status();
}

Status SelfTextWriter::take(Lane &lane) {
  MOERT_ASSIGN_OR_RETURN(const int32_t token, std::move(lane.sampled));
  if (endsAtEndToken() && isEnd(token))
    lane.isActive = false;
  else
    lane.tokens.push_back(token);
  if (lane.tokens.size() >= lane.session->capacity())
    lane.isActive = false;
  if (!lane.isActive)
    finished.emplace(lane.document, lineOf(lane));
  return {};
}

std::string SelfTextWriter::lineOf(const Lane &lane) const {
  const std::span<const int32_t> ids = std::span(lane.tokens).subspan(before.size());
  std::string line;
  JsonWriter json(line);
  json.beginObject();
  json.key("text").string(model->tokenizer()->decode(ids, !request.hasIds));
  if (request.hasIds)
    json.key("ids").numbers(ids);
  // A session may hold more tokens than a window has, or fewer.
  const bool isWindow = lane.tokens.size() == request.documentTokens && before.size() <= 1;
  if (request.hasNats && isWindow)
    json.key(kNatsKey).number(std::bit_cast<uint64_t>(lane.nats));
  json.endObject();
  return line + "\n";
}

Status SelfTextWriter::step() {
  std::vector<SessionTokens> batch;
  for (Lane &lane : lanes) {
    if (!lane.isActive)
      continue;
    const bool isLast = lane.fed + 1 == lane.tokens.size();
    batch.push_back({lane.session.get(),
                     {&lane.tokens[lane.fed++], 1},
                     isLast ? LogitsWanted::kLast : LogitsWanted::kNowhere});
  }
  MOERT_RETURN_IF_ERROR(engine->step(batch, *this));
  samplers->run(lanes.size(), 1, [&](uint64_t begin, uint64_t end, uint32_t) {
    for (Lane &lane : std::span(lanes).subspan(begin, end - begin))
      if (lane.hasLogits)
        sample(lane);
  });
  for (Lane &lane : lanes)
    if (std::exchange(lane.hasLogits, false))
      MOERT_RETURN_IF_ERROR(take(lane));
  return {};
}

Status SelfTextWriter::flush() {
  for (auto next = finished.find(written); next != finished.end(); next = finished.find(written)) {
    MOERT_RETURN_IF_ERROR(output->append(std::string_view(next->second)));
    finished.erase(next);
    ++written;
  }
  return {};
}

uint64_t SelfTextWriter::doneTokens() const {
  uint64_t tokens = (written + finished.size()) * request.documentTokens;
  for (const Lane &lane : lanes)
    if (lane.isActive)
      tokens += std::min<uint64_t>(lane.fed, request.documentTokens);
  return tokens;
}

Status SelfTextWriter::run() {
  // Documents are written many at a time and end together: counted by their tokens.
  if (about.progress)
    about.progress->beginCounting(request.label, "documents", request.documentTokens,
                                  request.documents * request.documentTokens, doneTokens());
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
      about.progress->advanceTo(doneTokens());
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

Result<std::vector<double>> referenceNatsOf(std::string_view content, std::string_view name) {
  std::vector<double> nats;
  const auto take = [&](JsonLine &line, uint32_t) -> Status {
    if (!line.has(kNatsKey))
      return {};
    MOERT_ASSIGN_OR_RETURN(const uint64_t bits, line.number(kNatsKey, "the bits of a double"));
    nats.push_back(std::bit_cast<double>(bits));
    return {};
  };
  MOERT_RETURN_IF_ERROR(forEachJsonLine(content, name, take));
  return nats;
}

// Everything that decides the bytes of a document.
static std::string keyOf(const CheckpointHash &checkpoint, const SelfTextRequest &request) {
  return strCat(formatChecksum(checkpoint.sample), " seed ", request.seed, ", at most ",
                request.documentTokens, " tokens", request.hasIds ? ", ids" : "",
                request.hasNats ? ", nats" : "");
}

static const char *stepOf(SelfTextUse use) {
  switch (use) {
  case SelfTextUse::kFile:
    return "self-text";
  case SelfTextUse::kCalibration:
    return "self-calibration";
  case SelfTextUse::kAcceptance:
    return "self-acceptance";
  }
  return "";
}

Result<std::string> writeSelfTextInto(const WorkDirectory &work, const CheckpointHash &checkpoint,
                                      SelfTextRequest request, const Session &session) {
  const std::string step = stepOf(request.use);
  request.outputPath = strCat(work.path(), "/", step, ".jsonl");
  // The whole file is of one number of documents.
  const std::string key = strCat(keyOf(checkpoint, request), ", ", request.documents, " documents");
  MOERT_ASSIGN_OR_RETURN(
      request.resume,
      work.takeUp(step, key,
                  std::array{OutputFile::partialPathOf(request.outputPath), request.outputPath}));
  std::error_code ignored;
  if (!request.resume || !std::filesystem::is_regular_file(request.outputPath, ignored))
    MOERT_RETURN_IF_ERROR(writeSelfText(request, session));
  return request.outputPath;
}

static Status makeAndWrite(const Checkpoint &checkpoint, SelfTextRequest request,
                           const WorkDirectory &work, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(CheckpointHash hash, checkpointHash(checkpoint, session.stop));
  const std::string partial = OutputFile::partialPathOf(request.outputPath);
  std::error_code ignored;
  const bool isPartialThere = std::filesystem::exists(partial, ignored);
  // A partial file is of any number of documents.
  MOERT_ASSIGN_OR_RETURN(const bool isTakenUp,
                         work.takeUp(stepOf(request.use), keyOf(hash, request), {&partial, 1}));
  if (request.resume && isPartialThere && !isTakenUp)
    sayTo(session,
          strCat("starting over: ", partial, " is of another checkpoint or other options"));
  request.resume = isTakenUp;
  Session quiet = session;
  quiet.say = {};
  MOERT_ASSIGN_OR_RETURN(
      request.referencePath,
      makeReference({checkpoint.directory(), formatChecksum(hash.sample), request.threads}, work,
                    quiet));
  return writeSelfText(request, session);
}

Status selfTextOfCheckpoint(const std::string &checkpointDirectory, const SelfTextRequest &request,
                            const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory));
  MOERT_RETURN_IF_ERROR(requireDecoder(model.description, checkpointDirectory));
  MOERT_RETURN_IF_ERROR(requireTokenizer(model.checkpoint, "writing text"));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, model.checkpoint));
  const std::array beside = {OutputFile::partialPathOf(request.outputPath)};
  MOERT_ASSIGN_OR_RETURN(
      WorkDirectory work,
      WorkDirectory::open(request.outputPath, leftWorkOf(request.resume, request.restart), beside));
  Status status = makeAndWrite(model.checkpoint, request, work, session);
  if (status.isOk())
    sayTo(session, strCat("wrote ", request.outputPath, ", ", request.documents, " documents"));
  return work.keepAfter(std::move(status), beside);
}

} // namespace moec
