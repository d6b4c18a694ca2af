// The rules about one program as a whole: its buffers lie in the arena, every instruction's
// operands are as it needs them (ProgramCheck.h), and instructions that depend on one another are
// in order.
#include "runtime/format/Validate.h"

#include "runtime/format/ProgramCheck.h"
#include "runtime/format/ValidateRules.h"
#include "runtime/policy/Prefetches.h"

#include <optional>

namespace moert {

namespace {

/// Walks through one program. Borrows both arguments; lives for one call of validateProgram().
class OrderCheck {
public:
  OrderCheck(const Artifact &whole, const Program &checked)
      : artifact(whole), program(checked), check(whole, checked),
        encodes(checked.name == programs::kEncode), isSlotStored(whole.kvSlots.size()),
        isStateUpdated(whole.stateSlots.size()) {
    if (const Program *before = findProgram(whole.programs, programs::kEncode); before && !encodes)
      follow(*before);
  }

  Status run();

private:
  void follow(const Program &encode);
  Status checkSizes() const;
  Status checkAt(size_t index);
  Status checkEnd() const;

  // The place of instruction `at` among the others. Its operands have been checked.
  template <typename Other> Status order(const Other &) { return {}; }
  Status order(const LinearInstruction &i) { return checkJoined(i, &LinearInstruction::dst); }
  Status order(const EmbedInstruction &i) { return checkVocabulary(i.weight); }
  Status order(const HeadInstruction &i) { return checkVocabulary(i.weight); }
  Status order(const StoreKvInstruction &i) { return store(i.slot); }
  Status order(const ChooseKeysInstruction &i) { return store(i.slot); }
  Status order(const ChoosePoolsInstruction &i) { return store(i.slot); }
  Status order(const StoreKeyInstruction &i) {
    const bool isSecond = i.poolTokens != 0 && artifact.kvSlots[i.slot].kvHeads == 2;
    return isSecond ? checkStored(i.slot) : store(i.slot);
  }
  Status order(const AttendPoolsInstruction &i) { return checkStored(i.slot); }
  Status order(const PoolInstruction &i) { return checkState(i.slot); }
  Status order(const EmbedNgramsInstruction &i) { return checkState(i.slot); }
  Status order(const MaskExpertsInstruction &i) { return checkVocabulary(i.table); }
  Status order(const AttendInstruction &i) { return checkStored(i.slot); }
  Status order(const AttendRangeInstruction &i) { return checkStored(i.slot); }
  Status order(const AttendChosenInstruction &i) { return checkStored(i.slot); }
  Status order(const ConvolveInstruction &i) { return checkState(i.slot); }
  Status order(const DeltaRuleInstruction &i) { return checkState(i.slot); }
  Status order(const StateSpaceInstruction &i) { return checkState(i.slot); }
  Status order(const SelectiveScanInstruction &i) { return checkState(i.slot); }
  Status order(const RouteInstruction &i);
  Status order(const CapacityInstruction &i);
  Status order(const PatchesInstruction &);
  Status order(const ExpertsInstruction &i);
  Status order(const PredictInstruction &i);

  Status checkVocabulary(int32_t weight) const;
  Status checkState(uint32_t slot);
  Status store(uint32_t slot);
  Status checkStored(uint32_t slot) const;
  template <typename T> Status checkJoined(const T &i, int32_t T::*result);
  Status checkReads(bool areBegun, const char *what) const;

  const Artifact &artifact;
  const Program &program;
  ProgramCheck check;
  const bool encodes;
  size_t at = 0, firstJoined = 0; // The instruction, and the first of those joined with it.
  uint32_t firstRouted = 0;       // MoE layer.
  std::vector<bool> isSlotStored, isStateUpdated;
  std::optional<RouteInstruction> routed; // The last route.
  bool isReading = false; // Reads of its experts have begun, and the experts have not come yet.
};

Status OrderCheck::checkVocabulary(int32_t weight) const {
  const uint32_t rows = artifact.residents[size_t(weight)].shape.rows;
  if (rows != artifact.model.vocabularySize)
    return invalidInput("the weight has ", rows, " rows, expected one for each of ",
                        artifact.model.vocabularySize, " tokens");
  return {};
}

/// The encoder has the first MoE layers, and stores keys and values before the program runs. It is
/// checked by itself.
void OrderCheck::follow(const Program &encode) {
  for (const Instruction &instruction : encode.instructions) {
    if (const auto *route = std::get_if<RouteInstruction>(&instruction))
      firstRouted = route->moeLayer + 1;
    if (const auto *stored = std::get_if<StoreKvInstruction>(&instruction))
      if (stored->slot < isSlotStored.size())
        isSlotStored[stored->slot] = true;
  }
}

// An encoder computes its whole input at once: layer after layer may use the same slot.
Status OrderCheck::store(uint32_t slot) {
  if (isSlotStored[slot] && !encodes)
    return invalidInput("KV slot ", slot, " is stored twice");
  isSlotStored[slot] = true;
  return {};
}

Status OrderCheck::checkStored(uint32_t slot) const {
  if (!isSlotStored[slot])
    return invalidInput("KV slot ", slot, " has not been stored before");
  return {};
}

// An update replaces the state of the token before: a second one would take it for the next
// token's.
Status OrderCheck::checkState(uint32_t slot) {
  if (isStateUpdated[slot])
    return invalidInput("state slot ", slot, " is updated twice");
  isStateUpdated[slot] = true;
  return {};
}

Status OrderCheck::checkReads(bool areBegun, const char *what) const {
  if (isReading != areBegun)
    return invalidInput(what, isReading ? " between" : " without", " the beginning of reads",
                        isReading ? " and their experts" : "");
  return {};
}

Status OrderCheck::order(const RouteInstruction &i) {
  MOERT_RETURN_IF_ERROR(checkReads(false, "a route"));
  // An activation-path table needs the experts chosen by the two layers before the predicted one.
  if (const uint32_t expected = routed ? routed->moeLayer + 1 : firstRouted; i.moeLayer != expected)
    return invalidInput("MoE layer ", i.moeLayer, " is routed, expected MoE layer ", expected,
                        ": a program routes its MoE layers in order, from the first");
  const uint32_t topK = program.buffers[size_t(i.experts)].width;
  if (const uint32_t expected = artifact.moeLayers[i.moeLayer].topK; topK != expected)
    return invalidInput("top ", topK, ", expected the layer's top ", expected);
  check.walk().setRouting(i.experts, i.moeLayer);
  check.walk().setRouting(i.weights, i.moeLayer);
  routed = i;
  isReading = i.beginsReads;
  return {};
}

// Its scores are scratch: their values depend on the plan, so no instruction may read them.
Status OrderCheck::order(const PredictInstruction &i) {
  MOERT_RETURN_IF_ERROR(checkRange("ahead", i.ahead, 1, kMostAhead));
  if (!routed || uint64_t(routed->moeLayer) + i.ahead != i.moeLayer)
    return invalidInput("MoE layer ", i.moeLayer, " is predicted ", i.ahead, " ahead after ",
                        routed ? strCat("the route of MoE layer ", routed->moeLayer) : "no route",
                        ", expected that of MoE layer ", int64_t(i.moeLayer) - i.ahead);
  MOERT_RETURN_IF_ERROR(checkReads(false, "a prediction"));
  isReading = i.beginsReads;
  return checkJoined(i, &PredictInstruction::scores);
}

// The reads are of the route's buffers, which it updates.
Status OrderCheck::order(const CapacityInstruction &i) {
  MOERT_RETURN_IF_ERROR(checkReads(false, "a capacity"));
  if (!routed || i.moeLayer != routed->moeLayer || i.experts != routed->experts ||
      i.weights != routed->weights)
    return invalidInput("a capacity of other experts than the last route's");
  for (int32_t buffer : {i.experts, i.weights})
    MOERT_RETURN_IF_ERROR(check.walk().checkRouting(buffer, i.moeLayer));
  isReading = i.beginsReads;
  return {};
}

Status OrderCheck::order(const PatchesInstruction &) {
  if (program.name != programs::kClassify || at != 0)
    return invalidInput("an image, expected one only at the beginning of '", programs::kClassify,
                        "'");
  return {};
}

Status OrderCheck::order(const ExpertsInstruction &i) {
  for (int32_t buffer : {i.experts, i.weights})
    MOERT_RETURN_IF_ERROR(check.walk().checkRouting(buffer, i.moeLayer));
  MOERT_RETURN_IF_ERROR(checkReads(true, "experts"));
  if (i.experts != routed->experts)
    return invalidInput("experts of buffer ", i.experts, ", but the reads are of buffer ",
                        routed->experts);
  isReading = false;
  return {};
}

// A joined instruction is computed together with those before it: nothing that it reads may depend
// on them, and no result may overwrite another.
template <typename T> Status OrderCheck::checkJoined(const T &i, int32_t T::*result) {
  if (!i.joined) {
    firstJoined = at;
    return {};
  }
  const T *previous = at == 0 ? nullptr : std::get_if<T>(&program.instructions[at - 1]);
  if (!previous || previous->src != i.src || program.layers[at] != program.layers[at - 1])
    return invalidInput("joined with an instruction of another kind, source or layer");
  if (at - firstJoined >= kMostTogether)
    return invalidInput("joined with ", at - firstJoined, " others, expected at most ",
                        kMostTogether - 1);
  auto bufferOf = [&](const T &one) -> const Buffer & {
    return program.buffers[size_t(one.*result)];
  };
  for (size_t other = firstJoined; other < at; ++other)
    if (sharesBytes(bufferOf(std::get<T>(program.instructions[other])), bufferOf(i)))
      return invalidInput("its result shares bytes with that of instruction ", other,
                          ", which it is joined with");
  return {};
}

Status OrderCheck::checkSizes() const {
  if (program.layers.size() != program.instructions.size())
    return invalidInput("layers of ", program.layers.size(), " instructions, expected ",
                        program.instructions.size());
  for (int32_t layer : program.layers)
    if (layer < kNone || layer >= int64_t(artifact.model.layers))
      return invalidInput("an instruction of layer ", layer, ", expected -1 to ",
                          artifact.model.layers - 1);
  if (program.buffers.size() > kMaxBuffers)
    return invalidInput(program.buffers.size(), " buffers, expected at most ", kMaxBuffers);
  if (program.instructions.empty() || program.instructions.size() > kMaxInstructions)
    return invalidInput(program.instructions.size(), " instructions, expected 1 to ",
                        kMaxInstructions);
  if (program.arenaBytesPerToken > kMaxBytesPerToken)
    return invalidInput("an arena of ", program.arenaBytesPerToken,
                        " bytes per token, expected at most ", kMaxBytesPerToken);
  return {};
}

Status OrderCheck::checkAt(size_t index) {
  at = index;
  const Instruction &instruction = program.instructions[index];
  const size_t following = program.instructions.size() - index - 1;
  if (std::holds_alternative<HeadInstruction>(instruction) && following != 0)
    return invalidInput("a head ends the program, but ", following, " instructions follow");
  MOERT_RETURN_IF_ERROR(check.checkInstruction(instruction));
  Status status;
  visitInstruction(instruction, [&](const auto &content) { status = order(content); });
  return status;
}

Status OrderCheck::checkEnd() const {
  if (program.name == programs::kClassify &&
      !std::holds_alternative<PatchesInstruction>(program.instructions.front()))
    return invalidInput("the first instruction is ", nameOf(program.instructions.front()),
                        ", expected patches: the classes are those of images");
  if (std::holds_alternative<HeadInstruction>(program.instructions.back()) == encodes)
    return invalidInput("the last instruction is ", nameOf(program.instructions.back()),
                        encodes ? ", expected no logits of an encoder" : ", expected head");
  MOERT_RETURN_IF_ERROR(checkReads(false, "the end"));
  if (encodes)
    return {};
  for (size_t i = 0; i < isSlotStored.size(); ++i)
    if (!isSlotStored[i])
      return invalidInput("KV slot ", i, " is never stored");
  for (size_t i = 0; i < isStateUpdated.size(); ++i)
    if (!isStateUpdated[i])
      return invalidInput("state slot ", i, " is never updated");
  return {};
}

Status OrderCheck::run() {
  MOERT_RETURN_IF_ERROR(checkSizes());
  MOERT_RETURN_IF_ERROR(check.checkBuffers());
  for (size_t i = 0; i < program.instructions.size(); ++i)
    if (Status status = checkAt(i); !status.isOk())
      return std::move(status).withContext(
          strCat("instruction ", i, " (", nameOf(program.instructions[i]), ")"));
  return checkEnd();
}

} // namespace

Status validateProgram(const Artifact &artifact, const Program &program) {
  return OrderCheck(artifact, program).run();
}

} // namespace moert
