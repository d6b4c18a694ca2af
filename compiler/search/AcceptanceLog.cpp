#include "compiler/search/AcceptanceLog.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/evaluation/JsonLine.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/file.h>
#include <unistd.h>

using namespace moert;

namespace moec {

Result<std::string> defaultAcceptanceLog() {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  std::string directory;
  if (state && *state == '/') // The XDG specification requires relative paths to be ignored.
    directory = state;
  else if (home && *home)
    directory = strCat(home, "/.local/state");
  else
    return invalidInput(
        "neither XDG_STATE_HOME nor HOME is set, expected a folder for the record of "
        "acceptance tests; or --acceptance-log FILE");
  return directory + "/moec/acceptance-tests.jsonl";
}

namespace {

/// The record's file, locked from open() until the destructor.
class LockedFile {
public:
  LockedFile(const LockedFile &) = delete;
  explicit LockedFile(std::string name) : path(std::move(name)) {}
  ~LockedFile() {
    if (file >= 0)
      ::close(file);
  }

  Status open() {
    std::error_code ignored; // If a folder is missing, opening the file fails.
    if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
      std::filesystem::create_directories(folder, ignored);
    file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
    if (file < 0)
      return systemError(errno, strCat("opening ", path,
                                       ", the record of acceptance tests (--acceptance-log names "
                                       "another file)"));
    while (::flock(file, LOCK_EX) != 0)
      if (errno != EINTR)
        return systemError(errno, strCat("locking ", path));
    return {};
  }

  /// Writes after the first `length` bytes and syncs.
  Status append(uint64_t length, std::string_view text) {
    if (::ftruncate(file, off_t(length)) != 0)
      return systemError(errno, strCat("writing ", path));
    while (!text.empty()) {
      const ssize_t written = ::pwrite(file, text.data(), text.size(), off_t(length));
      if (written < 0 && errno != EINTR)
        return systemError(errno, strCat("writing ", path));
      length += uint64_t(std::max<ssize_t>(written, 0));
      text.remove_prefix(size_t(std::max<ssize_t>(written, 0)));
    }
    if (::fsync(file) != 0)
      return systemError(errno, strCat("writing ", path));
    return {};
  }

private:
  std::string path;
  int file = -1;
};

} // namespace

static Result<uint64_t> hashIn(JsonLine &line, std::string_view key, const std::string &text) {
  if (std::optional<uint64_t> hash = parseChecksum(text))
    return *hash;
  return line.refuse(
      "'", text, "' in \"", key,
      "\", expected 16 hexadecimal digits. Moving the file away starts a new record, "
      "which does not count the tests so far");
}

static constexpr const char *kExpected = "a line of the record of acceptance tests";

static Result<uint64_t> hashOf(JsonLine &line, std::string_view key) {
  MOERT_ASSIGN_OR_RETURN(const std::string text, line.text(key, kExpected));
  return hashIn(line, key, text);
}

static Result<std::vector<uint64_t>> hashesOf(JsonLine &line, std::string_view key) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> texts, line.texts(key, kExpected));
  std::vector<uint64_t> hashes;
  for (const std::string &text : texts) {
    MOERT_ASSIGN_OR_RETURN(const uint64_t hash, hashIn(line, key, text));
    hashes.push_back(hash);
  }
  return hashes;
}

/// Beginnings and ends of the documents.
static std::set<uint64_t> partsOf(const AcceptanceRecord &record) {
  std::set<uint64_t> parts;
  for (const DocumentId &document : record.documents)
    parts.insert({document.begin, document.end});
  return parts;
}

static std::string lineOf(const AcceptanceRecord &record) {
  std::string text;
  JsonWriter json(text);
  auto writeHashes = [&json](const char *key, const auto &hashes) {
    json.key(key).beginArray();
    for (uint64_t hash : hashes)
      json.string(formatChecksum(hash));
    json.endArray();
  };
  json.beginObject();
  json.key("checkpoint").string(formatChecksum(record.checkpoint));
  json.key("compile").string(formatChecksum(record.compile));
  writeHashes("texts", record.files);
  writeHashes("documents", partsOf(record));
  json.endObject();
  return text + "\n";
}

namespace {

struct LoggedNumber {
  uint32_t number = 1;
  bool isRecorded = false;
};

} // namespace

static Result<LoggedNumber> numberIn(std::string_view content, const std::string &path,
                                     const AcceptanceRecord &record) {
  const std::set<uint64_t> parts = partsOf(record), files(record.files.begin(), record.files.end());
  std::set<uint64_t> others; // Compiles of any of the documents.
  LoggedNumber found;
  MOERT_RETURN_IF_ERROR(
      forEachJsonLine(content, inputName(path), [&](JsonLine &line, uint32_t) -> Status {
        MOERT_ASSIGN_OR_RETURN(const uint64_t checkpoint, hashOf(line, "checkpoint"));
        MOERT_ASSIGN_OR_RETURN(const uint64_t compile, hashOf(line, "compile"));
        MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> texts, hashesOf(line, "texts"));
        std::vector<uint64_t> documents;
        if (line.has("documents")) {
          MOERT_ASSIGN_OR_RETURN(documents, hashesOf(line, "documents"));
        }
        auto isAnyIn = [](const std::vector<uint64_t> &hashes, const std::set<uint64_t> &own) {
          return std::any_of(hashes.begin(), hashes.end(),
                             [&own](uint64_t hash) { return own.contains(hash); });
        };
        const bool isShared = isAnyIn(documents, parts) || isAnyIn(texts, files);
        if (checkpoint != record.checkpoint || !isShared || found.isRecorded)
          return {};
        found.isRecorded = compile == record.compile;
        if (found.isRecorded)
          found.number = uint32_t(others.size() + 1);
        others.insert(compile);
        return {};
      }));
  if (!found.isRecorded)
    found.number = uint32_t(others.size() + 1);
  return found;
}

/// A line without its end was cut off by a crash.
static std::string_view wholeLines(std::string_view content) {
  return content.substr(0, content.rfind('\n') + 1);
}

Result<uint32_t> numberInAcceptanceLog(const std::string &path, const AcceptanceRecord &record) {
  std::error_code ignored; // A file that exists and cannot be read is refused below.
  if (!std::filesystem::exists(path, ignored))
    return 1;
  MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(path));
  MOERT_ASSIGN_OR_RETURN(const LoggedNumber found, numberIn(wholeLines(content), path, record));
  return found.number;
}

Result<uint32_t> addToAcceptanceLog(const std::string &path, const AcceptanceRecord &record) {
  LockedFile file(path);
  MOERT_RETURN_IF_ERROR(file.open());
  MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(path));
  const std::string_view lines = wholeLines(content);
  MOERT_ASSIGN_OR_RETURN(const LoggedNumber found, numberIn(lines, path, record));
  if (!found.isRecorded)
    MOERT_RETURN_IF_ERROR(file.append(lines.size(), lineOf(record)));
  return found.number;
}

} // namespace moec
