// The parts of calibration: the number of windows per text, states on the disk, the journal.
#include "compiler/calibrate/CalibrationJournal.h"
#include "compiler/calibrate/CalibrationWindows.h"
#include "compiler/calibrate/StateFile.h"
#include "tests/unit/profile/TinyProfile.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;
using namespace moert;

TEST_CASE("texts give equal numbers of windows, as far as they have that many") {
  std::vector<uint64_t> available = {100, 3, 50};
  CHECK(divideWindows(available, 9) == std::vector<uint64_t>{3, 3, 3});
  CHECK(divideWindows(available, 30) == std::vector<uint64_t>{14, 3, 13});
  CHECK(divideWindows(available, 110) == std::vector<uint64_t>{57, 3, 50});
}

TEST_CASE("texts with fewer windows than requested give all of them") {
  std::vector<uint64_t> available = {2, 3};
  CHECK(divideWindows(available, 9) == available);
}

TEST_CASE("every text gives a window when there are as many windows as texts") {
  std::vector<uint64_t> available = {1, 40, 7, 2};
  CHECK(divideWindows(available, 4) == std::vector<uint64_t>{1, 1, 1, 1});
}

namespace {

/// A name in the current directory whose state file is removed at the end.
struct StatesName {
  std::string path = "calibration-test-" + std::to_string(::getpid());
  ~StatesName() {
    std::filesystem::remove(StateFile::pathOf(path));
    std::filesystem::remove(CalibrationJournal::pathOf(path));
  }
};

std::vector<std::byte> bytesFrom(uint8_t first, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(first + i * 7);
  return bytes;
}

} // namespace

TEST_CASE("states of a boundary still exist while the next ones are written") {
  StatesName name;
  auto file = StateFile::open(name.path, 1000, false);
  REQUIRE(file.isOk());
  std::vector<std::byte> first = bytesFrom(1, 1000), second = bytesFrom(2, 800), read(1000);
  REQUIRE(file->write(3, 0, first).isOk());
  REQUIRE(file->write(4, 0, second).isOk());
  REQUIRE(file->read(3, 0, read).isOk());
  CHECK(read == first);
  read.resize(800);
  REQUIRE(file->read(4, 0, read).isOk());
  CHECK(read == second);
}

TEST_CASE("the checksum of states is the same when they are written and when they are read") {
  StatesName name;
  std::vector<std::byte> states = bytesFrom(9, 900);
  uint64_t checksum = 0;
  {
    auto file = StateFile::open(name.path, 1000, false);
    REQUIRE(file.isOk());
    REQUIRE(file->write(1, 0, std::span(states).first(500)).isOk());
    REQUIRE(file->write(1, 500, std::span(states).subspan(500)).isOk());
    REQUIRE(file->sync().isOk());
    checksum = file->checksum();
    file->keep();
  }
  auto again = StateFile::open(name.path, 1000, true);
  REQUIRE(again.isOk());
  auto found = again->checksumOf(1, 900);
  REQUIRE(found.isOk());
  CHECK(*found == checksum);
}

TEST_CASE("states that end early, or are missing, are refused") {
  StatesName name;
  CHECK(StateFile::open(name.path, 1000, true).status().code() == StatusCode::kInvalidInput);
  auto file = StateFile::open(name.path, 1000, false);
  REQUIRE(file.isOk());
  REQUIRE(file->write(0, 0, bytesFrom(1, 10)).isOk());
  std::vector<std::byte> read(20);
  CHECK(file->read(0, 0, read).code() == StatusCode::kInvalidInput);
}

TEST_CASE("a states path that is not a regular file is refused and left unchanged") {
  StatesName name;
  const std::string path = StateFile::pathOf(name.path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  for (bool resume : {false, true})
    CHECK(StateFile::open(name.path, 1000, resume).status().code() == StatusCode::kInvalidInput);
  CHECK(std::filesystem::remove(path));
}

TEST_CASE("states are removed unless they are kept") {
  StatesName name;
  REQUIRE(StateFile::open(name.path, 1000, false).isOk());
  CHECK(!std::filesystem::exists(StateFile::pathOf(name.path)));
}

namespace {

CalibrationJournal tinyJournal() {
  CalibrationJournal journal;
  journal.fingerprint = 11;
  journal.segments = 2;
  journal.stateChecksum = 22;
  journal.header.info = tinyProfileInfo();
  journal.finishedInputs = 1;
  journal.header.checksums.resize(journal.header.info.moeLayers.size());
  journal.header.inputChecksums.resize(journal.header.info.residentInputs.size());
  return journal;
}

} // namespace

TEST_CASE("a journal survives a round trip") {
  StatesName name;
  auto none = loadJournal(name.path);
  REQUIRE(none.isOk());
  CHECK(!none->has_value());
  REQUIRE(storeJournal(name.path, tinyJournal()).isOk());
  auto read = loadJournal(name.path);
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  REQUIRE(read->has_value());
  CHECK(**read == tinyJournal());
}

TEST_CASE("a damaged journal is refused at any position of the damage") {
  std::vector<std::byte> sound = encodeJournal(tinyJournal());
  REQUIRE(decodeJournal(sound).isOk());
  for (size_t at = 0; at < sound.size(); at += 5) {
    std::vector<std::byte> broken = sound;
    broken[at] ^= std::byte(4);
    CHECK(decodeJournal(broken).status().code() == StatusCode::kInvalidInput);
  }
  for (size_t size = 0; size < sound.size(); size += 11)
    CHECK(!decodeJournal(std::span(sound).first(size)).isOk());
}

TEST_CASE("a journal of layers without their counts is refused") {
  CalibrationJournal journal = tinyJournal();
  journal.finishedLayers = 1;
  CHECK(!decodeJournal(encodeJournal(journal)).isOk());
}
