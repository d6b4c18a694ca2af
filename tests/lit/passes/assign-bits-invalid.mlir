// What is quantized already gets no width.
// RUN: moec-opt %s -split-input-file -verify-diagnostics --moe-assign-bits

// Checkpoints store floats.
// expected-error@+1 {{a source stored as int8, expected f32, f16, bf16, mxfp4 or blocks of ggml's}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = int8>

// -----

// An artifact has the formats of its weights.
// expected-error@+1 {{the weights of an artifact have their formats, expected the module of a checkpoint}}
module attributes {moe.artifact = #moe.artifact<path = "a.moe", weights = 1, provenance = []>} {
  moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16> as <kind = bf16>
}
