#include "compiler/session/AppendLog.h"

#include "runtime/base/Checksum.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace moert;

namespace moec {

static std::string lineOf(std::span<const uint64_t> words) {
  std::string line;
  for (uint64_t word : words)
    line += strCat(formatChecksum(word), " ");
  return strCat(line, formatChecksum(checksum64(std::as_bytes(words))), "\n");
}

// nullopt for anything but the words of a line with their checksum.
static std::optional<AppendLog::Words> parseLine(const std::string &line) {
  std::istringstream texts(line);
  AppendLog::Words words;
  for (std::string text; texts >> text;) {
    const std::optional<uint64_t> word = parseChecksum(text);
    if (!word)
      return std::nullopt;
    words.push_back(*word);
  }
  if (words.empty())
    return std::nullopt;
  const uint64_t checksum = words.back();
  words.pop_back();
  if (checksum != checksum64(std::as_bytes(std::span(words))))
    return std::nullopt;
  return words;
}

AppendLog::AppendLog(std::string name, std::string_view kind, uint64_t fingerprint)
    : path(std::move(name)), header(strCat(kind, " ", formatChecksum(fingerprint), "\n")) {
  std::ifstream stream(path, std::ios::binary);
  std::string line;
  auto takeLine = [&] { return std::getline(stream, line) && !stream.eof(); };
  if (!takeLine() || strCat(line, "\n") != header)
    return;
  while (takeLine()) {
    std::optional<Words> words = parseLine(line);
    if (!words)
      return;
    read.push_back(std::move(*words));
  }
}

// What is kept is not written again, so that a full disk cannot lose it.
Status AppendLog::startWriting() {
  if (read.empty()) {
    MOERT_ASSIGN_OR_RETURN(RandomFile anew, RandomFile::open(path, O_WRONLY | O_CREAT | O_TRUNC));
    MOERT_RETURN_IF_ERROR(anew.writeAt(0, std::as_bytes(std::span(header))));
    file.emplace(std::move(anew));
    end = header.size();
    return {};
  }
  end = header.size();
  for (const Words &words : read)
    end += lineOf(words).size();
  std::error_code error;
  std::filesystem::resize_file(path, end, error);
  if (error)
    return systemError(error.value(), strCat("cutting ", path));
  MOERT_ASSIGN_OR_RETURN(RandomFile opened, RandomFile::open(path, O_WRONLY));
  file.emplace(std::move(opened));
  return {};
}

Status AppendLog::append(std::span<const uint64_t> words) {
  if (!file)
    MOERT_RETURN_IF_ERROR(startWriting());
  const std::string line = lineOf(words);
  MOERT_RETURN_IF_ERROR(file->writeAt(end, std::as_bytes(std::span(line))));
  end += line.size();
  return {};
}

} // namespace moec
