// The experts' down with a width of its own.
// RUN: split-file %s %t
// RUN: moec-opt %t/plain.mlir --moe-assign-bits="bits=4 down-bits=6" | FileCheck %s --check-prefix=WIDER
// RUN: moec-opt %t/plain.mlir --moe-assign-bits="bits=4 down-bits=6 nested=false" | FileCheck %s --check-prefix=WHOLE
// RUN: moec-opt %t/plain.mlir --moe-assign-bits="bits=8 down-bits=2 nested=false" | FileCheck %s --check-prefix=FEWER
// RUN: moec-opt %t/plain.mlir --moe-assign-bits="bits=4 down-bits=4" | FileCheck %s --check-prefix=SAME
// A second run replaces the results of the first.
// RUN: moec-opt %t/plain.mlir --moe-assign-bits="bits=4 down-bits=6" --moe-assign-bits | FileCheck %s --check-prefix=SAME
// RUN: moec-opt %t/plain.mlir --moe-assign-bits="bits=8 down-bits=4 nested=false low-copy=2" | FileCheck %s --check-prefix=COPY
// RUN: moec-opt %t/plain.mlir --moe-assign-bits="bits=8 down-bits=2 nested=false low-copy=4" | FileCheck %s --check-prefix=NO-COPY
// RUN: moec-opt %t/chosen.mlir --moe-assign-bits=down-bits=8 | FileCheck %s --check-prefix=CHOSEN
// RUN: moec-opt %t/levels.mlir --moe-assign-bits | FileCheck %s --check-prefix=LEVELS
// RUN: not moec-opt %t/plain.mlir --moe-assign-bits=down-bits=7 2>&1 | FileCheck %s --check-prefix=WIDTH
// RUN: not moec-opt %t/plain.mlir --moe-assign-bits="bits=source down-bits=4" 2>&1 | FileCheck %s --check-prefix=SOURCE

// 4 bits are slices of 2 and 2; 6 are 2, 2 and 2: gate and up have nothing in the third slice.
// WIDER: moe.expert_bits = "4", moe.expert_down_bits = "6"
// WIDER: @experts {{.*}} slices {{\[\[}}#int2g32a32, #int2g32a32r, #int0g32a32r]] down_slices {{\[\[}}#int2g32a32, #int2g32a32r, #int2g32a32r]]

// Without nesting, all matrices are one slice.
// WHOLE: @experts {{.*}} slices {{\[\[}}#int4g32a32]] down_slices {{\[\[}}#int6g32a32]]

// FEWER: @experts {{.*}} slices {{\[\[}}#int8g32a32]] down_slices {{\[\[}}#int2g32a32]]

// SAME: module attributes {moe.expert_bits = "4", moe.resident_bits = "8"}
// SAME: @experts {{.*}} slices {{\[\[}}#int2g32a32, #int2g32a32r]]{{$}}

// A low copy has one width; an expert has it if all of its matrices have more bits.
// COPY: @experts {{.*}} slices {{\[\[}}#int2g32a32, #int8g32a32]] down_slices {{\[\[}}#int2g32a32, #int4g32a32]]
// NO-COPY: @experts {{.*}} slices {{\[\[}}#int8g32a32]] down_slices {{\[\[}}#int2g32a32]]

// Chosen widths override the option. Each expert has the slices of its widest matrix.
// CHOSEN: module attributes {moe.expert_bits = "auto", moe.resident_bits = "8"}
// CHOSEN: @experts {{.*}} bits [3, 2] down_bits [3, 4] slices {{\[\[}}#int2g32a32, #int1g32a32r], [#int2g32a32, #int0g32a32r]] down_slices {{\[\[}}#int2g32a32, #int1g32a32r], [#int2g32a32, #int2g32a32r]]

// Widths of up to 4 bits have non-linear codes, in each matrix by its own width.
// LEVELS: @experts {{.*}} slices {{\[\[}}#nl4g32a32b], [#nl2g32a32b]] down_slices {{\[\[}}#int6g32a32b], [#nl3g32a32b]]

// WIDTH: moe-assign-bits: down of 7 bits, expected 8, 6, 5, 4, 3 or 2, or 0: as bits
// SOURCE: moe-assign-bits: down of 4 bits in experts of bits=source, expected bits of 8, 6, 5, 4, 3 or 2

//--- plain.mlir
module {
  moe.moe_layer @experts layer 0 silu experts 1
    matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}
//--- chosen.mlir
module {
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [3, 2] down_bits [3, 4]
}
//--- levels.mlir
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, levels = true, byteScales = true>} {
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    bits [4, 2] down_bits [6, 3]
}
