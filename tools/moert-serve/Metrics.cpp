#include "tools/moert-serve/Metrics.h"

#include "runtime/base/JsonWriter.h"

namespace moert::serve {

namespace {

/// A family of samples: "# HELP", "# TYPE" and its values.
class Family {
public:
  Family(std::string &output, const char *familyName, const char *type, const char *help)
      : out(output), name(familyName) {
    out += strCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }

  void value(uint64_t value, const std::string &labels = "") const {
    out += strCat(name, labels, " ", value, "\n");
  }
  void seconds(uint64_t ns) const {
    out += strCat(name, " ");
    JsonWriter(out).number(static_cast<double>(ns) / 1e9);
    out += "\n";
  }

private:
  std::string &out;
  const char *name;
};

} // namespace

std::string metricsOf(const SchedulerNumbers &numbers, uint64_t refusals,
                      const ServingLimits &limits) {
  std::string out;
  auto gauge = [&](const char *name, uint64_t value, const char *help) {
    Family(out, name, "gauge", help).value(value);
  };
  auto counter = [&](const char *name, uint64_t value, const char *help) {
    Family(out, name, "counter", help).value(value);
  };
  gauge("moert_sequences_running", numbers.running, "Sequences that are computed.");
  gauge("moert_sequences_waiting", numbers.waiting, "Sequences that wait for room.");
  gauge("moert_kv_tokens_reserved", numbers.sessionTokens,
        "Tokens that the running sequences have reserved.");
  gauge("moert_kv_tokens_limit", limits.sessionTokens, "Tokens that there is memory for.");
  gauge("moert_memory_budget_bytes", numbers.budgetBytes, "Memory limit of the process.");
  const Family ends(out, "moert_sequences_total", "counter",
                    "Sequences by the reason of their end.");
  ends.value(numbers.stopped, "{end=\"stop\"}");
  ends.value(numbers.full, "{end=\"length\"}");
  ends.value(numbers.cancelled, "{end=\"cancelled\"}");
  ends.value(numbers.rejected, "{end=\"rejected\"}");
  ends.value(numbers.failed, "{end=\"failed\"}");
  counter("moert_refused_requests_total", refusals, "Requests that were refused after parsing.");
  counter("moert_prompt_tokens_total", numbers.promptTokens, "Prompt tokens computed.");
  counter("moert_cached_tokens_total", numbers.cachedTokens,
          "Prompt tokens taken from an earlier sequence.");
  counter("moert_generated_tokens_total", numbers.generatedTokens, "Tokens generated.");
  counter("moert_interrupted_sequences_total", numbers.interrupted,
          "Times that a sequence gave its room to an earlier one and was computed again.");
  counter("moert_steps_total", numbers.steps, "Steps, each for a batch of sequences.");
  Family(out, "moert_step_seconds_total", "counter", "Time in steps.").seconds(numbers.stepNs);
  counter("moert_expert_bytes_read_total", numbers.bytesRead, "Bytes of experts read.");
  counter("moert_expert_hits_total", numbers.hits, "Routed experts that were in memory.");
  counter("moert_expert_misses_total", numbers.misses, "Routed experts that were not in memory.");
  return out;
}

} // namespace moert::serve
