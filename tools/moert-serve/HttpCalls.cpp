// How HttpServer answers calls: their bodies, the memory that they need, and their replies.
#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "tools/moert-serve/ApiReply.h"
#include "tools/moert-serve/HttpServer.h"

#include <algorithm>
#include <ctime>
#include <string_view>

namespace moert::serve {

namespace {

/// How often a waiting handler looks whether its client is still there.
constexpr std::chrono::milliseconds kNews{100};
/// A comment of a stream of events, and an answer before the answer: clients ignore both.
constexpr std::string_view kComment = ":\n\n", kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
/// Bytes that a score takes as JSON, until it is text: an object with the token, its bytes and its
/// value.
constexpr uint64_t kScoreBytes = 768;
/// The parts of a choice that do not depend on its tokens.
constexpr uint64_t kChoiceBytes = 4096;

ApiError errorOf(const Submission &refused) {
  ApiError error;
  error.message = refused.reason;
  switch (refused.refusal.value_or(Refusal::kInvalid)) {
  case Refusal::kInvalid:
    break;
  case Refusal::kTooLong:
    error.code = "context_length_exceeded";
    break;
  case Refusal::kBusy:
    error.status = 429;
    error.type = "requests";
    error.code = "rate_limit_exceeded";
    error.message = "The server is busy: " + refused.reason + ". Please try again later.";
    break;
  case Refusal::kStopping:
    error.status = 503;
    error.type = "server_error";
    error.message = "The server is stopping.";
    break;
  }
  return error;
}

std::string hexOf(uint64_t value) {
  std::string text(16, '0');
  for (char &digit : text) {
    digit = "0123456789abcdef"[value >> 60];
    value <<= 4;
  }
  return text;
}

/// What a call holds from its reading to its end: the prompt in the call, in the sequence and with
/// the generated tokens, options, the grammar, and what of the answer is not sent yet. A whole
/// answer grows beyond that.
uint64_t bytesOf(const ApiCall &call) {
  uint64_t bytes = 0;
  for (const AnswerRequest &one : call.sequences) {
    const uint64_t perToken = 128 + (one.topScores ? kScoreBytes * (*one.topScores + 1) : 0);
    bytes += kChoiceBytes + one.prompt.size() * 4 * sizeof(int32_t) +
             one.maxTokens * 2 * sizeof(int32_t);
    bytes += 3 * one.sampling.logitBias.size() * sizeof(TokenBias);
    for (const std::string &text : one.stopTexts)
      bytes += 4 * text.size();
    const uint64_t held = Answer::kFullBytes * (one.topScores ? 5 : 2);
    bytes += std::min<uint64_t>(held, (one.maxTokens + (one.scoresPrompt ? one.prompt.size() : 0)) *
                                          perToken);
  }
  for (const std::string &prompt : call.prompts)
    bytes += prompt.size();
  if (call.response) // As JSON, and in events and the answer.
    bytes += 8 * textOf(*call.response).size();
  if (!call.sequences.empty() && call.sequences[0].grammar)
    bytes += call.sequences[0].grammar->memoryBytes();
  return bytes;
}

/// As many of the keywords as a header should have.
std::string headerOf(const std::vector<std::string> &keywords) {
  constexpr size_t kMostBytes = 2048;
  std::string header;
  for (const std::string &keyword : keywords) {
    header += (header.empty() ? "" : ", ") + keyword;
    if (header.size() > kMostBytes)
      return excerpt(header, kMostBytes);
  }
  return header;
}

} // namespace

std::optional<ApiError> HttpServer::reserve(Reservation &reservation, uint64_t bytes) const {
  const Status reserved = reservation.resize(bytes - std::min(bytes, kOwnBytes));
  if (reserved.isOk())
    return std::nullopt;
  ApiError error;
  if (bytes > ledger.capacity() + kOwnBytes) {
    error.message = strCat("The request needs ", bytes, " bytes of memory, expected at most ",
                           ledger.capacity() + kOwnBytes,
                           ". Please ask for fewer choices, tokens or log probabilities.");
    return error;
  }
  error.status = 503;
  error.type = "server_error";
  error.message = strCat("The server has no memory for the request: ", reserved.message(),
                         ". Please try again later.");
  return error;
}

std::optional<ApiError> HttpServer::readBody(const httplib::ContentReader &reader,
                                             Reservation &reservation, std::string &body) const {
  std::optional<ApiError> error;
  const bool isRead = reader([&](const char *data, size_t size) {
    const size_t needed = body.size() + size;
    if (needed > options.limits.bodyBytes) {
      error = errorOf({}, kTooLarge);
    } else if (needed > body.capacity()) {
      // Both strings exist while the bytes are moved.
      const size_t larger = std::max(needed, 2 * body.capacity());
      error = reserve(reservation, body.capacity() + larger);
      if (!error)
        body.reserve(larger);
    }
    if (!error)
      body.append(data, size);
    return !error;
  });
  if (!isRead)
    Connection::current()->closeAfterRequest();
  if (!isRead && !error)
    error = errorOf({}, Connection::current()->hadLargeBody() ? kTooLarge : 400);
  return error;
}

void HttpServer::answerCall(const Request &request, Response &response,
                            const httplib::ContentReader &reader, ReadCall read) {
  Reservation reservation = ledger.reserve("a request", 0).value();
  ApiCall call;
  std::string body;
  uint64_t bytes = 0;
  std::optional<ApiError> error = readBody(reader, reservation, body);
  if (error)
    return sendError(*error, response);
  parser.run([&] {
    Json parsed;
    error = parseBody(body, options.json, parsed);
    if (!error)
      error = read(std::move(parsed), info, call);
    if (error)
      return;
    // Before the next body is parsed: one call at a time is not counted.
    bytes = bytesOf(call);
    std::string().swap(body);
    error = reserve(reservation, bytes);
    if (error)
      call = {};
  });
  if (error)
    return sendError(*error, response);
  if (const std::string keywords = headerOf(call.unenforced); !keywords.empty())
    response.set_header("X-Moert-Unenforced", keywords);
  Submission submission = loop.submit(call.sequences);
  if (submission.refusal)
    return sendError(serve::errorOf(submission), response);
  ReplyHead head = {hexOf(static_cast<uint64_t>(created) << 32 | ++replies), info.name,
                    std::time(nullptr)};
  const bool isStreamed = call.isStreamed;
  auto reply = std::make_unique<ApiReply>(std::move(head), std::move(call),
                                          *info.model->tokenizer(), std::move(submission.answers));
  if (isStreamed)
    streamReply(std::move(reply), std::move(reservation), response);
  else
    sendWhole(*reply, reservation, bytes, request, response);
}

void HttpServer::sendWhole(ApiReply &reply, Reservation &reservation, uint64_t bytes,
                           const Request &request, Response &response) {
  Connection &connection = *Connection::current();
  for (bool hasEnded = false; !hasEnded;) {
    hasEnded = reply.collect(kNews);
    if (reply.error())
      break;
    bytes += reply.takeGrowth(kScoreBytes);
    if (const std::optional<ApiError> error = reserve(reservation, bytes))
      return sendError(*error, response);
    const bool isLost = !hasEnded && request.version == "HTTP/1.1" && connection.needsProbe() &&
                        connection.write(kContinue.data(), kContinue.size()) < 0;
    if (isLost || (!hasEnded && !connection.isAlive())) {
      response.status = 499; // Nobody reads it.
      connection.closeAfterRequest();
      return;
    }
  }
  if (reply.error())
    return sendError(*reply.error(), response);
  const std::lock_guard<std::mutex> lock(rendering);
  response.set_content(reply.whole(), kJson);
}

void HttpServer::streamReply(std::unique_ptr<ApiReply> reply, Reservation reservation,
                             Response &response) {
  response.set_header("Cache-Control", "no-cache");
  // The library copies the function; the reply ends, and is cancelled, with the last copy. The
  // reservation is given back after it.
  auto held = std::make_shared<Reservation>(std::move(reservation));
  std::shared_ptr<ApiReply> shared = std::move(reply);
  response.set_chunked_content_provider(
      "text/event-stream", [this, held, shared](size_t, httplib::DataSink &sink) {
        const bool hasEnded = shared->collect(kNews);
        std::string events;
        {
          const std::lock_guard<std::mutex> lock(rendering);
          events = shared->takeEvents();
        }
        Connection &connection = *Connection::current();
        if (events.empty() && connection.needsProbe())
          events = kComment;
        if (!events.empty() && !sink.write(events.data(), events.size()))
          return false;
        if (hasEnded || shared->error())
          sink.done();
        return connection.isAlive();
      });
}

} // namespace moert::serve
