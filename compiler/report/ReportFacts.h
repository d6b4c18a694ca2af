// A report as one structure of facts: numbers with their units and origins, tables, and pictures of
// tables. It is computed once (MakeReport.h); the writers of text, JSON, HTML and traces print it
// and compute nothing.
#pragma once

#include "runtime/base/Origin.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace moec {

using moert::Origin;

/// How a number is printed, and its unit in JSON.
enum class Unit : uint8_t {
  kNone,
  kCount,
  kFraction, // 0 to 1; printed in percent.
  kBytes,
  kNs, // Printed in ms.
  kTokensPerSecond,
  kBytesPerSecond,
  kBits,
  kNats,
  kRatio,   // Printed as "1.25 x".
  kCommand, // A text: a command line for a shell.
};

/// The unit's name in JSON: "bytes", "ns", "1" for fractions; empty for texts.
std::string_view unitName(Unit unit);

/// A number, a text, or nothing, where a number does not exist.
class Value {
public:
  Value() = default;
  Value(double number) : content(number) {}
  Value(uint64_t number) : content(static_cast<double>(number)) {}
  Value(uint32_t number) : content(static_cast<double>(number)) {}
  Value(std::string text) : content(std::move(text)) {}
  Value(const char *text) : content(std::string(text)) {}

  bool isNumber() const { return std::holds_alternative<double>(content); }
  bool isText() const { return std::holds_alternative<std::string>(content); }
  double number() const { return std::get<double>(content); }
  const std::string &text() const { return std::get<std::string>(content); }
  friend bool operator==(const Value &, const Value &) = default;

private:
  std::variant<std::monostate, double, std::string> content;
};

/// As the text and the page print it: "12.5 MiB", "62.0%", "-" for nothing.
std::string shownText(const Value &value, Unit unit);

/// How much faster something is, by its speed relative to what it is compared with: "12.6% faster",
/// "3.2 times as fast", "5.0% slower".
std::string fasterText(double ratio);
/// From this ratio on, percentages are hard to read.
constexpr double kManyTimes = 1.995;

/// Where a number comes from: its least reliable input, and how it was made.
struct Source {
  Origin origin = Origin::kDerived;
  std::string from; // "run profile, wall_ns of decode steps"
};

struct Fact {
  std::string id; // Unique in the report: "verdict.tokens_per_second".
  std::string label;
  Value value;
  Unit unit = Unit::kNone;
  Source source;
};

struct Column {
  std::string id, label;
  Unit unit = Unit::kNone;
  Source source = {};
};

/// Rows have a value per column.
struct Table {
  std::string id, title;
  std::vector<Column> columns;
  std::vector<std::vector<Value>> rows = {};
  std::string note = {}; // What was left out, for example; may be empty.
  bool isDetail = false; // Too long for the terminal: only JSON and the page have its rows.
};

/// A table drawn by a specification (compiler/report/pictures).
struct Picture {
  std::string id, title, description;
  std::string specification; // A name: "lines".
  std::string table;         // The id of a table of the same section.
  std::string x, y;          // Columns; the specification defines their use.
  std::string series = {};   // A column, or empty.
  std::string limit = {};    // A fact of the same section that the y axis has a line for, or empty.
  bool isLogarithmic = false; // The x axis of "lines".
};

struct Section {
  std::string id, title;
  std::vector<std::string> sentences = {};
  std::vector<Fact> facts = {};
  std::vector<Table> tables = {};
  std::vector<Picture> pictures = {};
};

struct Report {
  std::string title;
  std::vector<Section> sections;
};

/// Null: there is none.
const Fact *findFact(const Report &report, std::string_view id);
const Table *findTable(const Section &section, std::string_view id);

} // namespace moec
