#include "runtime/text/tokenizer/TokenIds.h"

#include <charconv>

namespace moert {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

/// A word of a broken file can be as long as the file.
static std::string shortened(std::string_view word) {
  constexpr size_t kShownBytes = 24;
  return word.size() <= kShownBytes ? std::string(word)
                                    : std::string(word.substr(0, kShownBytes)) + "...";
}

Result<std::vector<int32_t>> parseTokenIds(std::string_view text, uint64_t vocabularySize,
                                           std::string_view what) {
  std::vector<int32_t> ids;
  while (true) {
    size_t begin = text.find_first_not_of(kWhiteSpace);
    if (begin == std::string_view::npos)
      return ids;
    text.remove_prefix(begin);
    std::string_view word = text.substr(0, text.find_first_of(kWhiteSpace));
    text.remove_prefix(word.size());
    int32_t id = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    bool isWhole = error == std::errc() && end == word.data() + word.size();
    if (!isWhole || id < 0 || static_cast<uint64_t>(id) >= vocabularySize)
      return invalidInput(what, ": '", shortened(word), "' (number ", ids.size() + 1,
                          ") is not a token id, expected whole numbers from 0 to ",
                          vocabularySize - 1, " separated by white space");
    ids.push_back(id);
  }
}

void appendTokenIds(std::span<const int32_t> ids, std::string &out) {
  char digits[12];
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0)
      out += ' ';
    std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, ids[i]);
    out.append(digits, end.ptr);
  }
}

} // namespace moert
