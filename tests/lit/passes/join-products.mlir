// Which instructions are computed together, and where reads begin.
// RUN: moec-opt %s --moe-join-products | FileCheck %s
// A second run has the same result.
// RUN: moec-opt %s --moe-join-products --moe-join-products | FileCheck %s

!f32x2 = !moe.row<f32, 2>
!f32x64 = !moe.row<f32, 64>
!i32x1 = !moe.row<i32, 1>
!f32x1 = !moe.row<f32, 1>
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 0 silu experts 2
  matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
moe.moe_layer @f layer 1 silu experts 2
  matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]

// CHECK-LABEL: moe.program @decode
moe.program @decode {
  %h = moe.embed weight @w scale 1.0 : () -> !f32x64
  // At most four together; the fifth begins a run, which ends with the layer, with another source and with another instruction.
  // CHECK: moe.linear %[[H:.*]] weight @w {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.linear %[[H]] weight @w joined {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.linear %[[H]] weight @w joined {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.linear %[[H]] weight @w joined {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.linear %[[H]] weight @w {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.linear %[[H]] weight @w joined {moe.layer = 0 : i32}
  // CHECK-NEXT: %[[G:.*]] = moe.linear %[[H]] weight @w {moe.layer = 1 : i32}
  // CHECK-NEXT: moe.linear %[[G]] weight @w {moe.layer = 1 : i32}
  %a = moe.linear %h weight @w {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
  %b = moe.linear %h weight @w {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
  %c = moe.linear %h weight @w {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
  %d = moe.linear %h weight @w {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
  %e = moe.linear %h weight @w {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
  %f = moe.linear %h weight @w {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
  %g = moe.linear %h weight @w {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
  %i = moe.linear %g weight @w {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
  // The reads of the first experts begin after the last prediction, those of the second after their route.
  // CHECK: moe.route {{.*}} moeLayer @e weightScale 1.000000e+00 :
  // CHECK-NEXT: moe.predict {{.*}} moeLayer @f ahead 1 :
  // CHECK-NEXT: moe.predict {{.*}} moeLayer @f ahead 1 joined beginsReads :
  // CHECK: moe.experts
  // CHECK: moe.linear %{{.*}} weight @r role router :
  // CHECK: moe.route {{.*}} moeLayer @f weightScale 1.000000e+00 beginsReads :
  %s = moe.linear %i weight @r role router : (!f32x64) -> !f32x2
  %j, %p = moe.route %s moeLayer @e weightScale 1.0 : (!f32x2) -> (!i32x1, !f32x1)
  moe.predict %i weight @r moeLayer @f ahead 1 : (!f32x64) -> ()
  moe.predict %i weight @r moeLayer @f ahead 1 : (!f32x64) -> ()
  %x = moe.experts %i, %j, %p moeLayer @e : (!f32x64, !i32x1, !f32x1) -> !f32x64
  %t = moe.linear %i weight @r role router : (!f32x64) -> !f32x2
  %k, %q = moe.route %t moeLayer @f weightScale 1.0 : (!f32x2) -> (!i32x1, !f32x1)
  %y = moe.experts %x, %k, %q moeLayer @f : (!f32x64, !i32x1, !f32x1) -> !f32x64
  moe.head %y weight @w scale 1.0 : (!f32x64) -> ()
}
