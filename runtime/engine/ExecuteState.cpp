// Executes the instructions that work on states, and the small ones around them. A session's rows
// follow each other in the batch, in the order of its tokens, and each row's state is that which
// the row before it left: so threads share the elements or the heads, never the rows.
#include "runtime/engine/Executor.h"

#include <cstring>

namespace moert {

void Executor::execute(Step &step, const GateInstruction &gate) {
  Rows src = step.buffer(gate.src), factor = step.buffer(gate.gate), dst = step.buffer(gate.dst);
  const uint32_t width = step.bufferInfo(gate.src).width;
  parts.threads.run(step.rows(), grainFor(width * 16), [&](uint64_t begin, uint64_t end, uint32_t) {
    for (uint64_t row = begin; row < end; ++row)
      parts.kernels.gate(gate.kind, src.floats(row), factor.floats(row), width, dst.floats(row));
  });
}

void Executor::execute(Step &step, const UnitNormInstruction &norm) {
  Rows x = step.buffer(norm.buffer);
  const uint32_t width = step.bufferInfo(norm.buffer).width;
  parts.threads.run(step.rows(), grainFor(width * 4), [&](uint64_t begin, uint64_t end, uint32_t) {
    parts.kernels.unitNorm(x.floats(begin), x.stride(), static_cast<uint32_t>(end - begin), width,
                           norm.segment, norm.epsilon);
  });
}

void Executor::execute(Step &step, const DecayInstruction &decay) {
  Rows src = step.buffer(decay.src), dst = step.buffer(decay.dst);
  // Some hundred operations per element, in double.
  const uint32_t width = step.bufferInfo(decay.src).width;
  parts.threads.run(
      step.rows(), grainFor(uint64_t(width) * 256), [&](uint64_t begin, uint64_t end, uint32_t) {
        for (uint64_t row = begin; row < end; ++row)
          parts.kernels.decay(src.floats(row), parts.weights.vector(decay.logRate),
                              parts.weights.vector(decay.bias), width, dst.floats(row));
      });
}

void Executor::execute(Step &step, const ConvolveInstruction &convolve) {
  const StateSlot &slot = parts.artifact.stateSlots[convolve.slot];
  const uint32_t width = slot.width, taps = slot.rows + 1;
  Rows src = step.buffer(convolve.src), dst = step.buffer(convolve.dst);
  parts.threads.run(
      divideUp(width, kPanelRows), grainFor(uint64_t(kPanelRows) * taps * step.rows()),
      [&](uint64_t begin, uint64_t end, uint32_t) {
        const auto first = static_cast<uint32_t>(begin * kPanelRows);
        const auto last = static_cast<uint32_t>(std::min<uint64_t>(end * kPanelRows, width));
        for (uint32_t row = 0; row < step.rows(); ++row) {
          float *tail = step.batch[row].session->memory.states[convolve.slot];
          if (step.batch[row].position == 0)
            for (uint32_t tap = 0; tap < slot.rows; ++tap)
              std::fill(tail + uint64_t(tap) * width + first, tail + uint64_t(tap) * width + last,
                        0.0f);
          parts.kernels.convolve(src.floats(row), parts.weights.vector(convolve.weight), taps, tail,
                                 width, step.batch[row].position, convolve.silu, first, last,
                                 dst.floats(row));
        }
      });
}

void Executor::execute(Step &step, const DeltaRuleInstruction &rule) {
  const uint32_t headsPerKey = rule.heads / rule.keyHeads;
  const uint32_t keyDim = step.bufferInfo(rule.key).width / rule.keyHeads;
  const uint32_t valueDim = step.bufferInfo(rule.value).width / rule.heads;
  const uint64_t elements = uint64_t(keyDim) * valueDim;
  Rows query = step.buffer(rule.query), key = step.buffer(rule.key),
       value = step.buffer(rule.value);
  Rows decay = step.buffer(rule.decay), write = step.buffer(rule.write),
       dst = step.buffer(rule.dst);
  // Head by head: its state stays in the processor's cache over all rows.
  auto computeHead = [&](uint32_t head) {
    const uint64_t keyAt = uint64_t(head / headsPerKey) * keyDim, at = uint64_t(head) * valueDim;
    for (uint32_t row = 0; row < step.rows(); ++row) {
      float *state = step.batch[row].session->memory.states[rule.slot] + head * elements;
      if (step.batch[row].position == 0)
        std::fill(state, state + elements, 0.0f);
      float factor = 0;
      parts.kernels.sigmoid(write.floats(row) + head, 1, &factor);
      parts.kernels.deltaRule(query.floats(row) + keyAt, key.floats(row) + keyAt,
                              value.floats(row) + at, decay.floats(row)[head], factor, rule.scale,
                              keyDim, valueDim, state, dst.floats(row) + at);
    }
  };
  parts.threads.run(rule.heads, grainFor(4 * elements * step.rows()),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      for (uint64_t head = begin; head < end; ++head)
                        computeHead(static_cast<uint32_t>(head));
                    });
}

} // namespace moert
