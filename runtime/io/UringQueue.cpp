#include "runtime/io/UringQueue.h"

#include "runtime/io/UringRing.h"

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace moert {

namespace {

/// A FIFO of at most `capacity` indices.
class IndexQueue {
public:
  explicit IndexQueue(size_t capacity) : indices(capacity) {}
  bool isEmpty() const { return count == 0; }
  uint32_t front() const { return indices[first]; }
  void push(uint32_t index) { indices[(first + count++) % indices.size()] = index; }
  void pop() {
    first = (first + 1) % indices.size();
    --count;
  }

private:
  std::vector<uint32_t> indices;
  size_t first = 0, count = 0;
};

/// A request is in `waiting` until the limits of depth and bytes admit it, then in the ring, and
/// back in `waiting` if its read was short.
class UringQueue final : public ReadQueue {
public:
  UringQueue(const ArtifactFile &artifact, const ReadQueueOptions &options, OpenedRing opened)
      : ReadQueue(options), file(artifact), depth(options.depth),
        mostBytesInRing(options.maxBytesUnderWay), table(artifact, options),
        waiting(table.capacity()), ring(std::move(opened.ring)),
        ringDescription(std::move(opened.description)) {
    takeRegions(std::move(opened.regions));
  }
  ~UringQueue() override;

  Status submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) override;
  Result<size_t> poll(std::span<ReadCompletion> out, bool wait) override;
  size_t readsUnderWay() const override { return table.readsUnderWay(); }
  void registerRegions(std::span<const MemoryPiece> regions) override {
    table.setRegions({}); // Also if there is no memory for the lists of the new ones.
    takeRegions(ring->registerRegions(regions));
  }

private:
  void takeRegions(RegisteredRegions registered) {
    setDescription(ringDescription + registered.note);
    table.setRegions(std::move(registered.chunks));
  }
  uint32_t inFlight() const { return inRing - ring->prepared(); }
  void harvest();
  void issueWaiting();
  Status enter(bool waits);
  int enterOnce(bool waits);

  const ArtifactFile &file;
  uint32_t depth;
  uint64_t mostBytesInRing;
  ReadTable table;
  IndexQueue waiting;
  std::unique_ptr<RequestRing> ring;
  std::string ringDescription;
  uint32_t inRing = 0; // Prepared or in flight.
  uint64_t bytesInRing = 0;
};

} // namespace

// Waits for the requests that the kernel has; the others are never submitted.
UringQueue::~UringQueue() {
  uint32_t interrupts = 0;
  for (std::array<RingCompletion, 32> taken; inFlight() > 0;) {
    const size_t count = ring->take(taken);
    inRing -= static_cast<uint32_t>(count);
    if (count > 0)
      continue;
    const int result = ring->wait();
    if (result < 0 && (result != -EINTR || ++interrupts == kMostInterrupts))
      return;
  }
}

void UringQueue::issueWaiting() {
  for (; inRing < depth && !waiting.isEmpty(); waiting.pop()) {
    const uint32_t index = waiting.front();
    const ReadRequest &request = table.request(index);
    if (table.isPointless(request)) {
      table.finish(index);
      continue;
    }
    if (inRing > 0 && bytesInRing + request.bytes > mostBytesInRing)
      return;
    ring->prepare(index, request);
    ++inRing;
    bytesInRing += request.bytes;
  }
}

void UringQueue::harvest() {
  std::array<RingCompletion, 32> taken;
  while (size_t count = ring->take(taken)) {
    for (const RingCompletion &completion : std::span(taken).first(count)) {
      ReadRequest &request = table.request(completion.request);
      --inRing;
      bytesInRing -= request.bytes;
      if (advanceRequest(request, completion.result)) {
        table.finish(completion.request);
        continue;
      }
      waiting.push(completion.request);
      if (completion.result == -EAGAIN)
        ring->pause();
    }
  }
}

/// Does not wait for requests that the kernel did not take: it takes them once requests in flight
/// have released resources.
int UringQueue::enterOnce(bool waits) {
  const int result = ring->submit(waits);
  const bool isShort = result >= 0 || result == -EAGAIN || result == -EBUSY;
  const bool isWaitedFor = !waits || ring->completed() > 0;
  if (!isShort || isWaitedFor || inFlight() == 0)
    return result;
  return ring->wait();
}

/// Hands prepared requests to the kernel and, with `waits`, waits for a completion. Requests that
/// it has no resources for may remain while others are in flight. After an error the queue is
/// broken: prepared requests cannot be withdrawn, and those in flight still arrive.
Status UringQueue::enter(bool waits) {
  uint32_t tries = 0, interrupts = 0;
  for (;;) {
    const int result = enterOnce(waits);
    if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY)
      return breakDown(systemError(-result, strCat(file.path(), ": io_uring")));
    if (ring->completed() > 0 || (!waits && (ring->prepared() == 0 || inFlight() > 0)))
      return {};
    if (result == -EINTR && ++interrupts < kMostInterrupts)
      continue;
    if (++tries == kMostTries)
      return breakDown(result < 0 ? systemError(-result, strCat(file.path(), ": io_uring, ", tries,
                                                                " times in a row"))
                                  : failed(file.path(), ": io_uring took ", result, " of ",
                                           ring->prepared(), " requests and completed none of ",
                                           inFlight(), ", ", tries, " times in a row"));
    ring->pause();
  }
}

Status UringQueue::submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) {
  MOERT_RETURN_IF_ERROR(broken());
  MOERT_ASSIGN_OR_RETURN(ReadTable::Requests made, table.add(tag, fileOffset, pieces));
  for (uint32_t i = 0; i < made.count; ++i)
    waiting.push(made.first + i);
  issueWaiting();
  return enter(false);
}

Result<size_t> UringQueue::poll(std::span<ReadCompletion> out, bool wait) {
  MOERT_RETURN_IF_ERROR(broken());
  for (;;) {
    harvest();
    issueWaiting();
    const bool isDone = table.hasFinished() || !wait || table.readsUnderWay() == 0;
    if (!isDone || ring->prepared() > 0)
      MOERT_RETURN_IF_ERROR(enter(!isDone));
    if (isDone)
      return table.take(out);
  }
}

Result<std::unique_ptr<ReadQueue>>
createRingQueue(const ArtifactFile &file, const ReadQueueOptions &options, OpenedRing ring) {
  MOERT_RETURN_IF_ERROR(ReadTable::checkOptions(options));
  return std::unique_ptr<ReadQueue>(std::make_unique<UringQueue>(file, options, std::move(ring)));
}

Result<std::unique_ptr<ReadQueue>> createUringQueue(const ArtifactFile &file,
                                                    const ReadQueueOptions &options) {
  MOERT_RETURN_IF_ERROR(ReadTable::checkOptions(options));
  MOERT_ASSIGN_OR_RETURN(OpenedRing ring, openUringRing(file, options));
  return createRingQueue(file, options, std::move(ring));
}

uint64_t uringQueueMemoryBytes(const ReadQueueOptions &options) {
  uint64_t table = ReadTable::memoryBytes(options);
  uint64_t requests = table / sizeof(ReadRequest); // An upper bound.
  return table + requests * sizeof(uint32_t) + sizeof(UringQueue) + uringRingMemoryBytes(options);
}

} // namespace moert
