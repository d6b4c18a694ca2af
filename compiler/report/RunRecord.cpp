#include "compiler/report/RunRecord.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/Excerpt.h"
#include "runtime/base/InputText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace moert;
using Json = nlohmann::json;

namespace moec {

static uint64_t sumOf(const std::vector<LayerProfile> &layers, uint64_t LayerProfile::*field) {
  uint64_t sum = 0;
  for (const LayerProfile &layer : layers)
    sum += layer.*field;
  return sum;
}

uint64_t RecordedStep::computeNs() const {
  return sumOf(layers, &LayerProfile::computeNs);
}

uint64_t RecordedStep::waitNs() const {
  return sumOf(layers, &LayerProfile::waitNs);
}

uint64_t RecordedStep::bytesRead() const {
  return sumOf(layers, &LayerProfile::bytesRead);
}

LayerTotals PhaseTotals::sum() const {
  LayerTotals all;
  for (const LayerTotals &layer : layers)
    all += layer;
  return all;
}

namespace {

constexpr uint32_t kMostLayers = 1 << 16;

std::string foundText(const Json *value) {
  return value ? excerpt(value->dump()) : "nothing";
}

/// Reads an object's keys and remembers the first error, after which everything reads as zero.
class Fields {
public:
  Fields(const Json &jsonObject, std::string placeName) : object(jsonObject), place(placeName) {
    if (!object.is_object())
      fail("", &object, "an object");
  }

  const Status &status() const { return error; }

  uint64_t number(const char *key, uint64_t most = UINT64_MAX) {
    const Json *value = find(key);
    if (value && value->is_number_unsigned() && value->get<uint64_t>() <= most)
      return value->get<uint64_t>();
    fail(key, value,
         most == UINT64_MAX ? "a whole number" : strCat("a whole number of at most ", most));
    return 0;
  }

  std::string string(const char *key) {
    const Json *value = find(key);
    if (value && value->is_string())
      return value->get<std::string>();
    fail(key, value, "a text");
    return "";
  }

  bool has(const char *key) const { return object.is_object() && object.contains(key); }

  uint64_t checksum(const char *key) {
    const std::string word = string(key);
    const std::optional<uint64_t> sum = parseChecksum(word);
    if (error.isOk() && !sum)
      fail(key, find(key), "16 hexadecimal digits");
    return sum.value_or(0);
  }

  /// `count` numbers, each at most `most`.
  template <typename Number>
  void numbers(const char *key, uint64_t count, uint64_t most, std::vector<Number> &into) {
    const Json *value = find(key);
    numbersOf(key, value, count, most, into);
  }

  template <typename Number>
  void numbersOf(const char *key, const Json *value, uint64_t count, uint64_t most,
                 std::vector<Number> &into) {
    if (!value || !value->is_array() || value->size() != count)
      return fail(key, value, strCat("a list of ", count, " numbers"));
    into.reserve(count);
    for (const Json &each : *value) {
      if (!each.is_number_unsigned() || each.get<uint64_t>() > most)
        return fail(key, &each, strCat("whole numbers of at most ", most));
      into.push_back(static_cast<Number>(each.get<uint64_t>()));
    }
  }

  /// A list, whose elements the caller reads; empty after an error.
  const Json &list(const char *key, std::optional<uint64_t> count = std::nullopt) {
    static const Json kEmpty = Json::array();
    const Json *value = find(key);
    if (value && value->is_array() && (!count || value->size() == *count))
      return *value;
    fail(key, value, count ? strCat("a list of ", *count) : "a list");
    return kEmpty;
  }

  const Json &inner(const char *key) {
    static const Json kEmpty = Json::object();
    const Json *value = find(key);
    if (value && value->is_object())
      return *value;
    fail(key, value, "an object");
    return kEmpty;
  }

  /// The fields of a struct that describes them.
  template <Described T> void read(T &value) {
    T::describe(value, [&]<typename Field>(auto name, Field &field, const FieldRule &rule = {}) {
      const char *key = name.kName.data();
      if constexpr (requires { field.has_value(); }) {
        if (has(key))
          readField(key, field.emplace(), rule);
      } else if (!rule.isOptional || has(key)) {
        readField(key, field, rule);
      }
    });
  }

  template <typename T> void readField(const char *key, T &value, const FieldRule &rule) {
    if constexpr (std::is_same_v<T, std::string>) {
      value = string(key);
    } else if constexpr (std::is_integral_v<T>) {
      value = rule.form == FieldForm::kHash
                  ? static_cast<T>(checksum(key))
                  : static_cast<T>(number(key, std::numeric_limits<T>::max()));
    } else if constexpr (std::is_same_v<T, PartNumbers>) {
      parts(key, value);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      for (const Json &word : list(key)) {
        if (!word.is_string())
          return fail(key, &word, "a list of texts");
        value.push_back(word.get<std::string>());
      }
    } else {
      for (const Json &each : list(key)) {
        Fields fields(each, strCat(place, ": ", key));
        fields.read(value.emplace_back());
        take(fields.status());
      }
    }
  }

  void parts(const char *key, PartNumbers &values) {
    std::vector<uint64_t> all;
    numbers(key, values.size(), UINT64_MAX, all);
    std::copy(all.begin(), all.end(), values.begin());
  }

  void take(const Status &status) {
    if (error.isOk())
      error = status;
  }

  void fail(std::string_view key, const Json *value, const std::string &expected) {
    if (error.isOk())
      error = invalidInput(place, key.empty() ? "" : strCat(": key '", key, "'"), ": found ",
                           foundText(value), ", expected ", expected);
  }

private:
  const Json *find(const char *key) const {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && found != object.end() ? &*found : nullptr;
  }

  const Json &object;
  std::string place;
  Status error;
};

template <typename Entry, typename Field>
void readColumn(Fields &fields, const char *key, std::vector<Entry> &entries, Field Entry::*field) {
  std::vector<uint64_t> values;
  fields.numbers(key, entries.size(), std::numeric_limits<Field>::max(), values);
  for (size_t i = 0; i < values.size(); ++i)
    entries[i].*field = static_cast<Field>(values[i]);
}

/// Entries are LayerProfile or LayerTotals.
template <typename Entry> void readColumns(Fields &fields, std::vector<Entry> &entries) {
  forEachColumn([&](const char *name, auto ofStep, auto ofSum) {
    readColumn(fields, name, entries, fieldOf<Entry>(ofStep, ofSum));
  });
}

/// Absent in profiles of older programs.
void readReads(Fields &fields, StepReads &reads) {
  if (!fields.has("reads"))
    return;
  reads.reads = fields.number("reads");
  reads.busyNs = fields.number("reading_ns");
  reads.underWayNs = fields.number("under_way_ns");
}

/// Reads one profile; every member function continues after an error of an earlier one, which is
/// the one that is returned.
class Reader {
public:
  Reader(const Json &document, const std::string &path) : top(document, path) {
    record.path = path;
  }

  Result<RunRecord> read() {
    if (const uint64_t version = top.number("version"); top.status().isOk() && version != 1)
      return invalidInput(record.path, ": found a run profile of version ", version,
                          ", expected version 1");
    checkIsRecent();
    MOERT_RETURN_IF_ERROR(top.status());
    readFacts();
    MOERT_RETURN_IF_ERROR(top.status());
    readPhase("prefill", record.prefill);
    readPhase("decode", record.decode);
    readRoutes();
    MOERT_RETURN_IF_ERROR(top.status());
    readSteps();
    MOERT_RETURN_IF_ERROR(top.status());
    return std::move(record);
  }

private:
  void checkIsRecent() {
    for (const char *key : {"weights", "totals", "routes"})
      if (top.status().isOk() && !top.has(key))
        top.take(invalidInput(record.path, ": found no key '", key,
                              "', expected a profile of a current moert: run it again with "
                              "--profile"));
  }

  void readFacts() {
    top.read(record.facts);
    record.layers = static_cast<uint32_t>(top.number("layers", kMostLayers));
    record.keptEvery = top.number("kept_every");
    checkParts();
  }

  void checkParts() {
    const Json &names = top.list("parts", kPartNames.size());
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].is_string() || names[i].get<std::string>() != kPartNames[i])
        return top.fail("parts", &names[i], strCat("'", kPartNames[i], "'"));
  }

  void readPhase(const char *phase, PhaseTotals &totals) {
    const Json &all = top.inner("totals");
    const auto found = all.find(phase);
    if (found == all.end())
      return top.fail("totals", &all, strCat("the key '", phase, "'"));
    Fields fields(*found, strCat(record.path, ": totals of ", phase));
    totals.steps = fields.number("steps");
    totals.tokens = fields.number("tokens");
    totals.wallNs = fields.number("wall_ns");
    readReads(fields, totals.reads);
    fields.parts("part_ns", totals.partNs);
    totals.layers.resize(uint64_t(record.layers) + 1);
    readColumns(fields, totals.layers);
    top.take(fields.status());
  }

  void readRoutes() {
    Fields routes(top.inner("routes"), record.path + ": routes");
    record.routedTokens = routes.number("tokens");
    const Json &chosen = routes.list("chosen");
    for (const Json &layer : chosen) {
      std::vector<uint16_t> &experts = record.chosen.emplace_back();
      routes.numbersOf("chosen", &layer, layer.size(), UINT16_MAX, experts);
    }
    for (const Json &layer : routes.list("candidates", chosen.size()))
      readCandidates(layer, routes);
    top.take(routes.status());
  }

  void readCandidates(const Json &layer, Fields &routes) {
    Fields fields(layer, record.path + ": candidates");
    RecordedCandidates &made = record.candidates.emplace_back();
    made.perToken = static_cast<uint32_t>(fields.number("per_token", UINT16_MAX));
    if (fields.has("depths")) // Absent in profiles of older programs.
      made.depths = static_cast<uint32_t>(fields.number("depths", kMostAhead));
    if (made.depths == 0)
      fields.fail("depths", &layer["depths"], "at least 1");
    const uint64_t decoded =
        record.routedTokens - std::min(record.routedTokens, record.facts.promptTokens);
    // The product cannot wrap: a file has fewer tokens than bytes.
    const uint64_t count = decoded * made.perToken * made.depths;
    std::vector<uint32_t> experts, probabilities;
    fields.numbers("experts", count, UINT16_MAX, experts);
    fields.numbers("probabilities", count, kFixedPointOne, probabilities);
    for (size_t i = 0; i < std::min(experts.size(), probabilities.size()); ++i)
      made.candidates.push_back({experts[i], probabilities[i]});
    routes.take(fields.status());
  }

  void readSteps() {
    size_t number = 0;
    for (const Json &each : top.list("steps")) {
      Fields fields(each, strCat(record.path, ": step ", number++));
      RecordedStep &step = record.steps.emplace_back();
      const std::string phase = fields.string("phase");
      if (fields.status().isOk() && phase != "prefill" && phase != "decode")
        fields.fail("phase", &each["phase"], "'prefill' or 'decode'");
      step.step.phase = phase == "prefill" ? RunPhase::kPrefill : RunPhase::kDecode;
      step.step.firstToken = static_cast<uint32_t>(fields.number("first_token", UINT32_MAX));
      step.step.tokens = static_cast<uint32_t>(fields.number("tokens", UINT32_MAX));
      step.step.beginNs = fields.number("begin_ns");
      step.step.wallNs = fields.number("wall_ns");
      step.step.residentBytes = fields.number("resident_bytes");
      readReads(fields, step.step.reads);
      fields.parts("part_ns", step.step.partNs);
      step.layers.resize(uint64_t(record.layers) + 1);
      readColumns(fields, step.layers);
      top.take(fields.status());
      if (!top.status().isOk())
        return;
    }
  }

  Fields top;
  RunRecord record;
};

} // namespace

Result<RunRecord> readRunRecord(const std::string &path) {
  Result<std::string> read = readInput(path);
  if (!read.isOk())
    return Status(
        read.status().code(),
        strCat(read.status().message(), "; moert run OUT.moe ... --profile ", path, " writes one"));
  const std::string text = std::move(read).value();
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded() || !document.is_object())
    return invalidInput(path, ": found ", text.empty() ? "an empty file" : "no JSON object",
                        ", expected a run profile, as moert run --profile writes it");
  return Reader(document, path).read();
}

} // namespace moec
