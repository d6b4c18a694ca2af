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

void Executor::execute(Step &step, const ApplyInstruction &apply) {
  Rows src = step.buffer(apply.src), dst = step.buffer(apply.dst);
  const float *factor = vector(apply.factor), *bias = vector(apply.bias);
  const uint32_t width = step.bufferInfo(apply.src).width;
  // Softplus takes some hundred operations per element, in double, so that elements are shared too.
  const uint32_t cost = apply.function == RowFunction::kSoftplus ? 128 : 16;
  const uint64_t panels = divideUp(width, kPanelRows);
  parts.threads.run(
      panels * step.rows(), grainFor(uint64_t(kPanelRows) * cost),
      [&](uint64_t begin, uint64_t end, uint32_t) {
        for (uint64_t at = begin; at < end;) {
          const uint64_t row = at / panels, last = std::min(end, (row + 1) * panels);
          const uint64_t from = at % panels * kPanelRows;
          const uint64_t to = std::min<uint64_t>((last - row * panels) * kPanelRows, width);
          parts.kernels.apply(apply.function, src.floats(row) + from,
                              factor ? factor + from : nullptr, bias ? bias + from : nullptr,
                              static_cast<uint32_t>(to - from), dst.floats(row) + from);
          at = last;
        }
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

void Executor::decayRows(Step &step, const DecayInstruction &decay, float bound) {
  Rows src = step.buffer(decay.src), dst = step.buffer(decay.dst);
  const float *logRate = vector(decay.logRate), *bias = vector(decay.bias);
  const uint32_t rates = parts.artifact.residents[size_t(decay.logRate)].shape.cols;
  const uint32_t run = step.bufferInfo(decay.src).width / rates;
  // Some hundred operations per element, in double, so that the rates of a row are shared too.
  parts.threads.run(rates * step.rows(), grainFor(uint64_t(run) * 256),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      for (uint64_t i = begin; i < end; ++i) {
                        const uint64_t row = i / rates, rate = i % rates, at = rate * run;
                        parts.kernels.decay(src.floats(row) + at, logRate[rate], bias + at, bound,
                                            run, dst.floats(row) + at);
                      }
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
  const uint32_t decays = step.bufferInfo(rule.decay).width / rule.heads; // 1 or keyDim.
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
                              value.floats(row) + at, decay.floats(row) + head * decays, decays > 1,
                              factor, rule.scale, keyDim, valueDim, state, dst.floats(row) + at);
    }
  };
  parts.threads.run(rule.heads, grainFor(4 * elements * step.rows()),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      for (uint64_t head = begin; head < end; ++head)
                        computeHead(static_cast<uint32_t>(head));
                    });
}

void Executor::execute(Step &step, const StateSpaceInstruction &space) {
  const StateSlot &slot = parts.artifact.stateSlots[space.slot];
  const uint32_t keyDim = slot.rows / space.heads, valueDim = slot.width;
  const uint32_t headsPerKey = space.heads / space.keyHeads;
  const uint64_t elements = uint64_t(keyDim) * valueDim;
  Rows query = step.buffer(space.query), key = step.buffer(space.key),
       value = step.buffer(space.value);
  Rows steps = step.buffer(space.step), dst = step.buffer(space.dst);
  auto computeHead = [&](uint32_t head) {
    const uint64_t keyAt = uint64_t(head / headsPerKey) * keyDim, at = uint64_t(head) * valueDim;
    const float rate = exponential(parts.weights.vector(space.logRate)[head]);
    for (uint32_t row = 0; row < step.rows(); ++row) {
      float *state = step.batch[row].session->memory.states[space.slot] + head * elements;
      if (step.batch[row].position == 0)
        std::fill(state, state + elements, 0.0f);
      const float size = steps.floats(row)[head];
      parts.kernels.stateSpace(query.floats(row) + keyAt, key.floats(row) + keyAt,
                               value.floats(row) + at, exponential(-(rate * size)), size,
                               parts.weights.vector(space.skip)[head], keyDim, valueDim, state,
                               dst.floats(row) + at);
    }
  };
  parts.threads.run(space.heads, grainFor(3 * elements * step.rows()),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      for (uint64_t head = begin; head < end; ++head)
                        computeHead(static_cast<uint32_t>(head));
                    });
}

void Executor::execute(Step &step, const SelectiveScanInstruction &scan) {
  const StateSlot &slot = parts.artifact.stateSlots[scan.slot];
  const uint32_t keyDim = slot.rows, width = slot.width;
  Rows query = step.buffer(scan.query), key = step.buffer(scan.key),
       value = step.buffer(scan.value);
  Rows steps = step.buffer(scan.step), dst = step.buffer(scan.dst);
  parts.threads.run(
      divideUp(width, kPanelRows), grainFor(uint64_t(kPanelRows) * keyDim * 32 * step.rows()),
      [&](uint64_t begin, uint64_t end, uint32_t) {
        const auto first = static_cast<uint32_t>(begin * kPanelRows);
        const auto last = static_cast<uint32_t>(std::min<uint64_t>(end * kPanelRows, width));
        for (uint32_t row = 0; row < step.rows(); ++row) {
          float *state = step.batch[row].session->memory.states[scan.slot];
          if (step.batch[row].position == 0)
            for (uint32_t i = 0; i < keyDim; ++i)
              std::fill(state + uint64_t(i) * width + first, state + uint64_t(i) * width + last,
                        0.0f);
          parts.kernels.selectiveScan(query.floats(row), key.floats(row), value.floats(row),
                                      steps.floats(row), parts.weights.vector(scan.logRate),
                                      parts.weights.vector(scan.skip), keyDim, width, first, last,
                                      state, dst.floats(row));
        }
      });
}

} // namespace moert
