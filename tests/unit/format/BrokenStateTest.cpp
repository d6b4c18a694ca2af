// The rules about states and the instructions around them broken one at a time, as in
// BrokenArtifactTest.cpp.
#include "runtime/format/Writer.h"
#include "tests/unit/format/BrokenCases.h"

#include <doctest/doctest.h>

using namespace moert;

using B = TinyBuffers;

namespace {

/// Resident weights that the tiny artifact has not.
constexpr int32_t kTaps = 10, kTwoRows = 11, kTwoNumbers = 12, kRates = 13, kSkips = 14;

int32_t addRow(Program &program, uint32_t width) {
  const uint64_t bytes = bufferBytesPerRow(BufferKind::kF32, width, 0);
  program.buffers.push_back({BufferKind::kF32, width, 0, program.arenaBytesPerToken, bytes});
  program.arenaBytesPerToken += bytes;
  return int32_t(program.buffers.size()) - 1;
}

/// Before the first store: the queries are convolved and become the values of a delta rule of 2
/// heads, whose one key head is the attention's; its result gates the queries. A state space of the
/// same heads and a selective scan read the result too.
void addStates(Program &program) {
  const int32_t decay = addRow(program, 2), write = addRow(program, 2), read = addRow(program, 32),
                space = addRow(program, 32), scan = addRow(program, 32);
  const Instruction steps[] = {
      ConvolveInstruction{B::kQuery, B::kQuery, kTaps, 0, true},
      UnitNormInstruction{B::kKey, 1e-6f, 16},
      LinearInstruction{B::kNormed, decay, kTwoRows, kNone},
      LinearInstruction{B::kNormed, write, kTwoRows, kNone},
      DecayInstruction{{decay, decay, kTwoNumbers, kTwoNumbers}},
      DeltaRuleInstruction{B::kKey, B::kKey, B::kQuery, decay, write, read, 1, 1, 2, 0.25f},
      ApplyInstruction{write, write, RowFunction::kSoftplus, kNone, kTwoNumbers},
      StateSpaceInstruction{
          {B::kKey, B::kKey, read, write, space, kTwoNumbers, kTwoNumbers, 2}, 1, 2},
      SelectiveScanInstruction{{B::kKey, B::kKey, read, space, scan, kRates, kSkips, 3}},
      GateInstruction{B::kQuery, read, B::kQuery, GateKind::kSigmoid},
  };
  ptrdiff_t at = 0;
  while (!std::holds_alternative<StoreKvInstruction>(program.instructions[size_t(at)]))
    ++at;
  program.instructions.insert(program.instructions.begin() + at, std::begin(steps),
                              std::end(steps));
  program.layers.insert(program.layers.begin() + at, std::size(steps), 1);
}

Artifact artifactWithStates() {
  Artifact artifact = tinyArtifact();
  artifact.residents.push_back({"taps", {32, 4}, {WeightKind::kF32}});
  artifact.residents.push_back({"two rows", {2, 32}, {WeightKind::kF32}});
  artifact.residents.push_back({"two numbers", {1, 2}, {WeightKind::kF32}});
  artifact.residents.push_back({"rates", {32, 16}, {WeightKind::kF32}});
  artifact.residents.push_back({"skips", {1, 32}, {WeightKind::kF32}});
  artifact.stateSlots = {{3, 32}, {32, 16}, {32, 16}, {16, 32}};
  for (Program &program : artifact.programs)
    addStates(program);
  REQUIRE(layOutArtifact(artifact, {kTinyTokenizerBytes}).isOk());
  return artifact;
}

template <typename T> T &ofDecode(Artifact &artifact) {
  return firstOf<T>(artifact.programs[0]);
}

} // namespace

TEST_CASE("states and the instructions around them survive a round trip") {
  Artifact artifact = artifactWithStates();
  CHECK_MESSAGE(readBack(artifact).isOk(), readBack(artifact).message());
}

TEST_CASE("states that are not updated once are refused") {
  checkAllRefused(
      {{"a state that is not there", [](Artifact &a) { ofDecode<ConvolveInstruction>(a).slot = 4; },
        "(convolve): state slot 4, there are 4"},
       {"a state beyond all",
        [](Artifact &a) { ofDecode<DeltaRuleInstruction>(a).slot = 0xffffffff; },
        "(delta_rule): state slot 4294967295, there are 4"},
       {"a state updated twice",
        [](Artifact &a) {
          Program &program = a.programs[0];
          for (size_t i = 0; i < program.instructions.size(); ++i)
            if (std::holds_alternative<ConvolveInstruction>(program.instructions[i])) {
              const Instruction again = program.instructions[i];
              program.instructions.insert(program.instructions.begin() + ptrdiff_t(i), again);
              program.layers.insert(program.layers.begin() + ptrdiff_t(i), 1);
              return;
            }
        },
        "(convolve): state slot 0 is updated twice"},
       {"a state that is never updated",
        [](Artifact &a) {
          a.stateSlots.push_back({1, 1});
        },
        "program decode: state slot 4 is never updated"},
       {"a state that one program does not update",
        [](Artifact &a) {
          Program &program = a.programs[1];
          for (size_t i = program.instructions.size(); i-- > 0;)
            if (std::holds_alternative<ConvolveInstruction>(program.instructions[i])) {
              program.instructions.erase(program.instructions.begin() + ptrdiff_t(i));
              program.layers.erase(program.layers.begin() + ptrdiff_t(i));
            }
        },
        "program prefill: state slot 0 is never updated"}},
      artifactWithStates());
}

TEST_CASE("convolutions that do not fit are refused") {
  checkAllRefused(
      {{"a state with fewer rows", [](Artifact &a) { a.stateSlots[0].rows = 2; },
        "(convolve): the state slot is 2 x 32, expected 3 x 32"},
       {"a state of another width", [](Artifact &a) { a.stateSlots[0].width = 16; },
        "(convolve): the state slot is 3 x 16, expected 3 x 32"},
       {"taps that are quantized",
        [](Artifact &a) { ofDecode<ConvolveInstruction>(a).weight = TinyWeights::kQuery; },
        "(convolve): the weight is int8, expected f32"},
       {"taps of a few elements",
        [](Artifact &a) { ofDecode<ConvolveInstruction>(a).weight = kTwoRows; },
        "(convolve): the weight is 2 x 32, expected at least 16 elements with at least 2 taps"},
       {"a row of another width",
        [](Artifact &a) { ofDecode<ConvolveInstruction>(a).src = B::kValue; },
        "(convolve): src has width 16, expected 32"}},
      artifactWithStates());
}

TEST_CASE("delta rules that do not fit are refused") {
  checkAllRefused(
      {{"no key heads", [](Artifact &a) { ofDecode<DeltaRuleInstruction>(a).keyHeads = 0; },
        "(delta_rule): 2 heads over 0 key heads, expected a multiple"},
       {"no heads", [](Artifact &a) { ofDecode<DeltaRuleInstruction>(a).heads = 0; },
        "0 heads over 1 key heads"},
       {"key heads that heads do not share",
        [](Artifact &a) { ofDecode<DeltaRuleInstruction>(a).heads = 3; },
        "keys of 16 and values of 32 elements for 1 and 3 heads, expected multiples"},
       {"a state of other heads",
        [](Artifact &a) {
          a.stateSlots[1] = {16, 16};
        },
        "(delta_rule): the state slot is 16 x 16, expected 32 x 16"},
       {"decays for other heads",
        [](Artifact &a) { ofDecode<DeltaRuleInstruction>(a).decay = B::kScores; },
        "(delta_rule): decay has width 4, expected 2"},
       {"a query of another width",
        [](Artifact &a) { ofDecode<DeltaRuleInstruction>(a).query = B::kQuery; },
        "(delta_rule): query has width 32, expected 16"},
       {"a result onto its values",
        [](Artifact &a) { ofDecode<DeltaRuleInstruction>(a).dst = B::kQuery; },
        "(delta_rule): value and dst share bytes"}},
      artifactWithStates());
}

TEST_CASE("state spaces and selective scans that do not fit are refused") {
  checkAllRefused(
      {{"no heads", [](Artifact &a) { ofDecode<StateSpaceInstruction>(a).heads = 0; },
        "(state_space): 0 heads over 1 key heads"},
       {"a state of other heads",
        [](Artifact &a) {
          a.stateSlots[2] = {16, 16};
        },
        "(state_space): the state slot is 16 x 16, expected 32 x 16"},
       {"a state that the delta rule has updated",
        [](Artifact &a) { ofDecode<StateSpaceInstruction>(a).slot = 1; },
        "(state_space): state slot 1 is updated twice"},
       {"rates of other heads",
        [](Artifact &a) { ofDecode<StateSpaceInstruction>(a).logRate = kSkips; },
        "(state_space): logRate is a 1 x 32 matrix of f32, expected 1 x 2"},
       {"steps of other heads",
        [](Artifact &a) { ofDecode<StateSpaceInstruction>(a).step = B::kScores; },
        "(state_space): step has width 4, expected 2"},
       {"rates that are quantized",
        [](Artifact &a) { ofDecode<SelectiveScanInstruction>(a).logRate = TinyWeights::kQuery; },
        "(selective_scan): the rates are int8, expected f32"},
       {"rates of a few elements",
        [](Artifact &a) { ofDecode<SelectiveScanInstruction>(a).logRate = kTwoRows; },
        "(selective_scan): rates of 2 elements, expected at least 16"},
       {"a state of another width",
        [](Artifact &a) {
          a.stateSlots[3] = {16, 16};
        },
        "(selective_scan): the state slot is 16 x 16, expected 16 x 32"},
       {"a value of another width",
        [](Artifact &a) { ofDecode<SelectiveScanInstruction>(a).value = B::kKey; },
        "(selective_scan): value has width 16, expected 32"},
       {"a bias of another width", [](Artifact &a) { ofDecode<ApplyInstruction>(a).bias = kSkips; },
        "(apply): bias is a 1 x 32 matrix of f32, expected 1 x 2"},
       {"an unknown function",
        [](Artifact &a) { ofDecode<ApplyInstruction>(a).function = RowFunction(8); },
        "unknown function 8"}},
      artifactWithStates());
}

TEST_CASE("norms, decays and gates that do not fit are refused") {
  checkAllRefused(
      {{"a segment that does not divide the row",
        [](Artifact &a) { ofDecode<UnitNormInstruction>(a).segment = 5; },
        "(unit_norm): segment 5, expected a divisor of the width 16"},
       {"an empty segment", [](Artifact &a) { ofDecode<UnitNormInstruction>(a).segment = 0; },
        "(unit_norm): segment 0"},
       {"a negative epsilon", [](Artifact &a) { ofDecode<UnitNormInstruction>(a).epsilon = -1; },
        "(unit_norm): epsilon is -1"},
       {"rates of another width",
        [](Artifact &a) { ofDecode<DecayInstruction>(a).logRate = TinyWeights::kHeadNorm; },
        "(decay): 16 rates, expected a divisor of the width 2"},
       {"a bias of another width",
        [](Artifact &a) { ofDecode<DecayInstruction>(a).bias = TinyWeights::kHeadNorm; },
        "(decay): bias is a 1 x 16 matrix of f32, expected 1 x 2"},
       {"a decay without a bound",
        [](Artifact &a) {
          const auto old = ofDecode<DecayInstruction>(a);
          for (Instruction &instruction : a.programs[0].instructions)
            if (std::holds_alternative<DecayInstruction>(instruction))
              instruction = BoundedDecayInstruction{old, 0};
        },
        "(bounded_decay): bound is 0, expected less than 0"},
       {"a gate of another width", [](Artifact &a) { ofDecode<GateInstruction>(a).gate = B::kKey; },
        "(gate): gate has width 16, expected 32"},
       {"an unknown gate", [](Artifact &a) { ofDecode<GateInstruction>(a).kind = GateKind(2); },
        "unknown kind 2"}},
      artifactWithStates());
}
