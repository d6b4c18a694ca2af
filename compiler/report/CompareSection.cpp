// Two runs side by side: their numbers, and how their tokens' times are distributed.
#include "compiler/report/ReportSections.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace moert;

namespace moec {

/// Facts of the two runs that are compared; others are settings and names.
static constexpr std::string_view kCompared[] = {"verdict.tokens_per_second",
                                                 "verdict.token_ns",
                                                 "verdict.wait_fraction",
                                                 "verdict.bytes_per_token",
                                                 "verdict.belady_bytes_per_token",
                                                 "cache.hit_rate",
                                                 "prefetch.recall",
                                                 "prefetch.precision",
                                                 "time.median_ns",
                                                 "time.slow_ns",
                                                 "time.prompt_tokens_per_second",
                                                 "time.peak_bytes",
                                                 "time.budget_bytes",
                                                 "time.threads",
                                                 "change.disk_rate",
                                                 "experts.drift"};

static const Fact *findIn(const std::vector<Section> &sections, std::string_view id) {
  for (const Section &section : sections)
    for (const Fact &fact : section.facts)
      if (fact.id == id)
        return &fact;
  return nullptr;
}

static double numberOf(const std::vector<Section> &sections, std::string_view id) {
  const Fact *fact = findIn(sections, id);
  return fact && fact->value.isNumber() ? fact->value.number() : 0;
}

/// Rows have texts in their units, as the numbers of one column have different ones.
static Table figuresTable(const std::vector<Section> &a, const std::vector<Section> &b) {
  const Source ratio{Origin::kDerived, "the two values beside it"};
  Table table{
      .id = "compare.figures",
      .title = "Figures",
      .columns = {
          {"figure", "figure"}, {"a", "A"}, {"b", "B"}, {"ratio", "B / A", Unit::kRatio, ratio}}};
  for (std::string_view id : kCompared) {
    const Fact *one = findIn(a, id), *other = findIn(b, id);
    if (!one || !other)
      continue;
    const bool hasRatio =
        one->value.isNumber() && other->value.isNumber() && one->value.number() != 0;
    table.rows.push_back({one->label, shownText(one->value, one->unit),
                          shownText(other->value, other->unit),
                          hasRatio ? Value(other->value.number() / one->value.number()) : Value()});
  }
  return table;
}

/// Times of tokens by rank: the same fraction of the tokens of each run.
static Table quantilesTable(const RunRecord &a, const RunRecord &b) {
  const Source source = measuredIn("steps, wall_ns");
  Table table{.id = "compare.quantiles",
              .title = "Times of tokens, the fastest first",
              .columns = {{"fraction", "of the tokens take at most", Unit::kFraction, source},
                          {"ns", "time", Unit::kNs, source},
                          {"run", "run"}},
              .isDetail = true};
  const auto add = [&](const RunRecord &run, const char *name) {
    std::vector<uint64_t> times;
    for (const RecordedStep &step : run.steps)
      if (step.step.phase == RunPhase::kDecode)
        times.push_back(step.step.wallNs);
    std::ranges::sort(times);
    constexpr size_t kPoints = 50;
    for (size_t i = 0; i <= kPoints; ++i)
      table.rows.push_back({double(i) / kPoints, times[(times.size() - 1) * i / kPoints], name});
  };
  add(a, "A");
  add(b, "B");
  return table;
}

/// Waiting and each part of computing beside each other.
static Table partsTable(const std::vector<Section> &a, const std::vector<Section> &b) {
  const Table &one = *findTable(a.front(), "verdict.parts"),
              &other = *findTable(b.front(), "verdict.parts");
  const Source source = one.columns[1].source;
  Table table{.id = "compare.parts",
              .title = "A decoded token's time",
              .columns = {{"part", "part"},
                          {"a_ns", "A", Unit::kNs, source},
                          {"b_ns", "B", Unit::kNs, source},
                          {"difference_ns", "B - A", Unit::kNs, source}}};
  for (const std::vector<Value> &row : one.rows) {
    const auto same = std::ranges::find_if(other.rows, [&](const std::vector<Value> &candidate) {
      return candidate[0].text() == row[0].text();
    });
    const double of = same == other.rows.end() ? 0 : (*same)[1].number();
    table.rows.push_back({row[0], row[1], of, of - row[1].number()});
  }
  return table;
}

/// What A's report predicts for the memory that B had; absent where no budget is near it.
static std::optional<double> predictedFor(const std::vector<Section> &a, double memoryBytes) {
  constexpr double kNear = 0.02;
  std::optional<double> predicted;
  double least = kNear * memoryBytes;
  for (const Section &section : a)
    if (const Table *budgets = findTable(section, "change.budgets"))
      for (const std::vector<Value> &row : budgets->rows) {
        const double distance = std::abs(row[0].number() - memoryBytes);
        if (distance <= least && row[1].text().find("this run") == std::string::npos) {
          least = distance;
          predicted = row[3].number();
        }
      }
  return predicted;
}

/// Whether more memory gave what A's report promises; empty where that is not what differs.
static std::string promiseText(const RunRecord &runA, const std::vector<Section> &a,
                               const RunRecord &runB, double speedB) {
  const bool isSame = runA.facts.threads == runB.facts.threads;
  const std::optional<double> predicted =
      isSame ? predictedFor(a, double(runB.facts.accountedBytes)) : std::nullopt;
  if (!predicted)
    return "";
  return strCat("A's report predicts ", shownText(*predicted, Unit::kTokensPerSecond),
                " for the memory that B had, where B made ",
                shownText(speedB, Unit::kTokensPerSecond), ".");
}

/// The part of computing that grew or shrank against the difference in speed.
static std::string opposedText(const Table &parts, double differenceNs) {
  const std::vector<Value> *most = nullptr;
  for (const std::vector<Value> &row : parts.rows)
    if (row[3].number() * differenceNs < 0 &&
        (!most || std::abs(row[3].number()) > std::abs((*most)[3].number())))
      most = &row;
  constexpr double kWorthSaying = 0.05; // As a fraction of the tokens' difference.
  if (!most || std::abs((*most)[3].number()) < kWorthSaying * std::abs(differenceNs))
    return "";
  return strCat("; against it went ", (*most)[0].text(), ", ", shownText((*most)[1], Unit::kNs),
                " against ", shownText((*most)[2], Unit::kNs));
}

Section compareSection(const RunRecord &runA, const std::vector<Section> &a, const RunRecord &runB,
                       const std::vector<Section> &b) {
  Section section{.id = "compare", .title = "A and B"};
  const double speedA = numberOf(a, "verdict.tokens_per_second"),
               speedB = numberOf(b, "verdict.tokens_per_second");
  const Table parts = partsTable(a, b);
  const auto largest = std::ranges::max_element(
      parts.rows, {}, [](const std::vector<Value> &row) { return std::abs(row[3].number()); });
  section.sentences.push_back(strCat(
      "B is ", fasterText(speedB / speedA), speedB / speedA < kManyTimes ? " than A: " : " as A: ",
      shownText(speedB, Unit::kTokensPerSecond), " against ",
      shownText(speedA, Unit::kTokensPerSecond), "; the largest difference is in ",
      (*largest)[0].text(), ", ", shownText((*largest)[1], Unit::kNs), " against ",
      shownText((*largest)[2], Unit::kNs), " per token",
      opposedText(parts, numberOf(b, "verdict.token_ns") - numberOf(a, "verdict.token_ns")), "."));
  if (std::string promise = promiseText(runA, a, runB, speedB); !promise.empty())
    section.sentences.push_back(std::move(promise));
  const double promptA = numberOf(a, "time.prompt_tokens_per_second"),
               promptB = numberOf(b, "time.prompt_tokens_per_second");
  if (promptA > 0 && promptB > 0)
    section.sentences.push_back(strCat("B's prompt is ", fasterText(promptB / promptA),
                                       promptB / promptA < kManyTimes ? " than A's: " : " as A's: ",
                                       shownText(promptB, Unit::kTokensPerSecond), " against ",
                                       shownText(promptA, Unit::kTokensPerSecond), "."));
  section.sentences.push_back(strCat("A is ", runA.path, ", B is ", runB.path, "."));
  section.tables = {figuresTable(a, b), parts, quantilesTable(runA, runB)};
  section.pictures.push_back({.id = "compare.quantiles.picture",
                              .title = "Times of tokens, the fastest first",
                              .description = "A line per run over the fraction of its tokens.",
                              .specification = "lines",
                              .table = "compare.quantiles",
                              .x = "fraction",
                              .y = "ns",
                              .series = "run"});
  return section;
}

void addPrefix(std::vector<Section> &sections, const std::string &prefix,
               const std::string &title) {
  for (Section &section : sections) {
    section.id = prefix + section.id;
    section.title = title + section.title;
    for (Fact &fact : section.facts)
      fact.id = prefix + fact.id;
    for (Table &table : section.tables)
      table.id = prefix + table.id;
    for (Picture &picture : section.pictures) {
      picture.id = prefix + picture.id;
      picture.table = prefix + picture.table;
      if (!picture.limit.empty())
        picture.limit = prefix + picture.limit;
    }
  }
}

} // namespace moec
