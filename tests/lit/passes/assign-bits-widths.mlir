// RUN: split-file %s %t
// RUN: moec-opt %t/nested.mlir --moe-assign-bits | FileCheck %s --check-prefix=NESTED
// RUN: moec-opt %t/alone.mlir --moe-assign-bits=nested=true | FileCheck %s --check-prefix=ALONE
// RUN: moec-opt %t/row.mlir --moe-assign-bits | FileCheck %s --check-prefix=ROW
// RUN: moec-opt %t/levels.mlir --moe-assign-bits | FileCheck %s --check-prefix=LEVELS
// RUN: moec-opt %t/bytes.mlir --moe-assign-bits | FileCheck %s --check-prefix=BYTES
// RUN: moec-opt %t/hadamard.mlir --moe-assign-bits | FileCheck %s --check-prefix=HADAMARD
// RUN: moec-opt %t/feedback.mlir --moe-assign-bits | FileCheck %s --check-prefix=FEEDBACK
// RUN: moec-opt %t/transformed-copy.mlir --moe-assign-bits=low-copy=2 | FileCheck %s --check-prefix=TRANSFORMED-COPY
// RUN: moec-opt %t/alone.mlir --moe-assign-bits=low-copy=2 | FileCheck %s --check-prefix=COPY
// RUN: moec-opt %t/source.mlir --moe-assign-bits="bits=source low-copy=4" | FileCheck %s --check-prefix=SOURCE
// RUN: not moec-opt %t/nested.mlir --moe-assign-bits=low-copy=2 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not moec-opt %t/alone.mlir --moe-assign-bits=low-copy=3 2>&1 | FileCheck %s --check-prefix=WIDTH
// RUN: not moec-opt %t/transformed-copy.mlir --moe-assign-bits="bits=source low-copy=2" 2>&1 | FileCheck %s --check-prefix=FLOATS
// RUN: not moec-opt %t/half.mlir --moe-assign-bits 2>&1 | FileCheck %s --check-prefix=HALF

// 3 bits are slices of 2 and 1; 8 are 2, 2 and 4. Chosen matrices get their width, others the option's, 8.
// NESTED: moe.expert_bits = "auto"
// NESTED-SAME: moe.resident_bits = "auto"
// NESTED: @named matrix {{.*}} bits 4 as #int4g32a32
// NESTED: @other matrix {{.*}} as #int8g32a32
// NESTED: @experts {{.*}} bits [3, 8] slices {{\[\[}}#int2g32a32, #int1g32a32r], [#int2g32a32, #int2g32a32r, #int4g32a32r]]

// A quantizer's nesting and offsets override the options': 2 and 8 bits are one slice each.
// ALONE: @experts {{.*}} slices {{\[\[}}#int2g32a32o], [#int8g32a32o]]

// The quantizer's group applies to experts only: 96 inputs are a whole row of each matrix.
// ROW: @named matrix {{.*}} as #int8g32a32
// ROW: @experts {{.*}} slices {{\[\[}}#int4g96a32], [#int4g96a32]]

// Non-linear codes have up to 4 bits; in slices, the first one has their kind.
// LEVELS: @experts {{.*}} bits [2, 3, 4, 5] slices {{\[\[}}#nl2g32a32], [#nl2g32a32, #int1g32a32r], [#nl2g32a32, #int2g32a32r], [#int2g32a32, #int2g32a32r, #int1g32a32r]]

// Byte scales are those of the first slice.
// BYTES: @experts {{.*}} bits [3, 5] slices {{\[\[}}#nl2g32a32b, #int1g32a32r], [#int2g32a32b, #int2g32a32r, #int1g32a32r]]

// All slices of all experts have the Hadamard transform, also where they hold nothing; without error feedback no
// resident weight has it.
// HADAMARD: @named matrix {{.*}} as #int8g32a32{{$}}
// HADAMARD: @router router {{.*}} as #bf16{{$}}
// FLOATS: low copies beside experts of bits=source with the Hadamard transform, expected a quantizer without it
// HADAMARD: @experts {{.*}} slices {{\[\[}}#nl2g32a32bh, #int2g32a32rh, #int0g32a32rh], [#nl2g32a32bh, #int1g32a32rh]] down_slices {{\[\[}}#int2g32a32bh, #int2g32a32rh, #int1g32a32rh], [#nl2g32a32bh, #int1g32a32rh]]
// So have low copies.
// TRANSFORMED-COPY: @experts {{.*}} slices {{\[\[}}#nl2g32a32bh, #nl2g32a32bh, #int1g32a32rh], [#nl2g32a32bh]]

// With error feedback resident matrices have the codes of experts, in one slice. Rows of an embedding are not transformed.
// FEEDBACK: @embedding matrix {{.*}} as #int8g32a32b{{$}}
// FEEDBACK: @named matrix {{.*}} bits 4 as #nl4g32a32bh{{$}}
// FEEDBACK: @other matrix {{.*}} as #int8g32a32bh{{$}}
// FEEDBACK: @router router {{.*}} as #bf16{{$}}

// A wider expert has a low copy of the quantizer, which comes first; the expert of 2 bits has none.
// COPY: @experts {{.*}} slices {{\[\[}}#int2g32a32o], [#int2g32a32o, #int8g32a32o]]

// MXFP4 has 4 bits.
// SOURCE: @floats {{.*}} slices {{\[\[}}#int4g32a32, #bf16]]
// SOURCE: @mxfp4 {{.*}} slices {{\[\[}}#mxfp4]]

// MANY: expert 1: 4 slices, expected 1 to 3
// WIDTH: moe-assign-bits: low copies of 3 bits, expected 2, 4 or 8

// A group is a multiple of the activation group.
// HALF: weight group 48, expected a multiple of the activation group 32

//--- nested.mlir
module {
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16> bits 4
  moe.weight @other matrix from <tensor = "b", rows = 64, cols = 64, type = bf16>
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [3, 8]
}
//--- source.mlir
module {
  moe.moe_layer @floats layer 0 silu experts 1
    matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
  moe.moe_layer @mxfp4 layer 1 silu experts 1
    matrices [#moe.expert_matrix<gate, [<tensor = "h", rows = 96, cols = 64, type = mxfp4>]>,
              #moe.expert_matrix<up, [<tensor = "v", rows = 96, cols = 64, type = mxfp4>]>,
              #moe.expert_matrix<down, [<tensor = "e", rows = 64, cols = 96, type = mxfp4>]>]
}
//--- alone.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, offsets = true>} {
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16>
  moe.weight @other matrix from <tensor = "b", rows = 64, cols = 64, type = bf16>
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [2, 8]
}
//--- row.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 96>} {
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16>
  moe.weight @other matrix from <tensor = "b", rows = 64, cols = 64, type = bf16>
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [4, 4]
}
//--- levels.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, levels = true, nested = true>} {
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16>
  moe.weight @other matrix from <tensor = "b", rows = 64, cols = 64, type = bf16>
  moe.moe_layer @experts layer 0 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [2, 3, 4, 5]
}
//--- bytes.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, levels = true, byteScales = true, nested = true>} {
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [3, 5]
}
//--- hadamard.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, levels = true, byteScales = true, hadamard = true, nested = true>} {
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16>
  moe.weight @router router from <tensor = "b", rows = 2, cols = 64, type = bf16>
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [4, 3] down_bits [5, 3]
}
//--- feedback.mlir
module attributes {moe.quantizer = #moe.quantizer<method = gptq, group = 32, levels = true, byteScales = true, hadamard = true, calibration = "p">} {
  moe.weight @embedding matrix from <tensor = "e", rows = 96, cols = 64, type = bf16>
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16> bits 4
  moe.weight @other matrix from <tensor = "b", rows = 64, cols = 64, type = bf16>
  moe.weight @router router from <tensor = "b", rows = 2, cols = 64, type = bf16>
  moe.program @decode {
    %h = moe.embed weight @embedding scale 1.0 : () -> !moe.row<f32, 64>
    moe.head %h weight @embedding scale 1.0 : (!moe.row<f32, 64>) -> ()
  }
}
//--- transformed-copy.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, levels = true, byteScales = true, hadamard = true, nested = true>} {
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [3, 2]
}
//--- half.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 48>} {
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16>
  moe.weight @other matrix from <tensor = "b", rows = 64, cols = 64, type = bf16>
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [4, 4]
}
