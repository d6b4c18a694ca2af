// Executes the instructions around residual streams: their weights, merging and updating them.
#include "runtime/engine/Executor.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>

namespace moert {

template <class Work>
void Executor::forElements(const Step &step, uint32_t width, uint32_t passes, Work work) const {
  constexpr uint32_t kRun = 512;
  const uint64_t runs = divideUp(width, kRun);
  parts.threads.run(runs * step.rows(), grainFor(uint64_t(kRun) * passes),
                    [&](uint64_t begin, uint64_t end, uint32_t) {
                      for (uint64_t i = begin; i < end; ++i) {
                        const auto first = static_cast<uint32_t>(i % runs * kRun);
                        work(i / runs, first, std::min(kRun, width - first));
                      }
                    });
}

void Executor::execute(Step &step, const RepeatRowInstruction &repeat) {
  const Rows src = step.buffer(repeat.src), dst = step.buffer(repeat.dst);
  const uint32_t width = step.bufferInfo(repeat.src).width;
  for (uint32_t row = 0; row < step.rows(); ++row)
    for (uint32_t at = 0; at < step.bufferInfo(repeat.dst).width; at += width)
      std::copy_n(src.floats(row), width, dst.floats(row) + at);
}

void Executor::execute(Step &step, const MeanStreamsInstruction &mean) {
  const Rows src = step.buffer(mean.src), dst = step.buffer(mean.dst);
  const uint32_t width = step.bufferInfo(mean.dst).width,
                 streams = step.bufferInfo(mean.src).width / width;
  forElements(step, width, streams, [&](uint64_t row, uint32_t first, uint32_t count) {
    const float *from = src.floats(row) + first;
    float *to = dst.floats(row) + first;
    std::copy_n(from, count, to);
    for (uint32_t i = 1; i < streams; ++i)
      parts.kernels.addScaled(to, from + uint64_t(i) * width, 1, count, to);
    parts.kernels.scale(to, 1 / static_cast<float>(streams), count, to);
  });
}

void Executor::execute(Step &step, const DotStreamsInstruction &dot) {
  const Rows a = step.buffer(dot.a), b = step.buffer(dot.b), dst = step.buffer(dot.dst);
  const uint32_t streams = step.bufferInfo(dot.dst).width,
                 width = step.bufferInfo(dot.a).width / streams;
  for (uint32_t row = 0; row < step.rows(); ++row)
    for (uint32_t i = 0; i < streams; ++i) {
      const float *left = a.floats(row) + uint64_t(i) * width,
                  *right = b.floats(row) + uint64_t(i) * width;
      double sum = 0;
      for (uint32_t at = 0; at < width; ++at)
        sum += double(left[at]) * right[at];
      dst.floats(row)[i] = static_cast<float>(dot.factor * sum);
    }
}

namespace {

/// The matrix of weights between streams, in place: C of StreamWeightsInstruction.
class StreamMatrix {
public:
  StreamMatrix(float *matrix, uint32_t streams, float added)
      : first(matrix), count(streams), epsilon(added) {}

  void softmaxRows() {
    for (uint32_t i = 0; i < count; ++i) {
      float *row = first + i * count;
      const float largest = *std::max_element(row, row + count);
      float sum = 0;
      for (uint32_t j = 0; j < count; ++j)
        sum += row[j] = exponential(row[j] - largest);
      for (uint32_t j = 0; j < count; ++j)
        row[j] = row[j] / sum + epsilon;
    }
  }
  void divideRows() { divide(count, 1); }
  void divideColumns() { divide(1, count); }

private:
  /// Divides each run, of elements `step` apart, by its sum + epsilon; runs begin `stride` apart.
  void divide(uint32_t stride, uint32_t step) {
    for (uint32_t i = 0; i < count; ++i) {
      float *run = first + i * stride;
      float sum = 0;
      for (uint32_t j = 0; j < count; ++j)
        sum += run[j * step];
      for (uint32_t j = 0; j < count; ++j)
        run[j * step] /= sum + epsilon;
    }
  }

  float *first;
  uint32_t count;
  float epsilon;
};

float sigmoidOf(float x) {
  return 1 / (1 + exponential(-x));
}

} // namespace

void Executor::execute(Step &step, const StreamWeightsInstruction &weights) {
  const Rows src = step.buffer(weights.src), dst = step.buffer(weights.dst);
  const uint32_t streams = weights.streams, width = step.bufferInfo(weights.src).width;
  const float *scale = vector(weights.scale), *base = vector(weights.base);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const float *from = src.floats(row);
    float *to = dst.floats(row);
    for (uint32_t i = 0; i < width; ++i)
      to[i] = from[i] * scale[std::min(i / streams, 2u)] + base[i];
    for (uint32_t i = 0; i < streams; ++i)
      to[i] = sigmoidOf(to[i]) + weights.epsilon;
    if (width == streams)
      continue;
    for (uint32_t i = streams; i < 2 * streams; ++i)
      to[i] = 2 * sigmoidOf(to[i]);
    StreamMatrix matrix(to + 2 * streams, streams, weights.epsilon);
    matrix.softmaxRows();
    matrix.divideColumns();
    for (uint32_t i = 1; i < weights.iterations; ++i) {
      matrix.divideRows();
      matrix.divideColumns();
    }
  }
}

void Executor::execute(Step &step, const MergeStreamsInstruction &merge) {
  const Rows src = step.buffer(merge.src), dst = step.buffer(merge.dst),
             weights = step.buffer(merge.weights);
  const uint32_t width = step.bufferInfo(merge.dst).width,
                 streams = step.bufferInfo(merge.src).width / width;
  forElements(step, width, streams, [&](uint64_t row, uint32_t first, uint32_t count) {
    const float *from = src.floats(row) + first, *in = weights.floats(row);
    float *to = dst.floats(row) + first;
    parts.kernels.scale(from, in[0], count, to);
    for (uint32_t i = 1; i < streams; ++i)
      parts.kernels.addScaled(to, from + uint64_t(i) * width, in[i], count, to);
  });
}

void Executor::execute(Step &step, const UpdateStreamsInstruction &update) {
  const Rows src = step.buffer(update.src), branch = step.buffer(update.branch),
             weights = step.buffer(update.weights), dst = step.buffer(update.dst);
  const uint32_t width = step.bufferInfo(update.branch).width,
                 streams = step.bufferInfo(update.src).width / width;
  const auto updateRun = [&](uint64_t row, uint32_t first, uint32_t count) {
    const float *from = src.floats(row) + first, *out = weights.floats(row) + streams,
                *matrix = out + streams;
    for (uint32_t j = 0; j < streams; ++j) {
      float *to = dst.floats(row) + uint64_t(j) * width + first;
      parts.kernels.scale(branch.floats(row) + first, out[j], count, to);
      for (uint32_t i = 0; i < streams; ++i)
        parts.kernels.addScaled(to, from + uint64_t(i) * width, matrix[i * streams + j], count, to);
    }
  };
  forElements(step, width, streams * streams, updateRun);
}

} // namespace moert
