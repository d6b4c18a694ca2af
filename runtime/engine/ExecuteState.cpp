// Executes the instructions that work on states, and the small ones around them. A session's rows
// follow each other in the batch, in the order of its tokens, and each row's state is that which
// the row before it left: so threads share the elements or the heads, never the rows.
#include "runtime/engine/EngineImpl.h"

#include <cstring>

namespace moert {

void Engine::Impl::executeGate(const GateInstruction &gate) {
  Rows src = buffer(gate.src), factor = buffer(gate.gate), dst = buffer(gate.dst);
  const uint32_t width = bufferInfo(gate.src).width;
  threads->run(rows(), grainFor(width * 16), [&](uint64_t begin, uint64_t end, uint32_t) {
    for (uint64_t row = begin; row < end; ++row)
      kernels->gate(gate.kind, src.floats(row), factor.floats(row), width, dst.floats(row));
  });
}

void Engine::Impl::executeUnitNorm(const UnitNormInstruction &norm) {
  Rows x = buffer(norm.buffer);
  const uint32_t width = bufferInfo(norm.buffer).width;
  threads->run(rows(), grainFor(width * 4), [&](uint64_t begin, uint64_t end, uint32_t) {
    kernels->unitNorm(x.floats(begin), x.stride(), static_cast<uint32_t>(end - begin), width,
                      norm.segment, norm.epsilon);
  });
}

void Engine::Impl::executeDecay(const DecayInstruction &decay) {
  Rows src = buffer(decay.src), dst = buffer(decay.dst);
  // Some hundred operations per element, in double.
  const uint32_t width = bufferInfo(decay.src).width;
  threads->run(rows(), grainFor(uint64_t(width) * 256),
               [&](uint64_t begin, uint64_t end, uint32_t) {
                 for (uint64_t row = begin; row < end; ++row)
                   kernels->decay(src.floats(row), vector(decay.logRate), vector(decay.bias), width,
                                  dst.floats(row));
               });
}

void Engine::Impl::executeConvolve(const ConvolveInstruction &convolve) {
  const StateSlot &slot = artifact->stateSlots[convolve.slot];
  const uint32_t width = slot.width, taps = slot.rows + 1;
  Rows src = buffer(convolve.src), dst = buffer(convolve.dst);
  threads->run(
      divideUp(width, kPanelRows), grainFor(uint64_t(kPanelRows) * taps * rows()),
      [&](uint64_t begin, uint64_t end, uint32_t) {
        const auto first = static_cast<uint32_t>(begin * kPanelRows);
        const auto last = static_cast<uint32_t>(std::min<uint64_t>(end * kPanelRows, width));
        for (uint32_t row = 0; row < rows(); ++row) {
          float *tail = batch[row].session->internals().states[convolve.slot];
          if (batch[row].position == 0)
            for (uint32_t tap = 0; tap < slot.rows; ++tap)
              std::fill(tail + uint64_t(tap) * width + first, tail + uint64_t(tap) * width + last,
                        0.0f);
          kernels->convolve(src.floats(row), vector(convolve.weight), taps, tail, width,
                            batch[row].position, convolve.silu, first, last, dst.floats(row));
        }
      });
}

void Engine::Impl::executeDeltaRule(const DeltaRuleInstruction &rule) {
  const uint32_t headsPerKey = rule.heads / rule.keyHeads;
  const uint32_t keyDim = bufferInfo(rule.key).width / rule.keyHeads;
  const uint32_t valueDim = bufferInfo(rule.value).width / rule.heads;
  const uint64_t elements = uint64_t(keyDim) * valueDim;
  Rows query = buffer(rule.query), key = buffer(rule.key), value = buffer(rule.value);
  Rows decay = buffer(rule.decay), write = buffer(rule.write), dst = buffer(rule.dst);
  // Head by head: its state stays in the processor's cache over all rows.
  auto computeHead = [&](uint32_t head) {
    const uint64_t keyAt = uint64_t(head / headsPerKey) * keyDim, at = uint64_t(head) * valueDim;
    for (uint32_t row = 0; row < rows(); ++row) {
      float *state = batch[row].session->internals().states[rule.slot] + head * elements;
      if (batch[row].position == 0)
        std::fill(state, state + elements, 0.0f);
      float factor = 0;
      kernels->sigmoid(write.floats(row) + head, 1, &factor);
      kernels->deltaRule(query.floats(row) + keyAt, key.floats(row) + keyAt, value.floats(row) + at,
                         decay.floats(row)[head], factor, rule.scale, keyDim, valueDim, state,
                         dst.floats(row) + at);
    }
  };
  threads->run(rule.heads, grainFor(4 * elements * rows()),
               [&](uint64_t begin, uint64_t end, uint32_t) {
                 for (uint64_t head = begin; head < end; ++head)
                   computeHead(static_cast<uint32_t>(head));
               });
}

} // namespace moert
