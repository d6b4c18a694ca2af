#include "runtime/serving/Answer.h"

namespace moert {

static uint64_t bytesOf(const TokenScore &score) {
  return sizeof score + score.top.capacity() * sizeof(score.top[0]);
}

AnswerNews Answer::take(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, most, [&] { return news.end || !news.pieces.empty() || isFull(); });
  AnswerNews taken = std::move(news);
  news = {};
  unreadBytes = 0;
  news.end = taken.end;
  news.status = taken.status;
  news.cachedTokens = taken.cachedTokens;
  return taken;
}

void Answer::addPromptScore(TokenScore score) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    unreadBytes += bytesOf(score);
    news.promptScores.push_back(std::move(score));
  }
  // A step adds hundreds of scores, so that none is worth waking the client for; but the sequence
  // pauses until a full answer is taken.
  if (isFull())
    changed.notify_one();
}

void Answer::addPiece(AnswerPiece piece) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    unreadBytes += sizeof piece + piece.text.size() + (piece.score ? bytesOf(*piece.score) : 0);
    news.pieces.push_back(std::move(piece));
  }
  changed.notify_one();
}

void Answer::setCachedTokens(uint32_t tokens) {
  const std::lock_guard<std::mutex> lock(mutex);
  news.cachedTokens = tokens;
}

void Answer::end(AnswerEnd end, Status status) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    news.end = end;
    news.status = std::move(status);
  }
  changed.notify_one();
}

} // namespace moert
