// Executes the instructions that work on images (ImageInstructions.h).
#include "runtime/engine/Executor.h"
#include "runtime/engine/WindowAttention.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace moert {

void Executor::execute(Step &step, const PatchesInstruction &patches) {
  const Rows dst = step.buffer(patches.dst);
  const uint32_t patch = patches.patch, side = patches.side, grid = side / patch;
  step.rowsPerToken = grid * grid;
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const uint64_t image = row / step.rowsPerToken, place = row % step.rowsPerToken;
    float *to = dst.floats(row);
    for (uint64_t channel = 0; channel < patches.channels; ++channel)
      for (uint64_t y = 0; y < patch; ++y, to += patch) {
        const uint64_t line =
            (image * patches.channels + channel) * side + place / grid * patch + y;
        std::memcpy(to, step.pixels + line * side + place % grid * patch, patch * sizeof(float));
      }
  }
}

void Executor::execute(Step &step, const MergePatchesInstruction &merge) {
  const Rows src = step.buffer(merge.src), dst = step.buffer(merge.dst);
  const uint32_t width = step.bufferInfo(merge.src).width, side = merge.side, grid = side / 2;
  step.rowsPerToken = grid * grid;
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const uint64_t image = row / step.rowsPerToken, place = row % step.rowsPerToken;
    const uint64_t first = (image * side + place / grid * 2) * side + place % grid * 2;
    float *to = dst.floats(row);
    for (const uint64_t from : {first, first + side, first + 1, first + side + 1}) {
      std::memcpy(to, src.floats(from), width * sizeof(float));
      to += width;
    }
  }
}

void Executor::execute(Step &step, const MeanRowsInstruction &mean) {
  const Rows src = step.buffer(mean.src), dst = step.buffer(mean.dst);
  const uint32_t width = step.bufferInfo(mean.src).width;
  const uint32_t each = std::exchange(step.rowsPerToken, 1);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    float *to = dst.floats(row);
    std::fill(to, to + width, 0.0f);
    for (uint64_t i = 0; i < each; ++i)
      parts.kernels.addScaled(to, src.floats(uint64_t(row) * each + i), 1, width, to);
    parts.kernels.scale(to, 1.0f / static_cast<float>(each), width, to);
  }
}

void Executor::execute(Step &step, const AttendWindowsInstruction &attend) {
  const Rows query = step.buffer(attend.query), key = step.buffer(attend.key),
             value = step.buffer(attend.value), dst = step.buffer(attend.dst);
  const WindowAttention attention = {parts.kernels,
                                     attend,
                                     step.bufferInfo(attend.dst).width / attend.heads,
                                     query.floats(),
                                     key.floats(),
                                     value.floats(),
                                     query.stride(),
                                     vector(attend.bias),
                                     dst.floats()};
  const uint64_t perImage = attention.headsOfImage(), rows = step.rowsPerToken;
  parts.threads.run(step.batch.size() * perImage, grainFor(attention.operationsPerHead()),
                    [&](uint64_t begin, uint64_t end, uint32_t thread) {
                      for (uint64_t i = begin; i < end; ++i)
                        attention.compute(i / perImage * rows, i % perImage,
                                          step.attentionScratch(thread));
                    });
}

} // namespace moert
