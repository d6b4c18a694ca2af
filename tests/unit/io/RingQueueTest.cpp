// The io_uring queue against a fake kernel whose answers the test sets.
#include "runtime/io/UringQueue.h"

#include "tests/unit/io/TestFile.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <doctest/doctest.h>
#include <functional>
#include <vector>

using namespace moert;

namespace {

constexpr uint64_t kBlock = 4096;

/// Requests are taken by submit() and written to memory when they complete, never before.
class FakeRing final : public RequestRing {
public:
  /// How many of the prepared requests the kernel takes, or -errno; all by default.
  std::function<int(int prepared)> onSubmit = [](int prepared) { return prepared; };
  /// The result of a wait; by default the oldest request in flight completes.
  std::function<int()> onWait = [this] {
    complete(0);
    return 0;
  };
  /// The result of a request; by default all of its bytes.
  std::function<int(const ReadRequest &)> onComplete = [](const ReadRequest &request) {
    return static_cast<int>(request.bytes);
  };
  int submits = 0, waits = 0, pauses = 0;

  void prepare(uint32_t index, const ReadRequest &request) override {
    preparedOnes.push_back({index, &request});
  }
  int submit(bool waitsToo) override {
    ++submits;
    const int most = static_cast<int>(preparedOnes.size());
    const int result = onSubmit(most);
    for (int i = 0; i < result; ++i) {
      flying.push_back(preparedOnes.front());
      preparedOnes.pop_front();
    }
    // Like the kernel: no wait if it did not take all.
    return waitsToo && result == most && done.empty() ? std::min(wait(), 0) + result : result;
  }
  int wait() override {
    ++waits;
    return done.empty() ? onWait() : 0;
  }
  void pause() override { ++pauses; }
  uint32_t prepared() const override { return static_cast<uint32_t>(preparedOnes.size()); }
  uint32_t completed() const override { return static_cast<uint32_t>(done.size()); }
  size_t take(std::span<RingCompletion> out) override {
    const size_t count = std::min(out.size(), done.size());
    std::copy_n(done.begin(), count, out.begin());
    done.erase(done.begin(), done.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }

  RegisteredRegions registerRegions(std::span<const MemoryPiece> regions) override {
    return {{regions.begin(), regions.end()}, regions.empty() ? "" : ", registered"};
  }

  size_t inFlight() const { return flying.size(); }
  /// Completes the request with this index among those in flight, if there is one.
  void complete(size_t index) {
    if (index >= flying.size())
      return;
    const Entry entry = flying[index];
    flying.erase(flying.begin() + static_cast<ptrdiff_t>(index));
    const int result = onComplete(*entry.request);
    land(*entry.request, static_cast<uint64_t>(std::max(result, 0)));
    done.push_back({entry.index, result});
  }

private:
  struct Entry {
    uint32_t index;
    const ReadRequest *request;
  };
  static void land(const ReadRequest &request, uint64_t bytes) {
    uint64_t at = 0;
    for (const iovec &piece : std::span(request.pieces, request.pieceCount))
      for (uint64_t i = 0; i < piece.iov_len && at < bytes; i += 8, at += 8)
        *reinterpret_cast<uint64_t *>(static_cast<std::byte *>(piece.iov_base) + i) =
            TestFile::wordAt(request.fileOffset + at);
  }

  std::deque<Entry> preparedOnes, flying;
  std::vector<RingCompletion> done;
};

ReadQueueOptions ringOptions() {
  ReadQueueOptions options;
  options.backend = IoBackend::kUring;
  options.depth = 8;
  options.maxReads = 8;
  options.maxPiecesPerRead = 4;
  options.maxRequestBytes = kBlock;
  options.maxReadBytes = 4 * kBlock;
  return options;
}

/// A queue over a fake ring, and memory for eight reads of four requests.
struct Setting {
  Setting() {
    auto made = std::make_unique<FakeRing>();
    ring = made.get();
    queue = createRingQueue(file, ringOptions(), {std::move(made), "fake", {}}).value();
  }
  MemoryPiece pieceOf(uint64_t read) const {
    return {memory.data() + read * 4 * kBlock, 4 * kBlock};
  }
  Status submit(uint64_t read) {
    MemoryPiece piece = pieceOf(read);
    return queue->submit(read, read * 4 * kBlock, {&piece, 1});
  }
  bool holds(uint64_t read) const {
    MemoryPiece piece = pieceOf(read);
    return holdsFile(read * 4 * kBlock, {&piece, 1});
  }
  bool isUntouched(uint64_t read) const {
    const MemoryPiece piece = pieceOf(read);
    return std::all_of(piece.data, piece.data + piece.bytes,
                       [](std::byte value) { return value == std::byte(0); });
  }

  TestFile test{64 * kBlock};
  ArtifactFile file = test.open();
  HostRegion memory = HostRegion::create(32 * kBlock).value();
  FakeRing *ring = nullptr;
  std::unique_ptr<ReadQueue> queue;
};

/// Once broken, the queue returns the same error and does not call the kernel again.
void checkStaysBroken(Setting &setting, const Status &error) {
  const int submits = setting.ring->submits, waits = setting.ring->waits;
  setting.ring->onSubmit = [](int prepared) { return prepared; };
  ReadCompletion completion;
  CHECK_FALSE(error.isOk());
  CHECK(setting.queue->broken().message() == error.message());
  CHECK(setting.submit(7).message() == error.message());
  for (bool wait : {false, true})
    CHECK(setting.queue->poll({&completion, 1}, wait).status().message() == error.message());
  CHECK(setting.ring->submits == submits);
  CHECK(setting.ring->waits == waits);
}

} // namespace

TEST_CASE("a kernel that never takes a request breaks the queue after a number of tries") {
  for (int answer : {-EAGAIN, -EBUSY, 0}) {
    CAPTURE(answer);
    Setting setting;
    setting.ring->onSubmit = [&](int) { return answer; };
    const Status refused = setting.submit(0);
    CHECK(refused.message().find("1000 times in a row") != std::string::npos);
    CHECK(setting.ring->submits == static_cast<int>(kMostTries));
    CHECK(setting.ring->pauses == static_cast<int>(kMostTries) - 1);
    checkStaysBroken(setting, refused);
    setting.queue.reset(); // Does not submit the request either.
    CHECK(setting.isUntouched(0));
  }
}

TEST_CASE("requests are submitted again until the kernel has resources") {
  Setting setting;
  int refusals = 20;
  setting.ring->onSubmit = [&](int prepared) { return refusals-- > 0 ? -EAGAIN : prepared; };
  REQUIRE(setting.submit(0).isOk());
  CHECK(setting.ring->pauses == 20);
  CHECK(takeAll(*setting.queue, 1)[0].status.isOk());
  CHECK(setting.holds(0));
  CHECK(setting.queue->broken().isOk());
}

TEST_CASE("requests that the kernel did not take are submitted after others have completed") {
  for (bool isRefused : {false, true}) { // Refused, or a short count each time.
    CAPTURE(isRefused);
    Setting setting;
    setting.ring->onSubmit = [&](int prepared) {
      const bool hasRoom = setting.ring->inFlight() == 0;
      return hasRoom ? std::min(prepared, 1) : isRefused ? -EBUSY : 0;
    };
    for (uint64_t read = 0; read < 3; ++read)
      REQUIRE(setting.submit(read).isOk());
    for (const ReadCompletion &done : takeAll(*setting.queue, 3))
      CHECK(done.status.isOk());
    for (uint64_t read = 0; read < 3; ++read)
      CHECK(setting.holds(read));
    CHECK(setting.ring->pauses == 0); // It waited for completions instead of retrying in a loop.
    CHECK(setting.ring->submits <= 40);
  }
}

TEST_CASE(
    "a refusal after a part was taken breaks the queue, whose destructor waits for that part") {
  Setting setting;
  setting.ring->onSubmit = [&](int) { return setting.ring->submits == 1 ? 2 : -EBADF; };
  REQUIRE(setting.submit(0).isOk()); // Two of four requests.
  const Status refused = setting.submit(1);
  CHECK(refused.message().find(": io_uring: Bad file descriptor") != std::string::npos);
  checkStaysBroken(setting, refused);
  CHECK(setting.ring->inFlight() == 2);
  int landed = 0;
  setting.ring->onWait = [&] {
    ++landed;
    setting.ring->complete(0);
    return 0;
  };
  setting.queue.reset();
  CHECK(landed == 2);
  MemoryPiece taken = setting.pieceOf(0);
  taken.bytes = 2 * kBlock;
  CHECK(holdsFile(0, {&taken, 1}));
  CHECK(setting.isUntouched(1));
}

TEST_CASE("interrupted calls are repeated") {
  Setting setting;
  int interrupts = 5;
  setting.ring->onSubmit = [&](int prepared) { return interrupts-- > 0 ? -EINTR : prepared; };
  REQUIRE(setting.submit(0).isOk());
  int waitInterrupts = 5;
  setting.ring->onWait = [&] {
    if (waitInterrupts-- > 0)
      return -EINTR;
    setting.ring->complete(0);
    return 0;
  };
  CHECK(takeAll(*setting.queue, 1)[0].status.isOk());
  CHECK(setting.holds(0));
  CHECK(setting.ring->pauses == 0);
}

TEST_CASE("a wait that is interrupted forever, fails, or returns nothing breaks the queue") {
  for (int answer : {-EINTR, -EAGAIN, -EBADF, 0}) {
    CAPTURE(answer);
    Setting setting;
    REQUIRE(setting.submit(0).isOk());
    setting.ring->onWait = [&] { return answer; };
    ReadCompletion completion;
    Result<size_t> polled = setting.queue->poll({&completion, 1}, true);
    REQUIRE_FALSE(polled.isOk());
    CHECK(setting.ring->pauses < static_cast<int>(kMostTries));
    checkStaysBroken(setting, polled.status());
    setting.ring->onWait = [&] { return -EBADF; }; // The destructor does not wait forever either.
    setting.queue.reset();
  }
}

TEST_CASE("a full completion queue is emptied before the next submission") {
  Setting setting;
  REQUIRE(setting.submit(0).isOk());
  setting.ring->complete(0);
  setting.ring->onSubmit = [&](int prepared) {
    return setting.ring->completed() > 0 ? -EBUSY : prepared;
  };
  REQUIRE(setting.submit(1).isOk());
  for (const ReadCompletion &done : takeAll(*setting.queue, 2))
    CHECK(done.status.isOk());
  CHECK(setting.holds(0));
  CHECK(setting.holds(1));
  CHECK(setting.ring->pauses == 0);
}

TEST_CASE("a request that completes with EAGAIN forever is an error of its read alone") {
  Setting setting;
  setting.ring->onComplete = [](const ReadRequest &request) {
    return request.fileOffset == 5 * kBlock ? -EAGAIN : static_cast<int>(request.bytes);
  };
  REQUIRE(setting.submit(0).isOk());
  REQUIRE(setting.submit(1).isOk());
  for (const ReadCompletion &done : takeAll(*setting.queue, 2))
    CHECK(done.status.isOk() == (done.tag == 0));
  CHECK(setting.holds(0));
  CHECK(setting.ring->pauses == static_cast<int>(kMostTries) - 1);
  CHECK(setting.queue->broken().isOk());
  REQUIRE(setting.submit(2).isOk());
  CHECK(takeAll(*setting.queue, 1)[0].status.isOk());
}

TEST_CASE("a read beyond the limits starts nothing and does not break the queue") {
  Setting setting;
  MemoryPiece odd = {setting.memory.data(), 100};
  CHECK_FALSE(setting.queue->submit(0, 0, {&odd, 1}).isOk());
  CHECK(setting.ring->submits == 0);
  CHECK(setting.queue->broken().isOk());
  CHECK(setting.queue->readsUnderWay() == 0);
}

TEST_CASE("the destructor waits for requests in flight and submits nothing") {
  Setting setting;
  setting.ring->onSubmit = [&](int) { return setting.ring->submits == 1 ? 1 : 0; };
  REQUIRE(setting.submit(0).isOk());
  setting.ring->onSubmit = [](int prepared) { return prepared; };
  setting.queue.reset();
  MemoryPiece first = setting.pieceOf(0), rest = first;
  first.bytes = kBlock;
  CHECK(holdsFile(0, {&first, 1}));
  CHECK(std::all_of(rest.data + kBlock, rest.data + rest.bytes,
                    [](std::byte value) { return value == std::byte(0); }));
}
