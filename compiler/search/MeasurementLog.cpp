#include "compiler/search/MeasurementLog.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"

#include <bit>
#include <fstream>
#include <span>
#include <sstream>

using namespace moert;

namespace moec {

static std::string headerOf(uint64_t fingerprint) {
  return strCat("moec-measurements 3 ", formatChecksum(fingerprint));
}

// Checksum of a key and its numbers, the last word of their line.
static uint64_t checksumOf(std::span<const uint64_t> numbers) {
  return checksum64(std::as_bytes(numbers));
}

// nullopt for a line with a word that is not a number, or with a wrong checksum: damaged
// measurements are repeated.
static std::optional<std::vector<uint64_t>> parseLine(const std::string &line) {
  std::istringstream words(line);
  std::vector<uint64_t> numbers;
  for (std::string word; words >> word;) {
    std::optional<uint64_t> number = parseChecksum(word);
    if (!number)
      return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.size() < 2)
    return std::nullopt;
  const uint64_t checksum = numbers.back();
  numbers.pop_back();
  if (checksum != checksumOf(numbers))
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

static std::string lineOf(uint64_t key, const std::vector<double> &values) {
  std::vector<uint64_t> numbers = {key};
  for (double value : values)
    numbers.push_back(std::bit_cast<uint64_t>(value));
  numbers.push_back(checksumOf(numbers));
  std::string line;
  for (uint64_t number : numbers)
    line += strCat(line.empty() ? "" : " ", formatChecksum(number));
  return strCat(line, "\n");
}

// The old file is kept until the new one is complete.
Status MeasurementLog::writeAnew() const {
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  MOERT_RETURN_IF_ERROR(file.append(headerOf(fingerprint) + "\n"));
  for (const auto &[key, values] : known)
    MOERT_RETURN_IF_ERROR(file.append(lineOf(key, values)));
  return file.commit();
}

static constexpr size_t kNumbersOfScore = 7;

std::optional<std::vector<SampleScore>> MeasurementLog::findScores(uint64_t key,
                                                                   uint64_t samples) const {
  const std::vector<double> *numbers = find(key);
  if (!numbers || numbers->size() != samples * kNumbersOfScore)
    return std::nullopt;
  std::vector<SampleScore> scores;
  for (size_t i = 0; i < numbers->size(); i += kNumbersOfScore) {
    const double *fields = numbers->data() + i;
    SampleScore &score = scores.emplace_back();
    score.text = static_cast<uint32_t>(fields[0]);
    score.unit = static_cast<uint32_t>(fields[1]);
    score.tokens = static_cast<uint64_t>(fields[2]);
    score.lossNats = fields[3];
    score.referenceLossNats = fields[4];
    score.klNats = fields[5];
    score.agreeing = static_cast<uint64_t>(fields[6]);
  }
  return scores;
}

Status MeasurementLog::addScores(uint64_t key, std::span<const SampleScore> scores) {
  std::vector<double> numbers;
  for (const SampleScore &score : scores)
    numbers.insert(numbers.end(),
                   {double(score.text), double(score.unit), double(score.tokens), score.lossNats,
                    score.referenceLossNats, score.klNats, double(score.agreeing)});
  return add(key, std::move(numbers));
}

Status MeasurementLog::add(uint64_t key, std::vector<double> numbers) {
  known[key] = std::move(numbers);
  // The first call rewrites the file, which also drops a truncated line.
  if (!isOnDisk) {
    MOERT_RETURN_IF_ERROR(writeAnew());
    isOnDisk = true;
    return {};
  }
  std::ofstream file(path, std::ios::app);
  file << lineOf(key, known[key]);
  file.flush();
  if (!file)
    return failed("writing ", path, " failed");
  return {};
}

} // namespace moec
