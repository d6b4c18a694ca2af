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

static std::string lineOf(const AcceptanceRecord &record) {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("checkpoint").string(formatChecksum(record.checkpoint));
  json.key("compile").string(formatChecksum(record.compile));
  json.key("texts").beginArray();
  for (uint64_t hash : record.texts)
    json.string(formatChecksum(hash));
  json.endArray();
  json.endObject();
  return text + "\n";
}

Result<uint32_t> addToAcceptanceLog(const std::string &path, const AcceptanceRecord &record) {
  LockedFile file(path);
  MOERT_RETURN_IF_ERROR(file.open());
  MOERT_ASSIGN_OR_RETURN(std::string content, readInput(path));
  content.resize(content.rfind('\n') + 1); // A line without its end was cut off by a crash.
  std::set<uint64_t> others;
  std::optional<uint32_t> number;
  MOERT_RETURN_IF_ERROR(
      forEachJsonLine(content, inputName(path), [&](JsonLine &line, uint32_t) -> Status {
        const char *kExpected = "a line of the record of acceptance tests";
        MOERT_ASSIGN_OR_RETURN(const std::string checkpointText,
                               line.text("checkpoint", kExpected));
        MOERT_ASSIGN_OR_RETURN(const std::string compileText, line.text("compile", kExpected));
        MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                               line.texts("texts", kExpected));
        MOERT_ASSIGN_OR_RETURN(uint64_t checkpoint, hashIn(line, "checkpoint", checkpointText));
        MOERT_ASSIGN_OR_RETURN(uint64_t compile, hashIn(line, "compile", compileText));
        bool probabilitiesText = false;
        for (const std::string &text : texts) {
          MOERT_ASSIGN_OR_RETURN(uint64_t hash, hashIn(line, "texts", text));
          probabilitiesText =
              probabilitiesText ||
              std::find(record.texts.begin(), record.texts.end(), hash) != record.texts.end();
        }
        if (checkpoint != record.checkpoint || !probabilitiesText || number)
          return {};
        if (compile == record.compile)
          number = uint32_t(others.size() + 1);
        others.insert(compile);
        return {};
      }));
  if (number)
    return *number;
  MOERT_RETURN_IF_ERROR(file.append(content.size(), lineOf(record)));
  return uint32_t(others.size() + 1);
}

} // namespace moec
