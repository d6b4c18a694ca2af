#include "runtime/io/ReadTable.h"
#include "tests/unit/io/TestFile.h"

#include <cerrno>
#include <doctest/doctest.h>
#include <vector>

using namespace moert;

static constexpr uint64_t kKiB = 1024;

static ReadQueueOptions smallOptions() {
  ReadQueueOptions options;
  options.maxReads = 2;
  options.maxPiecesPerRead = 8;
  options.maxReadBytes = 1024 * kKiB;
  options.maxRequestBytes = 128 * kKiB;
  return options;
}

/// The table computes with addresses without accessing them, so any aligned address works.
static MemoryPiece pieceAt(uint64_t address, uint64_t bytes) {
  return {reinterpret_cast<std::byte *>(address), bytes};
}

TEST_CASE("adjacent pieces become one request, cut at the request size") {
  TestFile test(4096);
  ArtifactFile file = test.open();
  ReadTable table(file, smallOptions());
  std::vector<MemoryPiece> pieces = {pieceAt(0x100000, 64 * kKiB), pieceAt(0x110000, 128 * kKiB)};
  Result<ReadTable::Requests> made = table.add(7, 4096, pieces);
  REQUIRE(made.isOk());
  REQUIRE(made->count == 2); // 192 KiB in one run: 128 + 64.
  const ReadRequest &first = table.request(made->first), &second = table.request(made->first + 1);
  CHECK(first.fileOffset == 4096);
  CHECK(first.bytes == 128 * kKiB);
  CHECK(second.fileOffset == 4096 + 128 * kKiB);
  CHECK(second.pieces[0].iov_base == reinterpret_cast<void *>(0x120000));
}

TEST_CASE("scattered small pieces share a request up to its size") {
  TestFile test(4096);
  ArtifactFile file = test.open();
  ReadTable table(file, smallOptions());
  std::vector<MemoryPiece> pieces;
  for (uint64_t i = 0; i < 6; ++i)
    pieces.push_back(pieceAt(0x100000 + i * 0x100000, 32 * kKiB));
  Result<ReadTable::Requests> made = table.add(7, 0, pieces);
  REQUIRE(made.isOk());
  REQUIRE(made->count == 2); // 4 pieces fill 128 KiB, 2 remain.
  CHECK(table.request(made->first).pieceCount == 4);
  CHECK(table.request(made->first + 1).pieceCount == 2);
  CHECK(table.request(made->first + 1).fileOffset == 128 * kKiB);
}

TEST_CASE("a large piece inside a registered region is a request of its own") {
  TestFile test(4096);
  ArtifactFile file = test.open();
  ReadQueueOptions options = smallOptions();
  options.maxRequestBytes = 512 * kKiB;
  ReadTable table(file, options);
  table.setRegions({pieceAt(0x100000, 0x100000), pieceAt(0x400000, 0x100000)});
  std::vector<MemoryPiece> pieces = {
      pieceAt(0x4c0000, 256 * kKiB),                                // Up to the end of region 1.
      pieceAt(0x110000, 64 * kKiB),                                 // Too small to go alone.
      pieceAt(0x150000, 4 * kKiB),   pieceAt(0x180000, 256 * kKiB), // In region 0.
      pieceAt(0x1f8000, 256 * kKiB), // Begins in region 0 and ends outside.
  };
  Result<ReadTable::Requests> made = table.add(7, 0, pieces);
  REQUIRE(made.isOk());
  REQUIRE(made->count == 4);
  CHECK(table.request(made->first).region == 1);
  CHECK(table.request(made->first + 1).region == ReadRequest::kNoRegion);
  CHECK(table.request(made->first + 1).pieceCount == 2);
  CHECK(table.request(made->first + 2).region == 0);
  CHECK(table.request(made->first + 3).region == ReadRequest::kNoRegion);
  CHECK(table.request(made->first + 3).fileOffset == (256 + 64 + 4 + 256) * kKiB);
}

TEST_CASE("the only piece of a read uses its registered region whatever its size") {
  TestFile test(4096);
  ArtifactFile file = test.open();
  ReadTable table(file, smallOptions());
  table.setRegions({pieceAt(0x100000, 0x100000)});
  MemoryPiece piece = pieceAt(0x110000, 4 * kKiB);
  CHECK(table.request(table.add(0, 0, {&piece, 1})->first).region == 0);
}

TEST_CASE("a short request resumes after the last whole block, across pieces") {
  iovec pieces[] = {{reinterpret_cast<void *>(0x10000), 8192},
                    {reinterpret_cast<void *>(0x20000), 8192}};
  ReadRequest request{.fileOffset = 4096, .bytes = 16384, .pieces = pieces, .pieceCount = 2};
  CHECK(!advanceRequest(request, 12288 + 100));
  CHECK(request.fileOffset == 4096 + 12288);
  CHECK(request.bytes == 4096);
  CHECK(request.pieceCount == 1);
  CHECK(request.pieces->iov_base == reinterpret_cast<void *>(0x21000));
  CHECK(request.pieces->iov_len == 4096);
  CHECK(advanceRequest(request, 4096));
  CHECK(request.error == 0);
}

TEST_CASE("interrupted calls are repeated; errors and the end of the file end a request") {
  iovec piece = {nullptr, 8192};
  ReadRequest request{.bytes = 8192, .pieces = &piece, .pieceCount = 1};
  CHECK(!advanceRequest(request, -EINTR));
  CHECK(!advanceRequest(request, -EAGAIN));
  CHECK(advanceRequest(request, 100));
  CHECK(request.error == ReadRequest::kEndOfFile);
  CHECK(request.foundBytes == 100);
  CHECK(advanceRequest(request, -EIO));
  CHECK(request.error == EIO);
}

TEST_CASE("a request that the system never has resources for ends with that error") {
  iovec piece = {reinterpret_cast<void *>(0x10000), 8192};
  ReadRequest request{.bytes = 8192, .pieces = &piece, .pieceCount = 1};
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i + 1 < kMostTries; ++i)
      REQUIRE(!advanceRequest(request, -EAGAIN));
    if (round == 0) // Progress resets the count.
      REQUIRE(!advanceRequest(request, 4096));
  }
  CHECK(advanceRequest(request, -EAGAIN));
  CHECK(request.error == EAGAIN);
}

TEST_CASE("a read finishes with its last request and reports its first failure in the file") {
  TestFile test(4096);
  ArtifactFile file = test.open();
  ReadTable table(file, smallOptions());
  MemoryPiece piece = pieceAt(0x100000, 384 * kKiB);
  Result<ReadTable::Requests> made = table.add(7, 4096, {&piece, 1});
  REQUIRE(made->count == 3);
  advanceRequest(table.request(made->first + 1), 0);
  table.finish(made->first + 1);
  CHECK(!table.isPointless(table.request(made->first))); // It may have failed earlier in the file.
  CHECK(table.isPointless(table.request(made->first + 2)));
  advanceRequest(table.request(made->first + 2), -EIO);
  table.finish(made->first + 2);
  CHECK(!table.hasFinished());
  table.finish(made->first);
  REQUIRE(table.hasFinished());
  ReadCompletion completion;
  REQUIRE(table.take({&completion, 1}) == 1);
  CHECK(completion.tag == 7);
  CHECK(completion.status.message() ==
        test.path + ": read of 393216 bytes at offset 4096 found 131072 bytes, then the end of the "
                    "file");
  CHECK(table.readsUnderWay() == 0);
}

TEST_CASE("an unaligned read or one beyond the limits is refused and starts nothing") {
  TestFile test(4096);
  ArtifactFile file = test.open();
  ReadTable table(file, smallOptions());
  std::vector<MemoryPiece> good = {pieceAt(0x100000, 4096)};
  auto isRefused = [&](uint64_t offset, std::vector<MemoryPiece> pieces) {
    return !table.add(0, offset, pieces).isOk() && table.readsUnderWay() == 0;
  };
  CHECK(isRefused(512, good));
  CHECK(isRefused(0, {}));
  CHECK(isRefused(0, {pieceAt(0x100200, 4096)}));
  CHECK(isRefused(0, {pieceAt(0x100000, 4000)}));
  CHECK(isRefused(0, {pieceAt(0x100000, 0)}));
  CHECK(isRefused(0, {pieceAt(0x100000, 1028 * kKiB)}));
  CHECK(isRefused(0, std::vector<MemoryPiece>(9, good[0])));
  CHECK(isRefused(0, {pieceAt(0x100000, uint64_t(0) - 4096), pieceAt(0x100000, 8192)}));
  CHECK(isRefused(uint64_t(0) - 4096, good));
  CHECK(table.add(0, 0, good).isOk());
  CHECK(table.add(1, 0, good).isOk());
  Status third = table.add(2, 0, good).status();
  CHECK(third.message() == test.path + ": more than 2 reads at once");
}

TEST_CASE("the limits hold for the requests of the worst scattering") {
  TestFile test(4096);
  ArtifactFile file = test.open();
  ReadQueueOptions options = smallOptions();
  ReadTable table(file, options);
  table.setRegions({pieceAt(0x1000, uint64_t(1) << 40)});
  std::vector<MemoryPiece>
      pieces; // 8 runs of 1 MiB together, each one block beyond whole requests.
  for (uint64_t i = 0; i < 7; ++i)
    pieces.push_back(pieceAt(0x10000000 * (i + 1), 132 * kKiB));
  pieces.push_back(pieceAt(0x90000000, 100 * kKiB));
  for (uint64_t slot = 0; slot < options.maxReads; ++slot) {
    Result<ReadTable::Requests> made = table.add(slot, 0, pieces);
    REQUIRE(made.isOk());
    CHECK(made->first + made->count <= table.capacity() / options.maxReads * (slot + 1));
  }
}

TEST_CASE("options that cannot work are refused") {
  CHECK(ReadTable::checkOptions(smallOptions()).isOk());
  auto isRefused = [](auto change) {
    ReadQueueOptions options = smallOptions();
    change(options);
    return !ReadTable::checkOptions(options).isOk();
  };
  CHECK(isRefused([](ReadQueueOptions &o) { o.depth = 0; }));
  CHECK(isRefused([](ReadQueueOptions &o) { o.maxReads = 0; }));
  CHECK(isRefused([](ReadQueueOptions &o) { o.maxPiecesPerRead = 0; }));
  CHECK(isRefused([](ReadQueueOptions &o) { o.maxRequestBytes = 0; }));
  CHECK(isRefused([](ReadQueueOptions &o) { o.maxRequestBytes = 5000; }));
  CHECK(isRefused([](ReadQueueOptions &o) { o.maxReadBytes = uint64_t(1) << 60; }));
}
