#include "compiler/inspection/TextTable.h"

#include <algorithm>

namespace moec {

constexpr size_t kGap = 2; // Between columns.
/// Text is broken to lines of at least so many characters before a column goes to another block.
constexpr size_t kLeastText = 24;

std::vector<std::string> linesOf(const std::string &text, size_t width) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    at = space + 1;
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::string paragraph(const std::string &text, const std::string &indent, size_t width) {
  std::string out;
  for (const std::string &line : linesOf(text, width - std::min(width, indent.size())))
    out += indent + line + "\n";
  return out;
}

static size_t longestWord(const std::string &text) {
  size_t longest = 0;
  for (const std::string &word : linesOf(text, 1))
    longest = std::max(longest, word.size());
  return longest;
}

namespace {

/// A column of a block: `least` characters are needed, `width` are given.
struct Fitted {
  size_t index = 0, least = 0, natural = 0, width = 0;
};

size_t widthOf(const std::vector<Fitted> &block) {
  size_t width = kGap * (block.size() - 1);
  for (const Fitted &each : block)
    width += each.least;
  return width;
}

/// Gives each column what it needs, those that need little at first.
void divide(std::vector<Fitted> &block, size_t width) {
  size_t rest = width - std::min(width, widthOf(block));
  std::vector<Fitted *> columns;
  for (Fitted &each : block)
    columns.push_back(&each);
  std::ranges::stable_sort(columns, {}, [](const Fitted *each) { return each->natural; });
  for (Fitted *each : columns) {
    each->width = std::min(each->natural, each->least + rest);
    rest -= each->width - each->least;
  }
}

void appendLines(std::string &text, const std::string &indent,
                 const std::vector<std::string> &cells, const std::vector<Fitted> &block,
                 const std::vector<TextTable::Column> &columns) {
  std::vector<std::vector<std::string>> lines;
  size_t height = 1;
  for (const Fitted &each : block) {
    lines.push_back(each.width < cells[each.index].size()
                        ? linesOf(cells[each.index], each.width)
                        : std::vector<std::string>{cells[each.index]});
    height = std::max(height, lines.back().size());
  }
  for (size_t row = 0; row < height; ++row) {
    std::string line = indent;
    for (size_t i = 0; i < block.size(); ++i) {
      const std::string cell = row < lines[i].size() ? lines[i][row] : "";
      const std::string padding(block[i].width - std::min(block[i].width, cell.size()), ' ');
      line += std::string(i == 0 ? 0 : kGap, ' ');
      line += columns[block[i].index].align == TextTable::Align::kLeft ? cell + padding
                                                                       : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
}

} // namespace

std::string TextTable::text(const std::string &indent, size_t width) const {
  std::vector<std::string> headings;
  std::vector<Fitted> fitted;
  for (const Column &column : columns) {
    headings.push_back(column.heading);
    Fitted of{fitted.size(), longestWord(column.heading), column.heading.size()};
    for (const std::vector<std::string> &row : rows) {
      const std::string &cell = row[of.index];
      const bool isText = column.align == Align::kLeft;
      of.natural = std::max(of.natural, cell.size());
      of.least =
          std::max(of.least, isText ? std::max(longestWord(cell), std::min(cell.size(), kLeastText))
                                    : cell.size());
    }
    fitted.push_back(of);
  }
  const size_t room = width - std::min(width, indent.size());
  const bool hasHeading = std::ranges::any_of(headings, [](const auto &h) { return !h.empty(); });
  std::string text;
  for (size_t next = 0; next < fitted.size();) {
    std::vector<Fitted> block;
    if (next > 0) {
      block.push_back(fitted.front());
      text += "\n";
    }
    do
      block.push_back(fitted[next++]);
    while (next < fitted.size() && widthOf(block) + kGap + fitted[next].least <= room);
    divide(block, room);
    if (hasHeading)
      appendLines(text, indent, headings, block, columns);
    for (const std::vector<std::string> &row : rows)
      appendLines(text, indent, row, block, columns);
  }
  return text;
}

} // namespace moec
