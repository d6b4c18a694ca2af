// RUN: split-file %s %t
// RUN: moec-opt %t/model.mlir --moe-assign-bits=widths=%t/nested.txt | FileCheck %s --check-prefix=NESTED
// RUN: moec-opt %t/model.mlir --moe-assign-bits=widths=%t/alone.txt | FileCheck %s --check-prefix=ALONE
// RUN: moec-opt %t/model.mlir --moe-assign-bits=widths=%t/row.txt | FileCheck %s --check-prefix=ROW
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/half.txt 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/groups.txt 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/missing.txt 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/twice.txt 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/five.txt 2>&1 | FileCheck %s --check-prefix=FIVE
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/expert.txt 2>&1 | FileCheck %s --check-prefix=EXPERT
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/matrix.txt 2>&1 | FileCheck %s --check-prefix=MATRIX
// RUN: not moec-opt %t/model.mlir --moe-assign-bits=widths=%t/none.txt 2>&1 | FileCheck %s --check-prefix=NONE

// 3 bits are slices of 2 and 1; 8 are 2, 2 and 4. Named matrices get their width, others the option's, 8.
// NESTED: moe.expert_bits = "auto"
// NESTED-SAME: moe.resident_bits = "auto"
// NESTED: @named matrix {{.*}} as #int4g32a32
// NESTED: @other matrix {{.*}} as #int8g32a32
// NESTED: @experts {{.*}} slices {{\[\[}}#int2g32a32, #int1g32a32r], [#int2g32a32, #int2g32a32r, #int4g32a32r]]

// Without `nested` 8 bits are one slice.
// ALONE: @experts {{.*}} slices {{\[\[}}#int2g32a32o], [#int8g32a32]]

// The group of the file applies to experts only: 96 inputs are a whole row of each matrix.
// ROW: @named matrix {{.*}} as #int8g32a32
// ROW: @experts {{.*}} slices {{\[\[}}#int4g96a32], [#int4g96a32]]
// HALF: half.txt:2: 'group 0'
// GROUPS: groups.txt:3: 'group 64'

// MISSING: missing.txt has no width for expert 1 of layer 0
// TWICE: twice.txt:3: 'expert 0 0 2'
// FIVE: 5
// EXPERT: expert.txt has a width for expert 2 of layer 0, which does not exist
// MATRIX: matrix.txt has a width for the matrix nmaed, which does not exist
// NONE: none.txt: cannot be read

//--- nested.txt
moe-widths 1
nested
expert 0 0 3
expert 0 1 8
weight named 4
//--- alone.txt
moe-widths 1
expert 0 0 2 offsets
expert 0 1 8
//--- row.txt
moe-widths 1
group 96
expert 0 0 4
expert 0 1 4
//--- half.txt
moe-widths 1
group 0
//--- groups.txt
moe-widths 1
group 96
group 64
//--- missing.txt
moe-widths 1
expert 0 0 2
//--- twice.txt
moe-widths 1
expert 0 0 4
expert 0 0 2
//--- five.txt
moe-widths 1
expert 0 0 5
expert 0 1 5
//--- expert.txt
moe-widths 1
expert 0 0 4
expert 0 1 4
expert 0 2 4
//--- matrix.txt
moe-widths 1
expert 0 0 4
expert 0 1 4
weight nmaed 4
//--- model.mlir
module {
  moe.weight @named matrix from <tensor = "a", rows = 64, cols = 64, type = bf16>
  moe.weight @other matrix from <tensor = "b", rows = 64, cols = 64, type = bf16>
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
}
