#include "compiler/search/MeasurementLog.h"

#include <bit>

using namespace moert;

namespace moec {

MeasurementLog::MeasurementLog(std::string path, uint64_t fingerprint)
    : log(std::move(path), "moec-measurements 4", fingerprint) {
  for (const AppendLog::Words &words : log.lines())
    if (!words.empty()) {
      std::vector<double> &values = known[words.front()];
      values.clear();
      for (size_t i = 1; i < words.size(); ++i)
        values.push_back(std::bit_cast<double>(words[i]));
    }
}

const std::vector<double> *MeasurementLog::find(uint64_t key) const {
  auto found = known.find(key);
  return found == known.end() ? nullptr : &found->second;
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
  AppendLog::Words words = {key};
  for (double number : numbers)
    words.push_back(std::bit_cast<uint64_t>(number));
  known[key] = std::move(numbers);
  return log.append(words);
}

} // namespace moec
