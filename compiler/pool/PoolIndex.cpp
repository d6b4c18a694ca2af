#include "compiler/pool/PoolIndex.h"

#include "runtime/base/Checksum.h"

#include <bit>
#include <fstream>
#include <optional>
#include <sstream>

using namespace moert;

namespace moec {

std::string poolIndexHeader(uint64_t fingerprint) {
  return strCat("moec-pool 1 ", formatChecksum(fingerprint), "\n");
}

static std::string formatDouble(double value) {
  return formatChecksum(std::bit_cast<uint64_t>(value));
}

std::string poolIndexLine(size_t expert, const PooledExpert &pooled) {
  std::string line = strCat("expert ", expert, " ", formatDouble(pooled.squaredNorm));
  for (const PooledGrid &grid : pooled.grids) {
    line += strCat(" ", formatDouble(grid.squaredError));
    for (uint64_t checksum : grid.sliceChecksums)
      line += strCat(" ", formatChecksum(checksum));
  }
  line += "\n";
  return line;
}

namespace {

/// Splits a line into words.
class Words {
public:
  explicit Words(const std::string &line) : stream(line) {}

  bool is(const std::string &expected) {
    std::string word;
    return (stream >> word) && word == expected;
  }
  std::optional<uint64_t> hex() {
    std::string word;
    return stream >> word ? parseChecksum(word) : std::nullopt;
  }
  bool isAtEnd() {
    std::string word;
    return !(stream >> word);
  }

private:
  std::istringstream stream;
};

} // namespace

static std::optional<PooledExpert> parseLine(const std::string &line, size_t expert,
                                             const std::vector<size_t> &slices) {
  Words words(line);
  if (!words.is("expert") || !words.is(std::to_string(expert)))
    return std::nullopt;
  PooledExpert pooled;
  std::optional<uint64_t> norm = words.hex();
  if (!norm)
    return std::nullopt;
  pooled.squaredNorm = std::bit_cast<double>(*norm);
  for (size_t count : slices) {
    PooledGrid &grid = pooled.grids.emplace_back();
    std::optional<uint64_t> error = words.hex();
    if (!error)
      return std::nullopt;
    grid.squaredError = std::bit_cast<double>(*error);
    for (size_t s = 0; s < count; ++s) {
      std::optional<uint64_t> checksum = words.hex();
      if (!checksum)
        return std::nullopt;
      grid.sliceChecksums.push_back(*checksum);
    }
  }
  if (!words.isAtEnd())
    return std::nullopt;
  return pooled;
}

std::vector<PooledExpert> readPoolIndex(const std::string &path, uint64_t fingerprint,
                                        const std::vector<size_t> &slices) {
  std::vector<PooledExpert> experts;
  std::ifstream file(path);
  std::string line;
  auto takeLine = [&] { return std::getline(file, line) && !file.eof(); };
  if (!takeLine() || strCat(line, "\n") != poolIndexHeader(fingerprint))
    return experts;
  while (takeLine()) {
    std::optional<PooledExpert> expert = parseLine(line, experts.size(), slices);
    if (!expert)
      break;
    experts.push_back(std::move(*expert));
  }
  return experts;
}

} // namespace moec
