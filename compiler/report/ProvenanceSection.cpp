// Where a run and its artifact come from, how to repeat them, and how well the simulation fits.
#include "compiler/report/ReportSections.h"
#include "compiler/report/RunCommand.h"
#include "runtime/base/Checksum.h"

#include <algorithm>

using namespace moert;

namespace moec {

Section provenanceSection(const RunFindings &findings) {
  Section section{.id = "provenance", .title = "Provenance"};
  const RunSimulation &simulation = findings.simulation;
  const ReportInputs &inputs = simulation.inputs();
  const RunFacts &facts = simulation.run().facts;
  const auto add = [&](const char *id, const char *label, Value value, Unit unit, Source source) {
    section.facts.push_back(
        {strCat("provenance.", id), label, std::move(value), unit, std::move(source)});
  };
  const Source profile{Origin::kStated, "run profile"}, artifact{Origin::kStated, "artifact"};
  add("run", "run profile", simulation.run().path, Unit::kNone, profile);
  add("program", "program", facts.program, Unit::kNone, profile);
  add("artifact", "artifact", inputs.artifactPath, Unit::kNone, artifact);
  add("weights", "checksum of the weights", formatChecksum(facts.weightsChecksum), Unit::kNone,
      artifact);
  if (facts.promptChecksum)
    add("prompt", "XXH3-64 of the prompt", formatChecksum(*facts.promptChecksum), Unit::kNone,
        profile);
  add("plan", "plan", strCat(facts.plan, " by ", facts.preset), Unit::kNone, profile);
  add("io", "reads", facts.io, Unit::kNone, profile);
  add("isa", "kernels", facts.isa, Unit::kNone, profile);
  add("end", "the run ended by", facts.end, Unit::kNone, profile);
  add("prompt_tokens", "tokens of the prompt", facts.promptTokens, Unit::kCount, profile);
  add("generated_tokens", "generated tokens", facts.generatedTokens, Unit::kCount, profile);
  add("device", "device profile",
      inputs.device ? Value(inputs.device->name) : Value("none: give --device"), Unit::kNone,
      {Origin::kStated, "--device"});
  add("command",
      facts.options ? "To repeat the run"
                    : "To repeat the run, with its other options, which a profile of this older "
                      "program lacks",
      runCommand(simulation), Unit::kCommand, {Origin::kDerived, "run profile"});
  add("simulated_token_ns", "a token by the simulation", simulation.base().tokenNs, Unit::kNs,
      simulatedFor(simulation));
  add("measured_token_ns", "the same in the run", findings.diagnosis.tokenNs, Unit::kNs,
      measuredIn("totals.decode, wall_ns"));
  add("simulated_tokens", "decoded tokens in the simulation",
      uint64_t(simulation.routes().passes.size() / simulation.routes().layerExperts.size() -
               simulation.firstDecodeStep()),
      Unit::kCount, measuredIn("routes"));
  Table made{.id = "provenance.made_from",
             .title = "The artifact was made from",
             .columns = {{"key", "key"}, {"value", "value"}}};
  for (const auto &[key, value] : inputs.artifact.provenance)
    made.rows.push_back({key, value});
  section.tables.push_back(std::move(made));
  return section;
}

} // namespace moec
