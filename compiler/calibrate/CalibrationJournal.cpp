#include "compiler/calibrate/CalibrationJournal.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"
#include "runtime/format/Reader.h"

#include <cstring>
#include <filesystem>

using namespace moert;

namespace moec {

namespace {

constexpr unsigned char kMagic[8] = {0x89, 'M', 'O', 'J', '\r', '\n', 0x1a, '\n'};
constexpr uint64_t kMaxJournalBytes = kMaxProfileHeaderBytes + 4096;

void put(std::vector<std::byte> &bytes, std::span<const std::byte> more) {
  if (more.empty())
    return;
  size_t at = bytes.size();
  bytes.resize(at + more.size());
  std::memcpy(bytes.data() + at, more.data(), more.size());
}
void putNumber(std::vector<std::byte> &bytes, uint64_t value) {
  put(bytes, std::as_bytes(std::span(&value, 1)));
}

/// Reads fields in order. Reading beyond the end returns zeros and sets an error flag.
class Cursor {
public:
  explicit Cursor(std::span<const std::byte> all) : rest(all) {}

  uint64_t number() {
    uint64_t value = 0;
    auto bytes = take(sizeof(value));
    if (!bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  /// Returns an empty span if fewer than `count` bytes are left.
  std::span<const std::byte> take(uint64_t count) {
    if (count > rest.size()) {
      isBroken = true;
      return {};
    }
    auto front = rest.first(count);
    rest = rest.subspan(count);
    return front;
  }
  bool isSound() const { return !isBroken; }
  bool isAtEnd() const { return rest.empty() && !isBroken; }
  uint64_t left() const { return rest.size(); }

private:
  std::span<const std::byte> rest;
  bool isBroken = false;
};

} // namespace

std::vector<std::byte> encodeJournal(const CalibrationJournal &journal) {
  std::vector<std::byte> body;
  putNumber(body, journal.fingerprint);
  putNumber(body, journal.segments);
  putNumber(body, journal.stateChecksum);
  putNumber(body, journal.finishedLayers);
  putNumber(body, journal.finishedInputs);
  put(body, encodeProfileHeader(journal.header));
  std::vector<std::byte> bytes;
  put(bytes, std::as_bytes(std::span(kMagic)));
  putNumber(bytes, checksum64(body));
  put(bytes, body);
  return bytes;
}

Result<CalibrationJournal> decodeJournal(std::span<const std::byte> bytes) {
  constexpr size_t kBodyAt = sizeof(kMagic) + sizeof(uint64_t);
  if (bytes.size() < kBodyAt || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return invalidInput("this is not the journal of a calibration");
  Cursor cursor(bytes.subspan(sizeof(kMagic)));
  uint64_t expected = cursor.number();
  if (uint64_t found = checksum64(bytes.subspan(kBodyAt)); found != expected)
    return invalidInput("the journal is damaged: its checksum is ", formatChecksum(found),
                        ", it stores ", formatChecksum(expected));
  CalibrationJournal journal;
  journal.fingerprint = cursor.number();
  uint64_t segments = cursor.number();
  journal.stateChecksum = cursor.number();
  uint64_t finished = cursor.number(), inputs = cursor.number();
  if (segments > UINT32_MAX || finished > UINT32_MAX || inputs > UINT32_MAX || !cursor.isSound())
    return invalidInput("the journal is cut short or has invalid numbers");
  journal.segments = static_cast<uint32_t>(segments);
  journal.finishedLayers = static_cast<uint32_t>(finished);
  journal.finishedInputs = static_cast<uint32_t>(inputs);
  // FlatBuffers need an aligned start.
  auto rest = cursor.take(cursor.left());
  std::vector<std::byte> header(rest.begin(), rest.end());
  MOERT_ASSIGN_OR_RETURN(journal.header, decodeProfileHeader(header));
  MOERT_RETURN_IF_ERROR(checkProfileHeader(journal.header, journal.finishedLayers));
  return journal;
}

Status storeJournal(const std::string &outputPath, const CalibrationJournal &journal) {
  MOERT_ASSIGN_OR_RETURN(OutputFile file,
                         OutputFile::create(CalibrationJournal::pathOf(outputPath)));
  MOERT_RETURN_IF_ERROR(file.append(encodeJournal(journal)));
  return file.commit();
}

Result<std::optional<CalibrationJournal>> loadJournal(const std::string &outputPath) {
  std::string path = CalibrationJournal::pathOf(outputPath);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return std::optional<CalibrationJournal>();
  MOERT_ASSIGN_OR_RETURN(FileSource file, FileSource::open(path));
  if (file.bytes() > kMaxJournalBytes)
    return invalidInput(path, ": ", file.bytes(), " bytes, expected at most ", kMaxJournalBytes);
  std::vector<std::byte> bytes(file.bytes());
  MOERT_RETURN_IF_ERROR(file.read(0, bytes).withContext(path));
  auto journal = decodeJournal(bytes);
  if (!journal.isOk())
    return invalidInput(path, ": ", journal.status().message(), "; --restart begins anew");
  return std::optional<CalibrationJournal>(std::move(journal).value());
}

} // namespace moec
