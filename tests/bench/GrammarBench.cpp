// How long choosing a token of a format takes with a vocabulary of 150,000: by looking at the most
// likely tokens, and by masking all that are not allowed, in turn for the same rows.
//
//     grammar_bench [TOKENS]
//
// Rows are noise in which 64 tokens stand out, as in a model's: what it would rather write is
// mostly not allowed. Tokens with a quote are less likely, so that strings are long. Prints the
// median and the longest processor time of a token, and how often the likely tokens left it open.
#include "runtime/base/RandomStream.h"
#include "runtime/text/grammar/JsonSchema.h"
#include "runtime/text/grammar/TokenConstraint.h"
#include "runtime/text/sampling/Sampler.h"
#include "tests/unit/grammar/LargeVocabulary.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

using namespace moert;

namespace {

constexpr size_t kVocabulary = 150'000;
constexpr int32_t kEnd = 0;

std::vector<std::pair<std::string, std::string>> schemas() {
  std::string fields, names, alternatives, values;
  for (int i = 0; i < 500; ++i) {
    const std::string comma = i > 0 ? "," : "";
    if (i < 20) {
      fields +=
          strCat(comma, "\"field_", i, R"(": {"type": ")", i % 2 ? "string" : "integer", "\"}");
      names += strCat(comma, "\"field_", i, "\"");
    }
    if (i < 50)
      alternatives += strCat(comma, R"({"type": "object", "properties": {"kind": {"type": "string"},
          "name": {"type": "string"}, "value)",
                             i, R"(": {"type": "number"}}})");
    values += strCat(comma, "\"value ", i * 7919 % 1000, "\"");
  }
  return {{"any object", R"({"type": "object"})"},
          {"20 fields", R"({"type": "object", "additionalProperties": false, "properties": {)" +
                            fields + R"(}, "required": [)" + names + "]}"},
          {"string of 200", R"({"type": "string", "minLength": 150, "maxLength": 200})"},
          {"50 objects", R"({"anyOf": [)" + alternatives + "]}"},
          {"500 values", R"({"enum": [)" + values + "]}"},
          {"recursion", R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}},
              {"type": "object", "additionalProperties": {"$ref": "#"}}, {"type": "number"}]})"},
          {"64 strings", test::manyStrings(64)}};
}

std::vector<float> rowOf(const TokenTexts &texts, RandomStream &random) {
  std::vector<float> row(kVocabulary);
  for (float &logit : row)
    logit = static_cast<float>(4 * (random.nextUnit() + random.nextUnit()));
  for (int i = 0; i < 64; ++i) // Half of them short: characters and what JSON has.
    row[random.nextBelow(i % 2 ? 400 : kVocabulary)] += static_cast<float>(14 * random.nextUnit());
  for (size_t token = 0; token < kVocabulary; ++token)
    if (texts.textOf(static_cast<int32_t>(token)).find('"') != std::string_view::npos)
      row[token] -= 8;
  return row;
}

struct Times {
  std::vector<double> ms;
  double median() { return at(ms.size() / 2); }
  double most() { return at(ms.size() - 1); }
  double at(size_t index) {
    std::sort(ms.begin(), ms.end());
    return ms[index];
  }
};

double milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

template <class Act> int32_t timed(Times &times, const Act &act) {
  const double begin = milliseconds();
  const int32_t token = act();
  times.ms.push_back(milliseconds() - begin);
  return token;
}

} // namespace

int main(int count, char **arguments) {
  const int tokens = count > 1 ? std::atoi(arguments[1]) : 40;
  const TokenTexts texts(test::largeVocabulary(kVocabulary));
  constexpr uint64_t kAll = uint64_t(1) << 60;
  std::printf("%-14s %-12s %17s %17s %6s\n", "schema", "sampling", "few p50  max ms",
              "all p50  max ms", "open");
  for (const auto &[name, schema] : schemas())
    for (int way = 0; way < 4; ++way) {
      SamplingOptions options;
      options.temperature = way == 0 ? 0 : 0.8f;
      options.topK = way == 1 ? 20 : 0;
      options.topP = way == 1 || way == 2 ? 0.95f : 1;
      Result<SchemaGrammar> built = grammarOfSchema(nlohmann::ordered_json::parse(schema));
      if (!built.isOk()) {
        std::printf("%s: %s\n", name.c_str(), built.status().message().c_str());
        return 1;
      }
      // Shared by its two matchers.
      const auto grammar = std::make_shared<const Grammar>(std::move(built->grammar));
      TokenConstraint few(std::make_shared<GrammarMatcher>(grammar, texts), {kEnd});
      TokenConstraint all(std::make_shared<GrammarMatcher>(grammar, texts), {kEnd});
      Sampler sampler = Sampler::create(options, kVocabulary).value(), masking = sampler;
      RandomStream random(1);
      std::vector<float> scratch;
      Times fewTimes, allTimes;
      int open = 0;
      std::vector<int32_t> allowed;
      auto masked = [&](std::vector<float> row) {
        all.findAllowed(kAll);
        if (!all.listAllowed(allowed).isOk())
          std::abort();
        std::vector<bool> isAllowed(kVocabulary, false);
        for (int32_t token : allowed)
          isAllowed[static_cast<size_t>(token)] = true;
        for (size_t token = 0; token < kVocabulary; ++token)
          if (!isAllowed[token])
            row[token] = -std::numeric_limits<float>::infinity();
        return masking.sample(row).value();
      };
      for (int i = 0; i < tokens && !few.hasEnded(); ++i) {
        const std::vector<float> row = rowOf(texts, random);
        const int32_t token = timed(fewTimes, [&] {
          if (!few.isNarrow()) {
            const auto sampled = sampler.sampleAllowed(
                row, scratch, [&](int32_t one) { return std::optional(few.allows(one)); });
            if (sampled.value())
              return **sampled;
            ++open;
          }
          few.findAllowed(kAll);
          if (!few.listAllowed(allowed).isOk())
            std::abort();
          return sampler.sampleFrom(allowed, row, scratch).value();
        });
        timed(allTimes, [&] { return masked(row); });
        if (token == kEnd)
          break;
        few.take(token);
        all.take(token);
      }
      const char *const ways[] = {"greedy", "top-k top-p", "top-p", "plain"};
      std::printf("%-14s %-12s %7.3f %9.3f %7.2f %9.2f %3d/%zu\n", name.c_str(), ways[way],
                  fewTimes.median(), fewTimes.most(), allTimes.median(), allTimes.most(), open,
                  fewTimes.ms.size());
    }
  return 0;
}
