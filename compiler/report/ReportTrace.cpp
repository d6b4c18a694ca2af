// A run as trace events, which perfetto and chrome://tracing show: the JSON array format, with a
// span per step, in it a span per layer, in that computing and waiting.
//
// A profile has the clock of every step; within a step it has durations. Layers follow each other
// in it, so that a span's begin is the sum of those before it.
#include "compiler/report/MakeReport.h"
#include "runtime/base/JsonWriter.h"

#include <cstdio>

using namespace moert;

namespace moec {

namespace {

/// Microseconds with the nanoseconds as decimals: the format's unit.
std::string microseconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%llu.%03u", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned>(ns % 1000));
  return text;
}

/// Appends events of one process, whose threads are lanes; used by one thread.
class TraceEvents {
public:
  TraceEvents(std::string &output, uint32_t process) : out(output), pid(process) {}

  void name(const char *what, const std::string &words) {
    begin(what, "M", 0);
    std::string quoted;
    JsonWriter(quoted).string(words);
    out += strCat(",\"args\":{\"name\":", quoted, "}}");
  }
  void span(const std::string &words, uint64_t beginNs, uint64_t ns, const std::string &arguments) {
    begin(words, "X", beginNs);
    out += strCat(",\"dur\":", microseconds(ns), ",\"args\":{", arguments, "}}");
  }
  void counter(const char *words, uint64_t atNs, uint64_t value) {
    begin(words, "C", atNs);
    out += strCat(",\"args\":{\"value\":", value, "}}");
  }

private:
  /// The words need no escaping.
  void begin(const std::string &words, const char *phase, uint64_t ns) {
    out += strCat(out.back() == '[' ? "\n" : ",\n", "{\"name\":\"", words, "\",\"ph\":\"", phase,
                  "\",\"pid\":", pid, ",\"tid\":1,\"ts\":", microseconds(ns));
  }

  std::string &out;
  uint32_t pid;
};

} // namespace

static void addLayers(TraceEvents &events, const RecordedStep &step, uint32_t layers) {
  uint64_t at = step.step.beginNs;
  for (size_t l = 0; l < step.layers.size(); ++l) {
    const LayerProfile &layer = step.layers[l];
    const uint64_t ns = layer.computeNs + layer.waitNs;
    if (ns == 0)
      continue;
    events.span(l < layers ? strCat("layer ", l) : "embedding, head", at, ns,
                strCat("\"hits\":", layer.hits, ",\"misses\":", layer.misses,
                       ",\"prefetched\":", layer.useful, ",\"bytes_read\":", layer.bytesRead));
    if (layer.computeNs > 0)
      events.span("computing", at, layer.computeNs, "");
    if (layer.waitNs > 0)
      events.span("waiting for reads", at + layer.computeNs, layer.waitNs, "");
    at += ns;
  }
}

static void addRun(std::string &text, const RunRecord &run, uint32_t process,
                   const std::string &name) {
  TraceEvents events(text, process);
  events.name("process_name", name);
  events.name("thread_name", "steps");
  for (const RecordedStep &step : run.steps) {
    const bool isPrefill = step.step.phase == RunPhase::kPrefill;
    events.span(isPrefill ? strCat("prompt from token ", step.step.firstToken)
                          : strCat("token ", step.step.firstToken),
                step.step.beginNs, step.step.wallNs, strCat("\"tokens\":", step.step.tokens));
    addLayers(events, step, run.layers);
    if (step.step.residentBytes > 0)
      events.counter("memory of the process", step.step.beginNs + step.step.wallNs,
                     step.step.residentBytes);
    events.counter("bytes read in the step", step.step.beginNs, step.bytesRead());
  }
}

std::string reportTrace(const ReportInputs &inputs) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (uint32_t i = 0; i < inputs.runs.size(); ++i)
    addRun(text, inputs.runs[i], i + 1,
           strCat(inputs.runs[i].path, ": ", inputs.runs[i].facts.artifact));
  return text + "\n]}\n";
}

} // namespace moec
