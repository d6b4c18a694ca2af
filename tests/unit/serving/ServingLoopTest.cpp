// The scheduler in a thread of its own: submitting, refusing and stopping.
#include "runtime/serving/ServingLoop.h"
#include "tests/unit/serving/ServingFixture.h"

#include <doctest/doctest.h>
#include <thread>

using namespace moert;
using namespace moert::test;

namespace {

constexpr ServingLimits kLimits = {64, 2, 3, 0, 128};

/// A loop that runs until the end of the test.
struct RunningLoop {
  ServedModel model;
  ServingLoop loop;
  std::atomic<bool> stop = false, noticed = false;
  std::thread thread;

  explicit RunningLoop(std::chrono::milliseconds grace = 10s)
      : model(servingOptions(2)), loop(*model.loaded.engine, kLimits), thread([this, grace] {
          loop.run(stop, grace, {{}, [this] { noticed = true; }});
        }) {}
  ~RunningLoop() { end(); }

  void end() {
    stop = true;
    if (thread.joinable())
      thread.join();
  }
};

Served wholeAnswer(Answer &answer) {
  Served served;
  while (!served.end) {
    AnswerNews news = answer.take(1s);
    for (const AnswerPiece &piece : news.pieces)
      served.tokens.push_back(piece.token.value_or(-1));
    served.end = news.end;
  }
  return served;
}

} // namespace

TEST_CASE("an answer that its prompt's scores fill is taken at once, since the sequence pauses") {
  Answer answer;
  std::thread adds([&] {
    std::this_thread::sleep_for(20ms); // The client waits by then.
    for (size_t bytes = 0; bytes < Answer::kFullBytes; bytes += sizeof(TokenScore))
      answer.addPromptScore({1, -1, {}});
  });
  const auto begin = std::chrono::steady_clock::now();
  const AnswerNews news = answer.take(60s);
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
  adds.join();
  CHECK(news.promptScores.size() * sizeof(TokenScore) >= Answer::kFullBytes);
  CHECK_FALSE(answer.isFull());
}

TEST_CASE("the numbers are known before the loop runs") {
  ServedModel model(servingOptions(2));
  ServingLoop loop(*model.loaded.engine, kLimits);
  CHECK(loop.numbers().budgetBytes == model.loaded.engine->account().budgetBytes);
}

TEST_CASE("answers of several threads are those that each gets alone") {
  std::vector<Served> served(8);
  std::vector<AnswerRequest> requests;
  for (int32_t i = 0; i < 8; ++i)
    requests.push_back(requestOf({i, 7, i}, 12));
  ServedModel model(servingOptions(2));
  {
    RunningLoop running;
    std::vector<std::thread> clients;
    for (size_t i = 0; i < served.size(); ++i)
      clients.emplace_back([&, i] {
        Submission submission;
        do
          submission = running.loop.submit({requests[i]});
        while (submission.refusal == Refusal::kBusy);
        if (!submission.refusal)
          served[i] = wholeAnswer(*submission.answers[0]);
      });
    for (std::thread &client : clients)
      client.join();
  }
  for (size_t i = 0; i < served.size(); ++i)
    CHECK(served[i].tokens == model.alone(requests[i]).tokens);
}

TEST_CASE("requests beyond the limits are refused with both numbers, as a whole") {
  ServedModel model(servingOptions(2));
  ServingLoop loop(*model.loaded.engine, kLimits); // Not running: everything waits.
  const AnswerRequest request = requestOf({1, 2}, 4);
  CHECK(loop.submit({request, request, request, request}).answers.size() == 4);
  const Submission busy = loop.submit({request, request});
  CHECK(busy.refusal == Refusal::kBusy);
  CHECK(busy.answers.empty());
  CHECK(busy.reason ==
        "4 sequences are running or waiting and this request has 2, expected at most "
        "5 together");
  CHECK_FALSE(loop.submit({request}).refusal);
  const Submission longer = loop.submit({requestOf({1, 2}, 63)});
  CHECK(longer.refusal == Refusal::kTooLong);
  CHECK(longer.reason ==
        "the prompt has 2 tokens and 63 are to be generated, expected at most 64 together");
  const Submission wrong = loop.submit({request, requestOf({}, 1)});
  CHECK(wrong.refusal == Refusal::kInvalid);
  CHECK(wrong.answers.empty());
  CHECK(loop.refusals() == 3);
}

TEST_CASE("a loop that stops finishes what runs and accepts nothing more") {
  RunningLoop running;
  const Submission before = running.loop.submit({requestOf({1, 2}, 60)});
  REQUIRE_FALSE(before.refusal);
  running.end();
  CHECK(running.noticed);
  const Served served = wholeAnswer(*before.answers[0]);
  CHECK(served.end == AnswerEnd::kLength);
  CHECK(served.tokens.size() == 60);
  CHECK(running.loop.submit({requestOf({1}, 1)}).refusal == Refusal::kStopping);
}

TEST_CASE("a sequence is cancelled once nobody waits for its answer") {
  RunningLoop running;
  (void)running.loop.submit({requestOf({1, 2}, 60)});
  const Submission next = running.loop.submit({requestOf({1, 2}, 60)});
  REQUIRE_FALSE(next.refusal);
  CHECK(wholeAnswer(*next.answers[0]).tokens.size() == 60);
  running.end();
  CHECK(running.loop.numbers().cancelled == 1);
}

TEST_CASE("what has not ended after the grace is cancelled") {
  RunningLoop running(0ms);
  std::vector<Submission> submissions;
  for (int i = 0; i < 5; ++i)
    submissions.push_back(running.loop.submit({requestOf({1, 2}, 60)}));
  running.end();
  size_t cancelled = 0;
  for (Submission &submission : submissions)
    cancelled += wholeAnswer(*submission.answers.at(0)).end == AnswerEnd::kCancelled;
  CHECK(cancelled > 0);
}
