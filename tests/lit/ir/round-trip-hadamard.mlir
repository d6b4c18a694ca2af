// Formats and rows with the Hadamard transform, printed and read again: as text, as generic text and as bytecode.
// RUN: moec-opt %s | moec-opt | FileCheck %s
// RUN: moec-opt %s --mlir-print-op-generic | moec-opt | FileCheck %s
// RUN: moec-opt %s --emit-bytecode -o %t.bc
// RUN: moec-opt %t.bc | FileCheck %s

// CHECK-DAG: #int2g32a32oh = #moe.format<kind = int2, group = 32, activationGroup = 32, offsets = true, hadamard = true>
// CHECK-DAG: #int2g32a32rh = #moe.format<kind = int2, group = 32, activationGroup = 32, refines = true, hadamard = true>
// CHECK-DAG: #nl4g32a32bh = #moe.format<kind = nl4, group = 32, activationGroup = 32, byteScales = true, hadamard = true>
// CHECK-DAG: !hadamardx64g32 = !moe.row<hadamard, 64, group = 32>

module {
  moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @router router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
  // CHECK: moe.moe_layer @experts layer 0
  // CHECK-SAME: slices {{\[\[}}#int2g32a32oh, #int2g32a32rh], [#nl4g32a32bh]]
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "a.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "b.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "c.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int2, group = 32, activationGroup = 32, offsets = true, hadamard = true>,
             #moe.format<kind = int2, group = 32, activationGroup = 32, refines = true, hadamard = true>],
            [#moe.format<kind = nl4, group = 32, activationGroup = 32, byteScales = true, hadamard = true>]]

  // CHECK-LABEL: moe.program @instructions
  moe.program @instructions {
    %h = moe.embed weight @embedding scale 1.0 : () -> !moe.row<f32, 64>
    // CHECK: moe.quantize %{{.*}} : (!f32x64) -> !hadamardx64g32
    %t = moe.quantize %h : (!moe.row<f32, 64>) -> !moe.row<hadamard, 64, group = 32>
    %s = moe.linear %h weight @router role router : (!moe.row<f32, 64>) -> !moe.row<f32, 2>
    %e, %w = moe.route %s moeLayer @experts weightScale 1.0 : (!moe.row<f32, 2>) -> (!moe.row<i32, 2>, !moe.row<f32, 2>)
    // CHECK: moe.experts {{.*}} : (!hadamardx64g32, !i32x2, !f32x2) -> !f32x64
    %x = moe.experts %t, %e, %w moeLayer @experts
      : (!moe.row<hadamard, 64, group = 32>, !moe.row<i32, 2>, !moe.row<f32, 2>) -> !moe.row<f32, 64>
    moe.head %x weight @embedding scale 1.0 : (!moe.row<f32, 64>) -> ()
  }
}
