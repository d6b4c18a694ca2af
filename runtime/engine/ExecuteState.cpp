// Executes the instructions that work on states, and the small ones around them. A session's rows
// follow each other in the batch, in the order of its tokens, and each row's state is that which
// the row before it left: so threads share the elements or the heads, never the rows.
#include "runtime/engine/Executor.h"

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

void Executor::decayRows(Step &step, const DecayOperands &decay, float bound) {
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

template <class Work>
void Executor::forColumns(const Step &step, uint32_t slot, uint64_t operations, Work work) const {
  const uint32_t width = parts.artifact.stateSlots[slot].width,
                 rows = parts.artifact.stateSlots[slot].rows;
  parts.threads.run(divideUp(width, kPanelRows), grainFor(kPanelRows * operations * step.rows()),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      const auto first = static_cast<uint32_t>(begin * kPanelRows);
                      const auto last =
                          static_cast<uint32_t>(std::min<uint64_t>(end * kPanelRows, width));
                      for (uint32_t row = 0; row < step.rows(); ++row) {
                        float *state = step.batch[row].session->memory.states[slot];
                        if (step.batch[row].position == 0)
                          for (uint64_t i = 0; i < rows; ++i)
                            std::fill(state + i * width + first, state + i * width + last, 0.0f);
                        work(row, first, last, state);
                      }
                    });
}

template <class Work>
void Executor::forHeads(const Step &step, uint32_t slot, uint32_t heads, uint32_t passes,
                        Work work) const {
  const StateSlot &matrices = parts.artifact.stateSlots[slot];
  const uint64_t elements = uint64_t(matrices.rows / heads) * matrices.width;
  parts.threads.run(heads, grainFor(passes * elements * step.rows()),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      for (uint64_t head = begin; head < end; ++head)
                        for (uint32_t row = 0; row < step.rows(); ++row) {
                          float *state = step.batch[row].session->memory.states[slot];
                          state += head * elements;
                          if (step.batch[row].position == 0)
                            std::fill(state, state + elements, 0.0f);
                          work(row, static_cast<uint32_t>(head), state);
                        }
                    });
}

void Executor::execute(Step &step, const ConvolveInstruction &convolve) {
  const StateSlot &slot = parts.artifact.stateSlots[convolve.slot];
  const uint32_t taps = parts.artifact.residents[size_t(convolve.weight)].shape.cols,
                 apart = slot.rows / (taps - 1);
  const Rows src = step.buffer(convolve.src), dst = step.buffer(convolve.dst);
  forColumns(
      step, convolve.slot, taps, [&](uint32_t row, uint32_t first, uint32_t last, float *tail) {
        const uint32_t position = step.batch[row].position;
        // Every d-th token is a sequence of its own.
        tail += uint64_t(position % apart) * (taps - 1) * slot.width;
        parts.kernels.convolve(src.floats(row), vector(convolve.weight), taps, tail, slot.width,
                               position / apart, convolve.silu, first, last, dst.floats(row));
      });
}

void Executor::execute(Step &step, const DeltaRuleInstruction &rule) {
  const uint32_t headsPerKey = rule.heads / rule.keyHeads;
  const uint32_t keyDim = step.bufferInfo(rule.key).width / rule.keyHeads;
  const uint32_t valueDim = step.bufferInfo(rule.value).width / rule.heads;
  const uint32_t decays = step.bufferInfo(rule.decay).width / rule.heads; // 1 or keyDim.
  const Rows query = step.buffer(rule.query), key = step.buffer(rule.key),
             value = step.buffer(rule.value), decay = step.buffer(rule.decay),
             write = step.buffer(rule.write), dst = step.buffer(rule.dst);
  forHeads(step, rule.slot, rule.heads, 4, [&](uint32_t row, uint32_t head, float *state) {
    const uint64_t keyAt = uint64_t(head / headsPerKey) * keyDim, at = uint64_t(head) * valueDim;
    float factor = 0;
    parts.kernels.sigmoid(write.floats(row) + head, 1, &factor);
    parts.kernels.deltaRule(query.floats(row) + keyAt, key.floats(row) + keyAt,
                            value.floats(row) + at, decay.floats(row) + head * decays, decays > 1,
                            factor, rule.scale, keyDim, valueDim, state, dst.floats(row) + at);
  });
}

void Executor::execute(Step &step, const StateSpaceInstruction &space) {
  const StateSlot &slot = parts.artifact.stateSlots[space.slot];
  const uint32_t keyDim = slot.rows / space.heads, valueDim = slot.width;
  const uint32_t headsPerKey = space.heads / space.keyHeads;
  const Rows query = step.buffer(space.query), key = step.buffer(space.key),
             value = step.buffer(space.value), steps = step.buffer(space.step),
             dst = step.buffer(space.dst);
  forHeads(step, space.slot, space.heads, 3, [&](uint32_t row, uint32_t head, float *state) {
    const uint64_t keyAt = uint64_t(head / headsPerKey) * keyDim, at = uint64_t(head) * valueDim;
    const float rate = exponential(vector(space.logRate)[head]), size = steps.floats(row)[head];
    parts.kernels.stateSpace(query.floats(row) + keyAt, key.floats(row) + keyAt,
                             value.floats(row) + at, exponential(-(rate * size)), size,
                             vector(space.skip)[head], keyDim, valueDim, state,
                             dst.floats(row) + at);
  });
}

void Executor::execute(Step &step, const SelectiveScanInstruction &scan) {
  const StateSlot &slot = parts.artifact.stateSlots[scan.slot];
  const Rows query = step.buffer(scan.query), key = step.buffer(scan.key),
             value = step.buffer(scan.value), steps = step.buffer(scan.step),
             dst = step.buffer(scan.dst);
  forColumns(step, scan.slot, uint64_t{32} * slot.rows,
             [&](uint32_t row, uint32_t first, uint32_t last, float *state) {
               parts.kernels.selectiveScan(query.floats(row), key.floats(row), value.floats(row),
                                           steps.floats(row), vector(scan.logRate),
                                           vector(scan.skip), slot.rows, slot.width, first, last,
                                           state, dst.floats(row));
             });
}

namespace {

/// The sums of a weighted mean with softmax weights, of one element, in rows of a state.
struct PoolSums {
  float *largest; // Gate, before the sums of weights and of weighted values.
  uint32_t width;

  float &weights() { return largest[width]; }
  float &values() { return largest[2 * uint64_t(width)]; }

  void add(float gate, float value) {
    if (weights() == 0) {
      *largest = gate, weights() = 1, values() = value;
    } else if (gate > *largest) {
      const float factor = exponential(*largest - gate);
      *largest = gate, weights() = weights() * factor + 1, values() = values() * factor + value;
    } else {
      const float weight = exponential(gate - *largest);
      weights() += weight, values() += weight * value;
    }
  }
  void become(PoolSums next) {
    *largest = *next.largest, weights() = next.weights(), values() = next.values();
    next.clear();
  }
  void clear() { *largest = weights() = values() = 0; }
};

} // namespace

void Executor::execute(Step &step, const PoolInstruction &pool) {
  const uint32_t width = parts.artifact.stateSlots[pool.slot].width,
                 own = pool.overlapping ? width : 0; // Where own values begin.
  const Rows value = step.buffer(pool.value), gate = step.buffer(pool.gate),
             dst = step.buffer(pool.dst);
  const float *bias = vector(pool.bias);
  const auto addElement = [&](uint32_t row, uint32_t i, float *state) {
    PoolSums sums{state, width}, next{state + 3 * uint64_t(width), width};
    const uint32_t position = step.batch[row].position, place = position % pool.poolTokens;
    const float *biases = bias ? bias + uint64_t(place) * (own + width) : nullptr;
    const auto add = [&](PoolSums to, uint32_t at) {
      to.add(gate.floats(row)[at] + (biases ? biases[at] : 0), value.floats(row)[at]);
    };
    add(sums, own + i);
    if (pool.overlapping)
      add(next, i);
    const bool ends = place + 1 == pool.poolTokens;
    dst.floats(row)[i] = ends ? sums.values() / sums.weights() : 0;
    if (ends && pool.overlapping)
      sums.become(next);
    else if (ends)
      sums.clear();
  };
  forColumns(step, pool.slot, 64, [&](uint32_t row, uint32_t first, uint32_t last, float *state) {
    for (uint32_t i = first; i < last; ++i)
      addElement(row, i, state + i);
  });
}

void Executor::execute(Step &step, const EmbedNgramsInstruction &embed) {
  const WeightView &table = parts.weights.weight(embed.weight);
  const NgramRows &rows = *ngrams[embed.slot];
  const uint32_t width = table.shape.cols, before = embed.tokens - 1;
  const Rows dst = step.buffer(embed.dst);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    float *last = step.batch[row].session->memory.states[embed.slot];
    const uint32_t position = step.batch[row].position;
    const auto token = static_cast<uint32_t>(step.batch[row].token);
    uint64_t value = token * rows.multipliers[0];
    bool hasEnded = false;
    for (uint32_t back = 1; back < embed.tokens; ++back) {
      uint32_t earlier = embed.endToken;
      if (!hasEnded && back <= position)
        earlier = static_cast<uint32_t>(last[(position - back) % before]);
      hasEnded |= earlier == embed.endToken;
      value ^= earlier * rows.multipliers[back];
      for (uint32_t i = 0; i < embed.heads; ++i) {
        const uint32_t head = (back - 1) * embed.heads + i;
        const auto size = static_cast<int64_t>(rows.sizes[head]);
        const int64_t rest = static_cast<int64_t>(value) % size;
        const auto at = static_cast<uint64_t>(rest < 0 ? rest + size : rest) + rows.firstRows[head];
        parts.kernels.gatherRow(table, static_cast<uint32_t>(at), 1,
                                dst.floats(row) + uint64_t(head) * width);
      }
    }
    last[position % before] = static_cast<float>(token);
  }
}

} // namespace moert
