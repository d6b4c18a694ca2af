#include "compiler/emit/Journal.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <vector>

using namespace moert;

namespace moec {

static std::vector<std::string> wordsOf(const std::string &line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

static std::optional<uint64_t> parseNumber(const std::string &word) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    return std::nullopt;
  return value;
}

namespace {

/// Parses a journal's lines one by one, in the order of the parts in the file.
class LineReader {
public:
  explicit LineReader(Artifact &target) : artifact(target) {}

  bool take(const std::vector<std::string> &words) {
    if (!state.hasResidents) {
      auto checksum = words.size() == 2 ? parseChecksum(words[1]) : std::nullopt;
      if (!checksum || words[0] != "resident")
        return false;
      artifact.residentChecksum = *checksum;
      state.hasResidents = true;
      return true;
    }
    return takeRecord(words);
  }

  EmitState state;

private:
  bool takeRecord(const std::vector<std::string> &words) {
    if (layer == artifact.moeLayers.size() || words.size() < 3 || words[0] != "record")
      return false;
    std::vector<Slice> &slices = artifact.moeLayers[layer].experts[expert].slices;
    if (parseNumber(words[1]) != layer || parseNumber(words[2]) != expert ||
        words.size() != 3 + slices.size())
      return false;
    for (size_t i = 0; i < slices.size(); ++i) {
      auto checksum = parseChecksum(words[3 + i]);
      if (!checksum)
        return false;
      slices[i].checksum = *checksum;
    }
    ++state.records;
    if (++expert == artifact.moeLayers[layer].experts.size()) {
      expert = 0;
      ++layer;
    }
    return true;
  }

  Artifact &artifact;
  size_t layer = 0, expert = 0;
};

} // namespace

constexpr std::string_view kHeading = "moec-journal 1 ";

static std::string firstLineOf(uint64_t fingerprint) {
  return strCat(kHeading, formatChecksum(fingerprint));
}

Result<std::optional<EmitState>> Journal::load(uint64_t fingerprint, Artifact &artifact) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return std::optional<EmitState>();
  if (!std::filesystem::is_regular_file(path, ignored)) // Opening a pipe would block.
    return invalidInput(path, " is not a regular file; --restart begins anew");
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  std::string line;
  auto takeLine = [&] { return std::getline(content, line) && !content.eof(); };
  std::string expected = firstLineOf(fingerprint);
  if (!takeLine() || line.rfind("moec-journal ", 0) != 0)
    return invalidInput(path, " is not a journal; --restart begins anew");
  if (line != expected)
    return invalidInput(path, " has the line '", line, "', expected '", expected,
                        "': the checkpoint, the options or the program have changed since; "
                        "--restart begins anew");
  LineReader reader(artifact);
  while (takeLine())
    if (!reader.take(wordsOf(line)))
      return invalidInput(path, " has the line '", line,
                          "', which is unexpected there; --restart begins anew");
  return std::optional<EmitState>(reader.state);
}

static std::string textOf(uint64_t fingerprint, const EmitState &state, const Artifact &artifact) {
  std::ostringstream text;
  text << firstLineOf(fingerprint) << "\n";
  if (state.hasResidents)
    text << "resident " << formatChecksum(artifact.residentChecksum) << "\n";
  uint64_t left = state.records;
  for (size_t layer = 0; layer < artifact.moeLayers.size(); ++layer)
    for (size_t expert = 0; expert < artifact.moeLayers[layer].experts.size(); ++expert) {
      if (left-- == 0)
        return text.str();
      text << "record " << layer << " " << expert;
      for (const Slice &slice : artifact.moeLayers[layer].experts[expert].slices)
        text << " " << formatChecksum(slice.checksum);
      text << "\n";
    }
  return text.str();
}

Status Journal::store(uint64_t fingerprint, const EmitState &state,
                      const Artifact &artifact) const {
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  MOERT_RETURN_IF_ERROR(file.append(textOf(fingerprint, state, artifact)));
  return file.commit();
}

bool Journal::exists() const {
  return ::access(path.c_str(), F_OK) == 0;
}

void Journal::remove() const {
  ::unlink(path.c_str());
}

} // namespace moec
