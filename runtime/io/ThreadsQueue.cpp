#include "runtime/io/ThreadsQueue.h"

#include "runtime/base/WorkerThread.h"
#include "runtime/io/IndexRing.h"
#include "runtime/io/ReadTable.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <vector>

namespace moert {

namespace {

/// An event counter. A waiter takes the number, checks for work, and only then waits; an event in
/// between changes the number, so no wake-up is lost.
class NewsCount {
public:
  uint32_t current() const { return number.load(std::memory_order_acquire); }
  void waitBeyond(uint32_t seen) const { number.wait(seen, std::memory_order_acquire); }
  void announceOne() {
    number.fetch_add(1, std::memory_order_release);
    number.notify_one();
  }
  void announceAll() {
    number.fetch_add(1, std::memory_order_release);
    number.notify_all();
  }

private:
  std::atomic<uint32_t> number = 0;
};

/// A request's index goes engine -> todo -> worker -> done -> engine, and with it the right to
/// access the request. Both rings have room for every request, so a push never fails.
class ThreadsQueue final : public ReadQueue {
public:
  ThreadsQueue(const ArtifactFile &file, const ReadQueueOptions &options)
      : ReadQueue(options),
        descriptor(options.backend == IoBackend::kThreads ? file.directDescriptor()
                                                          : file.bufferedDescriptor()),
        table(file, options), todo(table.capacity()), done(table.capacity()) {}

  ~ThreadsQueue() override;
  Status start(uint32_t wishedWorkers);
  size_t workerCount() const { return workers.size(); }

  Status submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) override;
  Result<size_t> poll(std::span<ReadCompletion> out, bool wait) override;
  size_t readsUnderWay() const override { return table.readsUnderWay(); }
  void registerRegions(std::span<const MemoryPiece>) override {} // Nothing pins memory here.
  using ReadQueue::setDescription;

private:
  static void *workerMain(void *queue);
  void serveRequests();
  void readRequest(ReadRequest &request) const;

  int descriptor;
  ReadTable table;
  IndexRing todo;
  IndexRing done;
  NewsCount todoNews;
  NewsCount doneNews;
  std::atomic<bool> isStopping = false;
  std::vector<WorkerThread> workers; // Last: joined before the members that they use.
};

} // namespace

ThreadsQueue::~ThreadsQueue() {
  // Workers finish the queued requests before they check the flag, so every read is over after
  // this.
  isStopping.store(true, std::memory_order_release);
  todoNews.announceAll();
  workers.clear();
}

Status ThreadsQueue::start(uint32_t wishedWorkers) {
  workers.reserve(wishedWorkers);
  Status refusal;
  while (refusal.isOk() && workers.size() < wishedWorkers) {
    Result<WorkerThread> worker = WorkerThread::start(workerMain, this);
    if (worker.isOk())
      workers.push_back(std::move(worker).value());
    refusal = worker.status();
  }
  // Continue with fewer threads if not all can be started.
  if (workers.empty())
    return refusal;
  return {};
}

void *ThreadsQueue::workerMain(void *queue) {
  static_cast<ThreadsQueue *>(queue)->serveRequests();
  return nullptr;
}

void ThreadsQueue::serveRequests() {
  for (;;) {
    uint32_t seen = todoNews.current();
    uint32_t index;
    if (todo.pop(index)) {
      readRequest(table.request(index));
      done.push(index);
      doneNews.announceOne();
      continue;
    }
    if (isStopping.load(std::memory_order_acquire))
      return;
    todoNews.waitBeyond(seen);
  }
}

void ThreadsQueue::readRequest(ReadRequest &request) const {
  for (;;) {
    ssize_t result = preadv(descriptor, request.pieces, static_cast<int>(request.pieceCount),
                            static_cast<off_t>(request.fileOffset));
    if (result < 0)
      result = -errno;
    if (advanceRequest(request, result))
      return;
    if (result == -EAGAIN)
      pauseBeforeTry();
  }
}

Status ThreadsQueue::submit(uint64_t tag, uint64_t fileOffset,
                            std::span<const MemoryPiece> pieces) {
  MOERT_ASSIGN_OR_RETURN(ReadTable::Requests made, table.add(tag, fileOffset, pieces));
  for (uint32_t i = 0; i < made.count; ++i)
    todo.push(made.first + i);
  if (made.count == 1)
    todoNews.announceOne();
  else
    todoNews.announceAll();
  return {};
}

Result<size_t> ThreadsQueue::poll(std::span<ReadCompletion> out, bool wait) {
  for (;;) {
    uint32_t seen = doneNews.current();
    uint32_t index;
    while (done.pop(index))
      table.finish(index);
    if (table.hasFinished() || !wait || table.readsUnderWay() == 0)
      return table.take(out);
    doneNews.waitBeyond(seen);
  }
}

static uint32_t workersFor(const ReadQueueOptions &options) {
  return std::min(options.depth, kMaxWorkers);
}

Result<std::unique_ptr<ReadQueue>> createThreadsQueue(const ArtifactFile &file,
                                                      const ReadQueueOptions &options) {
  MOERT_RETURN_IF_ERROR(ReadTable::checkOptions(options));
  auto queue = std::make_unique<ThreadsQueue>(file, options);
  MOERT_RETURN_IF_ERROR(queue->start(workersFor(options)));
  bool isDirect = options.backend == IoBackend::kThreads;
  // Records are read whole and in no order: readahead would only fetch unused data.
  if (!isDirect)
    posix_fadvise(file.bufferedDescriptor(), 0, 0, POSIX_FADV_RANDOM);
  queue->setDescription(
      strCat(queue->workerCount(), " threads, ", isDirect ? "direct" : "buffered"));
  return std::unique_ptr<ReadQueue>(std::move(queue));
}

uint64_t threadsQueueMemoryBytes(const ReadQueueOptions &options) {
  uint64_t table = ReadTable::memoryBytes(options);
  uint64_t requests = table / sizeof(ReadRequest); // An upper bound.
  uint64_t perWorker = WorkerThread::kStackBytes + WorkerThread::kKernelBytes +
                       // The kernel's lists of pages for the request that the worker waits for.
                       options.maxRequestBytes / 4096 * 32;
  return table + 2 * IndexRing::memoryBytes(requests) + sizeof(ThreadsQueue) +
         workersFor(options) * perWorker;
}

} // namespace moert
