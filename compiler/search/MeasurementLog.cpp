#include "compiler/search/MeasurementLog.h"

#include "runtime/base/Checksum.h"

#include <bit>
#include <fstream>
#include <sstream>

using namespace moert;

namespace moec {

static std::string headerOf(uint64_t fingerprint) {
  return strCat("moec-measurements 1 ", formatChecksum(fingerprint));
}

// Nothing of a line with a word that is no number: the others would not stand where they belong.
static std::optional<std::vector<uint64_t>> parseLine(const std::string &line) {
  std::istringstream words(line);
  std::vector<uint64_t> numbers;
  for (std::string word; words >> word;) {
    std::optional<uint64_t> number = parseChecksum(word);
    if (!number)
      return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.empty())
    return std::nullopt;
  return numbers;
}

MeasurementLog MeasurementLog::open(const std::string &path, uint64_t fingerprint) {
  MeasurementLog log;
  log.path = path;
  log.fingerprint = fingerprint;
  std::ifstream file(path);
  std::string line, whole;
  auto takeLine = [&] { return std::getline(file, line) && !file.eof(); };
  if (!takeLine() || line != headerOf(fingerprint))
    return log;
  while (takeLine())
    if (std::optional<std::vector<uint64_t>> numbers = parseLine(line)) {
      std::vector<double> &values = log.known[numbers->front()];
      values.clear();
      for (size_t i = 1; i < numbers->size(); ++i)
        values.push_back(std::bit_cast<double>((*numbers)[i]));
    }
  return log;
}

const std::vector<double> *MeasurementLog::find(uint64_t key) const {
  auto found = known.find(key);
  return found == known.end() ? nullptr : &found->second;
}

static std::string lineOf(uint64_t key, const std::vector<double> &numbers) {
  std::string line = formatChecksum(key);
  for (double number : numbers)
    line += strCat(" ", formatChecksum(std::bit_cast<uint64_t>(number)));
  return strCat(line, "\n");
}

Status MeasurementLog::add(uint64_t key, std::vector<double> numbers) {
  known[key] = std::move(numbers);
  // The first time anew, which also drops a line that was cut off.
  std::ofstream file(path, isOnDisk ? std::ios::app : std::ios::trunc);
  if (!isOnDisk) {
    file << headerOf(fingerprint) << "\n";
    for (const auto &[knownKey, values] : known)
      file << lineOf(knownKey, values);
    isOnDisk = true;
  } else {
    file << lineOf(key, known[key]);
  }
  file.flush();
  if (!file)
    return failed("writing ", path, " failed");
  return {};
}

} // namespace moec
