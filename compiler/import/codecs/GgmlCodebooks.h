// The codebooks of ggml's IQ types, as f32 values by entry. Static memory, made on first use.
// Source: ggml, ggml-common.h (iq2xxs_grid and others).
#pragma once

#include <array>
#include <cstddef>

namespace moec {

template <size_t entries, size_t length>
using Codebook = std::array<std::array<float, length>, entries>;

const Codebook<256, 8> &iq2XxsGrid();
const Codebook<512, 8> &iq2XsGrid();
const Codebook<1024, 8> &iq2SGrid();
const Codebook<256, 4> &iq3XxsGrid();
const Codebook<512, 4> &iq3SGrid();
const Codebook<2048, 8> &iq1SGrid();

} // namespace moec
