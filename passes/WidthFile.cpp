#include "passes/WidthFile.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

using namespace moert;

namespace mlir::moe {

static constexpr const char *kFirstLine = "moe-widths 1";

std::string writeWidths(const ChosenWidths &widths) {
  std::ostringstream text;
  text << kFirstLine << "\n";
  if (widths.isNested)
    text << "nested\n";
  if (widths.group != 0)
    text << "group " << widths.group << "\n";
  for (const auto &[place, width] : widths.experts)
    text << "expert " << place.first << " " << place.second << " " << width.bits
         << (width.hasOffsets ? " offsets" : "") << "\n";
  for (const auto &[weight, bits] : widths.weights)
    text << "weight " << weight << " " << bits << "\n";
  return text.str();
}

static std::optional<uint32_t> parseNumber(const std::string &word) {
  uint32_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    return std::nullopt;
  return value;
}

// Returns false if the line is not of the format or repeats an entry.
static bool takeLine(const std::vector<std::string> &words, ChosenWidths &widths) {
  if (words == std::vector<std::string>{"nested"})
    return !std::exchange(widths.isNested, true);
  if (words.size() == 2 && words[0] == "group") {
    auto group = parseNumber(words[1]);
    return group && *group != 0 && std::exchange(widths.group, *group) == 0;
  }
  if (words.size() >= 4 && words[0] == "expert") {
    auto layer = parseNumber(words[1]), expert = parseNumber(words[2]),
         bits = parseNumber(words[3]);
    bool hasOffsets = words.size() == 5 && words[4] == "offsets";
    if (!layer || !expert || !bits || words.size() > 5 || (words.size() == 5 && !hasOffsets))
      return false;
    return widths.experts.emplace(std::pair(*layer, *expert), ChosenWidth{*bits, hasOffsets})
        .second;
  }
  if (words.size() != 3 || words[0] != "weight")
    return false;
  auto bits = parseNumber(words[2]);
  return bits && widths.weights.emplace(words[1], *bits).second;
}

Result<ChosenWidths> parseWidths(const std::string &text, const std::string &name) {
  std::istringstream stream(text);
  std::string line;
  if (!std::getline(stream, line) || line != kFirstLine)
    return invalidInput(name, " begins with '", line, "', expected '", kFirstLine, "'");
  ChosenWidths widths;
  for (size_t number = 2; std::getline(stream, line); ++number) {
    std::istringstream lineStream(line);
    std::vector<std::string> words;
    for (std::string word; lineStream >> word;)
      words.push_back(word);
    if (!takeLine(words, widths))
      return invalidInput(
          name, ":", number, ": '", line,
          "', expected 'nested', 'group INPUTS', 'expert LAYER EXPERT BITS [offsets]' or "
          "'weight NAME BITS', each once");
  }
  return widths;
}

Result<ChosenWidths> readWidthFile(const std::string &path) {
  std::ifstream file(path);
  std::stringstream content;
  if (!file || !(content << file.rdbuf()))
    return invalidInput(path, ": cannot be read");
  return parseWidths(content.str(), path);
}

} // namespace mlir::moe
