// The mixers that keep a state: their symbols and their ops.
#include "compiler/ir/ModelBuilder.h"

namespace moec {

FlatSymbolRefAttr ModelBuilder::stateSlot(const Twine &name, uint32_t slotRows, uint32_t width) {
  std::string slot = name.str();
  StateSlotOp::create(builder, named(slot), slot, slotRows, width);
  return FlatSymbolRefAttr::get(builder.getContext(), slot);
}

ConvolvedAttr ModelBuilder::convolved(const Twine &name, const ConvolvedDescription &from) {
  std::string prefix = name.str();
  LinearAttr product = linear(prefix, from.linear);
  FlatSymbolRefAttr taps = weight(prefix + "_taps", from.taps, WeightRole::kTaps);
  return ConvolvedAttr::get(builder.getContext(), product, taps,
                            stateSlot(prefix + "_tail", from.taps.cols - 1, from.taps.rows));
}

void ModelBuilder::declareDeltaNet(StateMixerSymbols &symbols, const Twine &layer,
                                   const DeltaNetDescription &net) {
  std::string prefix = layer.str();
  symbols.query = convolved(prefix + ".query", net.query);
  symbols.key = convolved(prefix + ".key", net.key);
  symbols.value = convolved(prefix + ".value", net.value);
  symbols.gate = linear(prefix + ".gate", net.gate);
  // A few rows each, and an error in a decay grows with every token.
  symbols.decay = linear(prefix + ".decay", net.decay, WeightRole::kRouter);
  symbols.write = linear(prefix + ".write", net.write, WeightRole::kRouter);
  symbols.logRate = weight(prefix + ".log_rate", net.logRate, WeightRole::kVector);
  symbols.decayBias = weight(prefix + ".decay_bias", net.decayBias, WeightRole::kVector);
  symbols.outputNorm = norm(prefix + ".output_norm", net.outputNorm);
  symbols.output = linear(prefix + ".output", net.output);
  const uint32_t keyDim = net.key.linear.weight.rows / net.keyHeads,
                 valueDim = net.value.linear.weight.rows / net.heads;
  symbols.slot = stateSlot(prefix + ".state", net.heads * keyDim, valueDim);
}

void ModelBuilder::declareShortConvolution(StateMixerSymbols &symbols, const Twine &layer,
                                           const ShortConvolutionDescription &mixer) {
  std::string prefix = layer.str();
  symbols.before = linear(prefix + ".before", mixer.before);
  symbols.value = convolved(prefix + ".value", {mixer.value, mixer.taps});
  symbols.gate = linear(prefix + ".after", mixer.after);
  symbols.output = linear(prefix + ".output", mixer.output);
}

Value ModelBuilder::buildDeltaNet(Location loc, Value normed, const DeltaNetDescription &net,
                                  const StateMixerSymbols &symbols) {
  return DeltaNetOp::create(
      builder, loc, normed.getType(), normed, symbols.query, symbols.key, symbols.value,
      symbols.gate, symbols.decay, symbols.logRate, symbols.decayBias, symbols.write,
      symbols.outputNorm, symbols.output, symbols.slot,
      builder.getI32IntegerAttr(static_cast<int32_t>(net.keyHeads)),
      builder.getI32IntegerAttr(static_cast<int32_t>(net.heads)), f32(net.lengthEpsilon));
}

Value ModelBuilder::buildShortConvolution(Location loc, Value normed,
                                          const StateMixerSymbols &symbols) {
  return ShortConvolutionOp::create(builder, loc, normed.getType(), normed, symbols.before,
                                    symbols.value, symbols.gate, symbols.output);
}

} // namespace moec
