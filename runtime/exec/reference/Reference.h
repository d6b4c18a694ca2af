// The reference twin of every kernel, one function each; Kernels.h defines what they compute. The
// vector versions use these where speed does not matter.
#pragma once

#include "runtime/exec/Kernels.h"

namespace moert::reference {

void quantizeRows(const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
                  const QuantizedRows &out);
void linearQuantized(const WeightView &w, const QuantizedRows &x, uint32_t rows, float *y,
                     uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd);
void linearFloat(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                 uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd);
void linearRows(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                uint64_t yStride);
void gatherRow(const WeightView &w, uint32_t row, float scale, float *out);
void addBias(const float *x, uint64_t xStride, const float *bias, uint32_t rows, uint32_t cols,
             float *y, uint64_t yStride);
void norm(NormKind kind, const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
          uint32_t segment, const float *weight, const float *bias, float epsilon, float *y,
          uint64_t yStride);
void ropeTable(uint32_t position, const float *inverseFrequencies, uint32_t count, float factor,
               float *cosines, float *sines);
void rope(float *x, uint32_t heads, uint32_t headDim, const float *cosines, const float *sines,
          uint32_t count, bool interleaved);
void storeKvRow(KvKind kind, const float *x, uint32_t count, std::byte *row);
void attend(const float *query, const KvView &kv, uint32_t heads, uint32_t headBegin,
            uint32_t headEnd, uint32_t begin, uint32_t end, float scale, const float *sinks,
            float *out, float *scratch);
void scoreIndex(const float *query, const KvView &kv, const float *weights, uint32_t heads,
                uint32_t begin, uint32_t end, float *out, float *scratch);
void siluMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols, uint64_t stride,
                  float *y);
void clampedSwiglu(float alpha, float limit, float shift, const float *gate, const float *up,
                   uint32_t rows, uint32_t cols, uint64_t stride, float *y);
void geluTanhMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols,
                      uint64_t stride, float *y);
void scale(const float *x, float factor, uint64_t count, float *y);
void softCap(float limit, uint64_t count, float *x);
void addScaled(const float *a, const float *b, float scale, uint64_t count, float *y);
void clamp(float limit, uint64_t count, float *x);
void gateRows(const float *x, const float *gate, uint64_t gateStride, uint32_t rows, uint32_t cols,
              uint64_t stride, float *y);
void combineRanks(const float *rankRows, uint64_t stride, const float *weights, uint32_t ranks,
                  uint32_t cols, float *out);
void softmax(const float *x, uint32_t count, float *p);
void sigmoid(const float *x, uint32_t count, float *p);
void convolve(const float *x, const float *weight, uint32_t taps, float *tail, uint32_t width,
              uint32_t position, bool silu, uint32_t begin, uint32_t end, float *y);
void unitNorm(float *x, uint64_t xStride, uint32_t rows, uint32_t cols, uint32_t segment,
              float epsilon);
void decay(const float *x, float logRate, const float *bias, float bound, uint32_t count, float *y);
void deltaRule(const float *query, const float *key, const float *value, const float *decay,
               bool perRow, float write, float scale, uint32_t keyDim, uint32_t valueDim,
               float *state, float *out);
void apply(RowFunction function, const float *x, const float *factor, const float *bias,
           uint32_t count, float *y);
void stateSpace(const float *query, const float *key, const float *value, float decay, float step,
                float skip, uint32_t keyDim, uint32_t valueDim, float *state, float *out);
void selectiveScan(const float *query, const float *key, const float *value, const float *step,
                   const float *logRate, const float *skip, uint32_t keyDim, uint32_t width,
                   uint32_t begin, uint32_t end, float *state, float *out);
void gate(GateKind kind, const float *x, const float *gate, uint32_t cols, float *y);

} // namespace moert::reference
