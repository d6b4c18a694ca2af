// Errors of symbols, attributes and types.
// RUN: moec-opt %s -split-input-file -verify-diagnostics

// A source names a tensor.
// expected-error@+1 {{a source without a tensor}}
moe.weight @w matrix from <tensor = "", rows = 4, cols = 4, type = bf16>

// -----

// A source is not empty.
// expected-error@+1 {{a source of 0 x 4, expected at least 1 x 1}}
moe.weight @w matrix from <tensor = "w", rows = 0, cols = 4, type = bf16>

// -----

// A module of an artifact names its path.
// expected-error@+1 {{an artifact without a path}}
module attributes {moe.artifact = #moe.artifact<path = "", weights = 1, provenance = []>} {}

// -----

// Provenance is of keys and values.
// expected-error@+1 {{provenance ["bits"], expected a key and a value, both strings}}
module attributes {moe.artifact = #moe.artifact<path = "a.moe", weights = 1, provenance = [["bits"]]>} {}

// -----

// A weight that every token needs is not MXFP4, neither its source nor its format.
// expected-error@+1 {{a source of mxfp4, which only experts have}}
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = mxfp4>

// -----

// expected-error@+1 {{stored as mxfp4, which only experts are}}
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16> as <kind = mxfp4, group = 32>

// -----

// A group of MXFP4 has 32 inputs, all of them real.
// expected-error@+1 {{a source of mxfp4 with 48 inputs, expected a multiple of 32}}
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 48, type = mxfp4>

// -----

// expected-error@+1 {{a matrix of mxfp4 has weight groups of 16 inputs, activation groups of 0 and no offsets, expected weight groups of 32 alone}}
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16> as <kind = mxfp4, group = 16>

// -----

// A row step of 0 would repeat one row.
// expected-error@+1 {{a source with a row step of 0}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16, rowStep = 0>

// -----

// An index is not negative.
// expected-error@+1 {{a source with index -2}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16, index = -2>

// -----

// Formats follow the artifact's rules: float kinds have no groups.
// expected-error@+1 {{a bf16 matrix has groups or offsets, expected none}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16> as <kind = bf16, group = 32>

// -----

// The activation group is 16, 32 or 64.
// expected-error@+1 {{activation group 48, expected 16, 32 or 64}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16> as <kind = int8, group = 48, activationGroup = 48>

// -----

// The activation group divides the weight group.
// expected-error@+1 {{weight group 48, expected a multiple of the activation group 32}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16> as <kind = int8, group = 48, activationGroup = 32>

// -----

// Nor have they the Hadamard transform.
// expected-error@+1 {{a bf16 matrix with the Hadamard transform, expected one without}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16> as <kind = bf16, hadamard = true>

// -----

// Rows of an embedding are read without a product.
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32, hadamard = true>
moe.program @decode {
  // expected-error@+1 {{the weight has the Hadamard transform, expected rows without it}}
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A vector is 1 x n.
// expected-error@+1 {{a vector of 4 rows, expected 1}}
moe.weight @w vector from <tensor = "w", rows = 4, cols = 4, type = bf16>

// -----

// A vector is f32.
// expected-error@+1 {{a vector stored as bf16, expected f32}}
moe.weight @w vector from <tensor = "w", rows = 1, cols = 4, type = bf16> as <kind = bf16>

// -----

// A router is never quantized.
// expected-error@+1 {{a router is never quantized}}
moe.weight @w router from <tensor = "w", rows = 4, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>

// -----

// Neither is a product per head.
// expected-error@+1 {{a matrix of a product per head is never quantized}}
moe.weight @w heads from <tensor = "w", rows = 4, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>

// -----

// Blocks divide the rows.
// expected-error@+1 {{a source of 4 rows in 3 blocks, expected a divisor}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16, blocks = 3>

// -----

// The tensors of shards have numbers in their names.
// expected-error@+1 {{a source in 2 shards without '*' in its tensor's name}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16, shards = 2>

// -----

// A part of stacked vectors is a vector.
// expected-error@+1 {{a source of 4 rows from 2 vectors, expected 1 row}}
moe.weight @w matrix from <tensor = "w", rows = 4, cols = 4, type = bf16, stackedVectors = 2>

// -----

// An activation has its numbers, and no others.
// expected-error@+1 {{the activation has alpha 0 and limit 0, expected positive numbers}}
moe.moe_layer @e layer 0 clamped_swiglu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]

// -----

// expected-error@+1 {{the activation has alpha 1.5 and limit 7, expected 0 and 0}}
moe.moe_layer @e layer 0 silu alpha 1.5 limit 7.0 experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]

// -----

// A MoE layer has at least one expert.
// expected-error@+1 {{has 0 experts, expected 1 to 65536}}
moe.moe_layer @e layer 0 silu experts 0 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]

// -----

// A MoE layer has at most as many experts as an artifact can hold: -1 reads as 2^32 - 1.
// expected-error@+1 {{has 4294967295 experts, expected 1 to 65536}}
moe.moe_layer @e layer 0 silu experts -1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]

// -----

// The matrices are gate, up and down, in this order.
// expected-error@+1 {{expected the matrices gate, up and down, in this order}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>]

// -----

// All three matrices are required.
// expected-error@+1 {{expected the matrices gate, up and down, in this order}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>]

// -----

// Up is shaped like gate.
// expected-error@+1 {{up is 96 x 32, expected 96 x 64 like gate}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 32, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]

// -----

// Down is the transposed shape of gate.
// expected-error@+1 {{down is 96 x 64, expected 64 x 96}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 96, cols = 64, type = bf16>]>]

// -----

// All experts of a layer have the same matrices.
// expected-error@+1 {{gate matrices of 96 x 64 and of 48 x 64 in one layer}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "a", rows = 96, cols = 64, type = bf16>, <tensor = "b", rows = 48, cols = 64, type = bf16>]>]

// -----

// One source for all experts, or one for each.
// expected-error@+1 {{gate has 2 sources, expected 1 or 3}}
moe.moe_layer @e layer 0 silu experts 3 matrices [#moe.expert_matrix<gate, [<tensor = "a", rows = 96, cols = 64, type = bf16>, <tensor = "b", rows = 96, cols = 64, type = bf16>]>]

// -----

// Every expert has an entry in the slices.
// expected-error@+1 {{has slices for 1 experts, expected 2}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = bf16>]]

// -----

// Every expert has at least one slice.
// expected-error@+1 {{expert 1 has no slices}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = bf16>], []]

// -----

// A low copy is quantized and has fewer bits.
// expected-error@+1 {{expert 0: a low copy of bf16, 16 bits, and a separate one of 16 bits}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = bf16>, #moe.format<kind = bf16>]]

// -----

// Widths of down are widths, one for each expert.
// expected-error@+1 {{expected down_bits of 8, 6, 5, 4, 3 or 2 for each of its 2 experts}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] bits [4, 4] down_bits [6, 7]

// -----

// Down has a width beside that of the others.
// expected-error@+1 {{has down_bits without bits, expected both or bits alone}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] down_bits [6]

// -----

// A kind of several planes is of experts only.
// expected-error@+1 {{stored as int6, which only experts are}}
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16> as <kind = int6, group = 32, activationGroup = 32>

// -----

// Down has formats beside those of the others.
// expected-error@+1 {{has down_slices without slices, expected both or slices alone}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] down_slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>]]

// -----

// Every expert has an entry in the slices of down.
// expected-error@+1 {{has down_slices for 1 experts, expected 2}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>], [#moe.format<kind = int2, group = 32, activationGroup = 32>]] down_slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>]]

// -----

// All matrices have the same slices.
// expected-error@+1 {{expert 0 has 0 down_slices, expected 1, one for each of its slices}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>]] down_slices [[]]

// -----

// The matrices of an expert are all quantized or all floats.
// expected-error@+1 {{expert 0: slice 0: gate and up of int2 with activation group 32 and down of bf16 with activation group 0}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>]] down_slices [[#moe.format<kind = bf16>]]

// -----

// All matrices of an expert have the Hadamard transform or none has.
// expected-error@+1 {{expert 0: slice 0: down lacks the Hadamard transform, unlike gate and up}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int2, group = 32, activationGroup = 32, hadamard = true>]] down_slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>]]

// -----

// So have all slices.
// expected-error@+1 {{expert 0: slice 1: lacks the Hadamard transform, unlike the slice that it refines}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int2, group = 32, activationGroup = 32, hadamard = true>, #moe.format<kind = int2, group = 32, activationGroup = 32, refines = true>]]

// -----

// The first slice of down refines nothing, as that of gate and up.
// expected-error@+1 {{expert 0: down: slice 0 refines another, there is none before it}}
moe.moe_layer @e layer 0 silu experts 1 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>]] down_slices [[#moe.format<kind = int0, group = 32, activationGroup = 32, refines = true>]]

// -----

// A slot of the KV cache is not empty.
// expected-error@+1 {{expected at least one head with keys of at least one element}}
moe.kv_slot @kv heads 2 key 0 value 16

// -----

// Values in keys are not int8.
// expected-error@+1 {{keeps values in keys of int8, expected f16 or f32}}
moe.kv_slot @kv heads 1 key 64 value 0 as int8

// -----

// A rotation has frequencies.
// expected-error@+1 {{a rotation without frequencies}}
moe.rope_table @r half factor 1.0 frequencies []

// -----

// A row has elements.
// expected-error@+1 {{1 rows of width 0}}
module attributes {x.y = !moe.row<f32, 0>} {}

// -----

// Only quantized rows have groups.
// expected-error@+1 {{a group in a row of f32}}
module attributes {x.y = !moe.row<f32, 64, group = 32>} {}

// -----

// Quantized rows have a group that the kernels support.
// expected-error@+1 {{a quantized row with group 0, expected 16, 32 or 64}}
module attributes {x.y = !moe.row<quantized, 64>} {}

// -----

// So have those of a transformed row.
// expected-error@+1 {{a quantized row with group 8, expected 16, 32 or 64}}
module attributes {x.y = !moe.row<hadamard, 64, group = 8>} {}

// -----

// A model has a type and sizes.
// expected-error@+1 {{a model without a type, or with a vocabulary, hidden size, layers or positions of 0}}
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 0, hidden = 64, layers = 2, maxPositions = 512, eos = [2], checkpoint = "c">} {}

// -----

// A plan has a name.
// expected-error@+1 {{plan '': the name is empty}}
module attributes {moe.plans = [#moe.plan<name = "", budgetBytes = 0, contextTokens = 1, prefillChunkTokens = 1, stagingPages = 0, quotaPages = []>]} {}

// -----

// A step has at least one token.
// expected-error@+1 {{plan 'p': prefill_chunk_tokens is 0, expected 1 to 1048576}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 0, stagingPages = 0, quotaPages = []>]} {}

// -----

// Quotas are numbers of pages.
// expected-error@+1 {{expected a number from 0 to 4294967295}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [-1]>]} {}

// -----

// A plan has a quota per MoE layer of the module.
// expected-error@+1 {{plan 'p' has quotas for 1 MoE layers, expected 0}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [4]>]} {}

// -----

// Plans are ordered from the largest budget; 0 means no limit.
// expected-error@+1 {{plan 'b' has a larger budget than the one before, expected the largest first}}
module attributes {moe.plans = [#moe.plan<name = "a", budgetBytes = 5, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = []>, #moe.plan<name = "b", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = []>]} {}

// -----

// Every element of the plans is a #moe.plan.
// expected-error@+1 {{'moe.plans' expected an array of #moe.plan}}
module attributes {moe.plans = [1 : i32]} {}

// -----

// A MoE layer without its number of experts is refused by its own verifier, not by the plan that names an expert.
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [4], pinned = [[1]]>]} {
  // expected-error@+1 {{requires attribute 'experts'}}
  "moe.moe_layer"() {sym_name = "e", layer = 0 : i32, activation = 0 : i32, matrices = []} : () -> ()
}

// -----

// Pages are powers of two.
// expected-error@+1 {{'moe.page_bytes' expected a power of two from 4 KiB to 1 MiB as i64}}
module attributes {moe.page_bytes = 5000 : i64} {}

// -----

// The model attribute has the type #moe.model.
// expected-error@+1 {{'moe.model' expected a #moe.model attribute}}
module attributes {moe.model = "tiny"} {}

// -----

// The width options are strings.
// expected-error@+1 {{'moe.expert_bits' expected a string}}
module attributes {moe.expert_bits = 4 : i32} {}

// -----

// A quantizer that fits needs what it fits to.
// expected-error@+1 {{quantizer gptq without a calibration profile, to which it fits}}
module attributes {moe.quantizer = #moe.quantizer<method = gptq, group = 32>} {}

// -----

// Groups have inputs.
// expected-error@+1 {{a quantizer with groups of 0 inputs, expected at least 1}}
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 0>} {}

// -----

// Levels have no offsets.
// expected-error@+1 {{a quantizer with offsets and levels, expected at most one of them}}
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, offsets = true, levels = true>} {}

// -----

// Nor have byte scales.
// expected-error@+1 {{a quantizer with offsets and byte scales, expected at most one of them}}
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, offsets = true, byteScales = true>} {}

// -----

// The quantizer has the type #moe.quantizer.
// expected-error@+1 {{'moe.quantizer' expected a #moe.quantizer attribute}}
module attributes {moe.quantizer = "gptq"} {}

// -----

// Measurements have the type #moe.measured.
// expected-error@+1 {{'moe.measured' expected a #moe.measured attribute}}
module attributes {moe.measured = "1%"} {}

// -----

// What chose the widths is a string.
// expected-error@+1 {{'moe.widths_by' expected a string}}
module attributes {moe.widths_by = 1 : i32} {}

// -----

// Windows are numbers of 32 bits.
// expected-error@+1 {{expected a number from 0 to 4294967295}}
module attributes {moe.x = #moe.measured<acceptanceTexts = [<name = "a", windows = [-1]>]>} {}

// -----

// The loss of a text is finite.
// expected-error@+1 {{measured: acceptance_texts 0: loss is inf, expected a finite number}}
module attributes {moe.x = #moe.measured<acceptanceTexts = [<name = "a", loss = 0x7FF0000000000000>]>} {}

// -----

// A field that does not exist is refused.
// expected-error@+1 {{unknown field 'speed'}}
module attributes {moe.x = #moe.measured<candidates = [<solver = "mckp", speed = 1>]>} {}

// -----

// A field is given once.
// expected-error@+1 {{the field 'units' appears twice}}
module attributes {moe.x = #moe.measured<units = 1, units = 2>} {}

// -----

// Enumerators have names.
// expected-error@+1 {{found 'fifo', expected one of lru, lfu, edgemoe, arc, least-stale, reuse-distance, weighted, importance}}
module attributes {moe.x = #moe.plan<name = "p", eviction = fifo>} {}

// -----

// A matrix has a width that resident matrices can have.
// expected-error@+1 {{has 6 bits, expected 16, 8 or 4 of a matrix}}
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16> bits 6

// -----

// Vectors have no width to choose.
// expected-error@+1 {{has 8 bits, expected 16, 8 or 4 of a matrix}}
moe.weight @w vector from <tensor = "w", rows = 1, cols = 64, type = bf16> bits 8

// -----

// Every expert has a width, or none.
// expected-error@+1 {{expected bits of 8, 6, 5, 4, 3 or 2 for each of its 2 experts}}
moe.moe_layer @experts layer 0 silu experts 2
  matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
  bits [4]

// -----

// Unknown attributes of the dialect are refused.
// expected-error@+1 {{unknown attribute 'moe.speed' of the dialect moe}}
module attributes {moe.speed = 4 : i32} {}

// -----

// Attributes of the model are on the module only.
// expected-error@+1 {{'moe.page_bytes' is an attribute of the module only}}
moe.kv_slot @kv heads 2 key 16 value 16 {moe.page_bytes = 4096 : i64}

// -----

// A layer has a number.
// expected-error@+1 {{'moe.layer' expected an i32 that is not negative}}
moe.kv_slot @kv heads 2 key 16 value 16 {moe.layer = -1 : i32}

// -----

// Offsets are in an arena.
// expected-error@+1 {{an offset of -64, expected 0 to 1099511627776}}
moe.kv_slot @kv heads 2 key 16 value 16 {moe.offsets = array<i64: -64>}

// -----

// Offsets are a dense array.
// expected-error@+1 {{'moe.offsets' expected an array of i64}}
moe.kv_slot @kv heads 2 key 16 value 16 {moe.offsets = [0]}

// -----

// States have elements.
// expected-error@+1 {{expected at least one row of at least one element}}
moe.state_slot @s rows 3 width 0

// -----

// All experts of a layer take the same input.
// expected-error@+1 {{has experts of bf16 and of int4 with different inputs; expected all float, or all quantized with one activation group}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
  slices [[#moe.format<kind = bf16>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]

// -----

// So all or none of them have the Hadamard transform.
// expected-error@+1 {{has experts of int8 and of int4 with different inputs}}
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
  slices [[#moe.format<kind = int8, group = 32, activationGroup = 32, hadamard = true>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]

// -----

// The uses of a start refer to at least one token.
// expected-error@+1 {{plan 'p': start_tokens is 0, expected 1 to 4294967295}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [], startTokens = 0>]} {}

// -----

// Lists have elements of the right kind.
// expected-error@+1 {{expected '['}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [0], pinned = [1]>]} {
  moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}

// -----

// Experts are pinned once.
// expected-error@+1 {{plan 'p': pins of MoE layer 0: expert 1 is listed twice}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [0], pinned = [[1, 1]]>]} {
  moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}

// -----

// There is a prefetch rule for each MoE layer.
// expected-error@+1 {{plan 'p': prefetch rules of 2 layers, expected none or 1}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [0], prefetches = [<>, <>]>]} {
  moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}

// -----

// Pinned experts exist.
// expected-error@+1 {{plan 'p' names expert 2 of MoE layer 0, which has 2}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [0], pinned = [[2]]>]} {
  moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}

// -----

// The experts that the cache starts with exist.
// expected-error@+1 {{plan 'p' names expert 3 of MoE layer 0, which has 2}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [0], start = [<experts = [0, 3], uses = [1, 1]>]>]} {
  moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}

// -----

// The first layer has no earlier layer to predict it.
// expected-error@+1 {{plan 'p' predicts MoE layer 0 1 ahead, but no MoE layer is that far before it}}
module attributes {moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunkTokens = 1, stagingPages = 0, quotaPages = [0], prefetches = [<predictor = gate, candidates = 1, reads = 1>]>]} {
  moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}

// -----

// A prediction is one to three MoE layers ahead.
// expected-error@+1 {{plan 'p': prefetches 0: ahead is 4, expected 1 to 3}}
module attributes {x.y = #moe.plan<name = "p", contextTokens = 8, prefillChunkTokens = 1, quotaPages = [0], prefetches = [<predictor = gate, ahead = 4>]>} {}

// -----

// An activation-path table predicts the next MoE layer.
// expected-error@+1 {{plan 'p': prefetches 0: the activation-path table predicts 2 ahead, expected 1}}
module attributes {x.y = #moe.plan<name = "p", contextTokens = 8, prefillChunkTokens = 1, quotaPages = [0], prefetches = [<predictor = paths, ahead = 2, candidates = 1, reads = 1>]>} {}

// -----

// Only candidates are read.
// expected-error@+1 {{plan 'p': prefetches 0: reads is 3, expected 1 to 2}}
module attributes {x.y = #moe.plan<name = "p", contextTokens = 8, prefillChunkTokens = 1, quotaPages = [0], prefetches = [<predictor = gate, candidates = 2, reads = 3>]>} {}

// -----

// A start has a number of uses for each expert.
// expected-error@+1 {{plan 'p': start of MoE layer 0: uses of 1 experts, expected 2}}
module attributes {x.y = #moe.plan<name = "p", contextTokens = 8, prefillChunkTokens = 1, quotaPages = [0], start = [<experts = [0, 1], uses = [1]>]>} {}
