// Rows that products with quantized weights read: one quantized copy of each kind after CSE, however many read it.
// RUN: moec-opt %s --moe-assign-bits --cse | FileCheck %s
// Widths of another choice replace the copies.
// RUN: moec-opt %s --moe-assign-bits="resident-bits=16 nested=false" --moe-assign-bits --cse | FileCheck %s

!f32x1 = !moe.row<f32, 1>
!f32x2 = !moe.row<f32, 2>
!f32x64 = !moe.row<f32, 64>
!i32x2 = !moe.row<i32, 2>
module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, levels = true, byteScales = true, hadamard = true, nested = true>} {
  moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16>
  moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
  moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
  moe.weight @g router from <tensor = "g", rows = 1, cols = 64, type = bf16>
  moe.moe_layer @e layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]

  // Routed experts with the Hadamard transform take the transformed row, resident products the row itself, routers and gates
  // floats.
  // CHECK-LABEL: moe.program @decode
  // CHECK-NEXT: %[[H:.*]] = moe.embed
  // CHECK-NEXT: %[[S:.*]] = moe.linear %[[H]] weight @r role router
  // CHECK-NEXT: %[[E:.*]], %[[W:.*]] = moe.route %[[S]]
  // CHECK-NEXT: %[[Q:.*]] = moe.quantize %[[H]] : (!f32x64) -> !quantizedx64g32
  // CHECK-NEXT: moe.linear %[[Q]] weight @w
  // CHECK-NEXT: moe.linear %[[Q]] weight @v
  // CHECK-NEXT: moe.linear %[[H]] weight @g
  // CHECK-NEXT: moe.gate_rows
  // CHECK-NEXT: moe.add
  // CHECK-NEXT: %[[T:.*]] = moe.quantize %[[H]] : (!f32x64) -> !hadamardx64g32
  // CHECK-NEXT: moe.experts %[[T]], %[[E]], %[[W]] moeLayer @e : (!hadamardx64g32, !i32x2, !f32x2) -> !f32x64
  // CHECK-NEXT: %[[X:.*]] = moe.add
  // CHECK-NEXT: %[[XQ:.*]] = moe.quantize %[[X]]
  // CHECK-NEXT: moe.head %[[XQ]]
  moe.program @decode {
    %h = moe.embed weight @w scale 1.0 : () -> !f32x64
    %s = moe.linear %h weight @r role router : (!f32x64) -> !f32x2
    %e, %p = moe.route %s moeLayer @e weightScale 1.0 : (!f32x2) -> (!i32x2, !f32x2)
    %a = moe.linear %h weight @w : (!f32x64) -> !f32x64
    %b = moe.linear %h weight @v : (!f32x64) -> !f32x64
    %o = moe.linear %h weight @g : (!f32x64) -> !f32x1
    %g = moe.gate_rows %a, %o : (!f32x64, !f32x1) -> !f32x64
    %c = moe.add %g, %b scale 1.0 : (!f32x64, !f32x64) -> !f32x64
    %d = moe.experts %h, %e, %p moeLayer @e : (!f32x64, !i32x2, !f32x2) -> !f32x64
    %x = moe.add %d, %c scale 1.0 : (!f32x64, !f32x64) -> !f32x64
    moe.head %x weight @w scale 1.0 : (!f32x64) -> ()
  }
}
