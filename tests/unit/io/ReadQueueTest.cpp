#include "runtime/io/ReadQueue.h"

#include "tests/unit/io/RefusingChild.h"
#include "tests/unit/io/TestFile.h"
#include "tests/unit/support/CountAllocations.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fstream>
#include <random>
#include <string>
#include <sys/resource.h>

using namespace moert;

static constexpr uint64_t kBlock = 4096;

static ReadQueueOptions optionsFor(IoBackend backend) {
  ReadQueueOptions options;
  options.backend = backend;
  options.depth = 4;
  options.maxReads = 16;
  options.maxPiecesPerRead = 32;
  options.maxRequestBytes = 4 * kBlock;
  options.maxReadBytes = 64 * kBlock;
  return options;
}

/// Runs the property on each backend of this system and reports those that it lacks.
template <typename Property> static void onEachBackend(const TestFile &test, Property property) {
  for (IoBackend backend : {IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered}) {
    ArtifactFile file = test.open();
    HostRegion memory = HostRegion::create(64 * kBlock).value();
    for (bool isRegistered : {false, true}) {
      ReadQueueOptions options = optionsFor(backend);
      MemoryPiece region{memory.data(), memory.bytes()};
      if (isRegistered)
        options.registeredRegions = {&region, 1};
      Result<std::unique_ptr<ReadQueue>> queue = createReadQueue(file, options);
      if (!queue.isOk() && backend != IoBackend::kBuffered) {
        MESSAGE("SKIPPED: " << queue.status().message());
        continue;
      }
      REQUIRE(queue.isOk());
      CAPTURE(queue.value()->describe());
      property(**queue, memory);
    }
  }
}

TEST_CASE("a read returns the file's bytes from any offset") {
  TestFile test(64 * kBlock);
  onEachBackend(test, [](ReadQueue &queue, HostRegion &memory) {
    for (uint64_t block : {0, 1, 47}) {
      MemoryPiece piece{memory.data() + kBlock, 17 * kBlock};
      REQUIRE(queue.submit(block, block * kBlock, {&piece, 1}).isOk());
      std::vector<ReadCompletion> done = takeAll(queue, 1);
      CHECK(done[0].tag == block);
      CHECK(done[0].status.isOk());
      CHECK(holdsFile(block * kBlock, {&piece, 1}));
    }
  });
}

TEST_CASE("a read fills scattered pieces in the order of the pieces") {
  TestFile test(64 * kBlock);
  onEachBackend(test, [](ReadQueue &queue, HostRegion &memory) {
    std::mt19937 random(5);
    std::vector<MemoryPiece> pieces;
    for (uint64_t i = 0; i < 32; ++i)
      pieces.push_back({memory.data() + 2 * i * kBlock, kBlock * (1 + i % 2)});
    std::shuffle(pieces.begin(), pieces.end(), random);
    REQUIRE(queue.submit(3, 2 * kBlock, pieces).isOk());
    CHECK(takeAll(queue, 1)[0].status.isOk());
    CHECK(holdsFile(2 * kBlock, pieces));
  });
}

TEST_CASE("as many reads as allowed are in flight at once and each completes once") {
  TestFile test(64 * kBlock);
  onEachBackend(test, [](ReadQueue &queue, HostRegion &memory) {
    std::vector<MemoryPiece> pieces;
    for (uint64_t i = 0; i < queue.maxReads(); ++i)
      pieces.push_back({memory.data() + 4 * i * kBlock, 4 * kBlock});
    for (int round = 0; round < 20; ++round) {
      for (uint64_t i = 0; i < pieces.size(); ++i)
        REQUIRE(queue.submit(i, (60 - 4 * i) * kBlock, {&pieces[i], 1}).isOk());
      CHECK(queue.readsUnderWay() == pieces.size());
      CHECK(!queue.submit(99, 0, {&pieces[0], 1}).isOk());
      std::vector<bool> isDone(pieces.size());
      for (const ReadCompletion &done : takeAll(queue, pieces.size())) {
        CHECK(done.status.isOk());
        CHECK(!isDone[done.tag]);
        isDone[done.tag] = true;
        CHECK(holdsFile((60 - 4 * done.tag) * kBlock, {&pieces[done.tag], 1}));
      }
    }
  });
}

TEST_CASE("a read beyond the end names file, offset, expected and found bytes; others succeed") {
  TestFile test(20 * kBlock + 100);
  onEachBackend(test, [&](ReadQueue &queue, HostRegion &memory) {
    MemoryPiece bad{memory.data(), 10 * kBlock}, good{memory.data() + 10 * kBlock, 20 * kBlock};
    REQUIRE(queue.submit(0, 15 * kBlock, {&bad, 1}).isOk());
    REQUIRE(queue.submit(1, 0, {&good, 1}).isOk());
    for (const ReadCompletion &done : takeAll(queue, 2)) {
      CHECK(done.status.isOk() == (done.tag == 1));
      if (done.tag == 0) {
        CHECK(done.status.code() == StatusCode::kInvalidInput);
        CHECK(done.status.message() == test.path + ": read of 40960 bytes at offset 61440 found "
                                                   "20580 bytes, then the end of the file");
      }
    }
    CHECK(holdsFile(0, {&good, 1}));
  });
}

TEST_CASE("if one request fills the limit of bytes, reads complete one by one in order") {
  TestFile test(64 * kBlock);
  ArtifactFile file = test.open();
  HostRegion memory = HostRegion::create(64 * kBlock).value();
  ReadQueueOptions options = optionsFor(IoBackend::kUring);
  options.maxBytesUnderWay = 1; // A larger request goes alone.
  Result<std::unique_ptr<ReadQueue>> made = createReadQueue(file, options);
  if (!made.isOk()) {
    MESSAGE("SKIPPED: " << made.status().message());
    return;
  }
  ReadQueue &queue = **made;
  std::vector<MemoryPiece> pieces;
  for (uint64_t i = 0; i < queue.maxReads(); ++i) {
    pieces.push_back({memory.data() + 4 * i * kBlock, 4 * kBlock});
    REQUIRE(queue.submit(i, 3 * i * kBlock, {&pieces[i], 1}).isOk());
  }
  for (uint64_t i = 0; i < queue.maxReads(); ++i) {
    ReadCompletion some[3];
    Result<size_t> got = queue.poll(some, true);
    REQUIRE(got.isOk());
    REQUIRE(*got == 1);
    CHECK(some[0].tag == i);
    CHECK(some[0].status.isOk());
    CHECK(holdsFile(3 * i * kBlock, {&pieces[i], 1}));
  }
}

TEST_CASE("polling an idle queue returns at once, with and without waiting") {
  TestFile test(kBlock);
  onEachBackend(test, [](ReadQueue &queue, HostRegion &) {
    ReadCompletion completion;
    CHECK(queue.poll({&completion, 1}, true).value() == 0);
    CHECK(queue.poll({&completion, 1}, false).value() == 0);
  });
}

TEST_CASE("a queue waits for its reads when destroyed, so that nothing is written afterwards") {
  TestFile test(64 * kBlock);
  for (IoBackend backend : {IoBackend::kAuto, IoBackend::kThreads, IoBackend::kBuffered}) {
    ArtifactFile file = test.open();
    HostRegion memory = HostRegion::create(64 * kBlock).value();
    for (int round = 0; round < 10; ++round) {
      Result<std::unique_ptr<ReadQueue>> queue = createReadQueue(file, optionsFor(backend));
      if (!queue.isOk()) {
        MESSAGE("SKIPPED: " << queue.status().message());
        break;
      }
      MemoryPiece piece{memory.data(), memory.bytes()};
      REQUIRE(queue.value()->submit(0, 0, {&piece, 1}).isOk());
      queue.value().reset();
      std::vector<std::byte> before(memory.data(), memory.data() + memory.bytes());
      CHECK(std::equal(before.begin(), before.end(), memory.data()));
    }
  }
}

TEST_CASE("submitting and polling allocate nothing") {
  TestFile test(64 * kBlock);
  onEachBackend(test, [](ReadQueue &queue, HostRegion &memory) {
    std::vector<MemoryPiece> pieces; // Four for each read; no two reads share memory.
    for (uint64_t i = 0; i < 64; ++i)
      pieces.push_back({memory.data() + (63 - i) * kBlock, kBlock});
    ReadCompletion completions[4];
    size_t done = 0;
    uint64_t before = allocationsSoFar();
    for (uint64_t tag = 0; tag < 16; ++tag)
      if (!queue.submit(tag, tag * kBlock, std::span(pieces).subspan(4 * tag, 4)).isOk())
        return;
    while (done < 16)
      done += queue.poll(completions, true).value();
    uint64_t after = allocationsSoFar();
    CHECK(after == before);
    CHECK(completions[0].status.isOk());
  });
}

TEST_CASE("if io_uring is refused, auto reads with threads and reports why") {
  TestFile test(4 * kBlock);
  CHECK(holdsInChild(refuseUring, [&] {
    ArtifactFile file = test.open();
    Result<std::unique_ptr<ReadQueue>> queue = createReadQueue(file, optionsFor(IoBackend::kAuto));
    if (!queue.isOk())
      return false;
    // On a file system without direct I/O the reads are buffered.
    const std::string &text = queue.value()->describe();
    return text.starts_with("4 threads, ") && text.find("no uring: ") != std::string::npos;
  }));
}

TEST_CASE("io_uring requested by name and refused is an error that names what works") {
  TestFile test(4 * kBlock);
  CHECK(holdsInChild(refuseUring, [&] {
    ArtifactFile file = test.open();
    Status refused = createReadQueue(file, optionsFor(IoBackend::kUring)).status();
    const std::string &text = refused.message();
    return refused.code() == StatusCode::kInvalidInput &&
           text.starts_with(test.path + ": --io uring does not work here: ") &&
           (text.ends_with("; --io threads does") || text.ends_with("; --io buffered does"));
  }));
}

TEST_CASE("if direct I/O is refused, auto reads through the page cache and reports why") {
  TestFile test(4 * kBlock);
  CHECK(holdsInChild(refuseDirect, [&] {
    ArtifactFile file = test.open();
    Result<std::unique_ptr<ReadQueue>> queue = createReadQueue(file, optionsFor(IoBackend::kAuto));
    return queue.isOk() && queue.value()->describe().starts_with("4 threads, buffered; no uring: "
                                                                 "direct I/O was refused (");
  }));
  CHECK(holdsInChild(refuseDirect, [&] {
    ArtifactFile file = test.open();
    Status refused = createReadQueue(file, optionsFor(IoBackend::kThreads)).status();
    return refused.code() == StatusCode::kInvalidInput &&
           refused.message().ends_with("; --io buffered does");
  }));
}

TEST_CASE("if registering memory is refused, io_uring reads without it and reports that") {
  TestFile test(4 * kBlock);
  // Enough for the rings, not for the region. Root has no limit, so it switches to another user.
  auto forbidLocking = [] {
    rlimit little = {32 * kBlock, 32 * kBlock};
    return setrlimit(RLIMIT_MEMLOCK, &little) == 0 && (geteuid() != 0 || setresuid(1, 1, 1) == 0);
  };
  ArtifactFile file = test.open();
  HostRegion memory = HostRegion::create(64 * kBlock).value();
  MemoryPiece region{memory.data(), memory.bytes()};
  ReadQueueOptions options = optionsFor(IoBackend::kUring);
  if (!holdsInChild(forbidLocking, [&] { return createReadQueue(file, options).isOk(); })) {
    MESSAGE("SKIPPED: no io_uring here, or none as another user than root");
    return;
  }
  CHECK(holdsInChild(forbidLocking, [&] {
    options.registeredRegions = {&region, 1};
    Result<std::unique_ptr<ReadQueue>> queue = createReadQueue(file, options);
    return queue.isOk() && queue.value()->describe().starts_with(
                               "io_uring, direct, no registered buffers (Cannot allocate memory");
  }));
}

TEST_CASE("a missing file, a directory and a file without a single block are refused by name") {
  CHECK(ArtifactFile::open("no-such-file.moe").status().message() ==
        "no-such-file.moe: cannot be opened: No such file or directory");
  CHECK(ArtifactFile::open("/").status().code() == StatusCode::kInvalidInput);
  TestFile test(100);
  ArtifactFile file = test.open();
  Status refused = createReadQueue(file, optionsFor(IoBackend::kAuto)).status();
  CHECK(refused.message() == test.path + ": has 100 bytes, expected at least 4096");
}

TEST_CASE("metadata is read at any offset but not beyond the end") {
  TestFile test(1000);
  ArtifactFile file = test.open();
  uint64_t word = 0;
  CHECK(file.read(992, std::as_writable_bytes(std::span(&word, 1))).isOk());
  CHECK(word == TestFile::wordAt(992));
  Status refused = file.read(993, std::as_writable_bytes(std::span(&word, 1)));
  CHECK(refused.message() == "read of 8 bytes at offset 993, but the file has 1000");
}

TEST_CASE("backend names are the values of --io") {
  for (IoBackend backend :
       {IoBackend::kAuto, IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered})
    CHECK(parseIoBackend(ioBackendName(backend)) == backend);
  CHECK(!parseIoBackend("mmap").has_value());
}

TEST_CASE("a queue's memory is known before it is created; auto counts the most expensive") {
  ReadQueueOptions options = optionsFor(IoBackend::kAuto);
  uint64_t dearest = readQueueMemoryBytes(options);
  for (IoBackend backend : {IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered}) {
    options.backend = backend;
    CHECK(readQueueMemoryBytes(options) <= dearest);
  }
  CHECK(readQueueMemoryBytes(options) >= 4 * 128 * 1024);
  // 16 bytes for each of 256 pages.
  CHECK(readQueueBytesPerRegisteredMiB(IoBackend::kUring) >= 4096);
  CHECK(readQueueBytesPerRegisteredMiB(IoBackend::kThreads) == 0);
}

TEST_CASE(
    "memory is read into whether it is registered first, later, no longer, or at another place") {
  TestFile test(64 * kBlock);
  onEachBackend(test, [](ReadQueue &queue, HostRegion &memory) {
    const auto readsInto = [&](std::byte *data) {
      MemoryPiece piece{data, 8 * kBlock};
      REQUIRE(queue.submit(1, 5 * kBlock, {&piece, 1}).isOk());
      const std::vector<ReadCompletion> done = takeAll(queue, 1);
      CHECK(done[0].status.message() == "");
      CHECK(holdsFile(5 * kBlock, {&piece, 1}));
    };
    readsInto(memory.data());
    queue.registerRegions({});
    CHECK(queue.describe().find("registered buffers") == std::string::npos);
    readsInto(memory.data() + 8 * kBlock);
    HostRegion other = HostRegion::create(40 * kBlock).value();
    const MemoryPiece region{other.data(), other.bytes()};
    queue.registerRegions({&region, 1});
    readsInto(other.data() + 32 * kBlock);
    readsInto(memory.data() + 16 * kBlock);
    queue.registerRegions({}); // Before its memory goes.
  });
}

TEST_CASE("io_uring no longer pins memory that was withdrawn") {
  TestFile test(64 * kBlock);
  ArtifactFile file = test.open();
  HostRegion memory = HostRegion::create(16 << 20).value();
  const MemoryPiece region{memory.data(), memory.bytes()};
  ReadQueueOptions options = optionsFor(IoBackend::kUring);
  options.registeredRegions = {&region, 1};
  Result<std::unique_ptr<ReadQueue>> queue = createReadQueue(file, options);
  if (!queue.isOk() || queue.value()->describe() != "io_uring, direct, registered buffers") {
    MESSAGE("SKIPPED: no registered buffers here");
    return;
  }
  // Pinned pages count as locked, unless the process may lock as many as it likes.
  const auto pinned = [] {
    std::ifstream status("/proc/self/status");
    for (std::string name; status >> name;)
      if (uint64_t kibibytes = 0; name == "VmPin:" && status >> kibibytes)
        return kibibytes * 1024;
    return uint64_t(0);
  };
  const uint64_t before = pinned();
  CHECK(before >= memory.bytes());
  const MemoryPiece half{memory.data(), memory.bytes() / 2};
  queue.value()->registerRegions({&half, 1});
  CHECK(before - pinned() == memory.bytes() / 2);
  queue.value()->registerRegions({});
  CHECK(before - pinned() == memory.bytes());
}
