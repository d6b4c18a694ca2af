// RUN: moec-opt %s --moe-place-predictors | FileCheck %s
// A second run has the same result.
// RUN: moec-opt %s --moe-place-predictors --moe-place-predictors | FileCheck %s
// RUN: moec-opt %s --moe-place-predictors="ahead=1" | FileCheck %s --check-prefix=ONE
// RUN: moec-opt %s --moe-place-predictors --moe-place-predictors="ahead=0" | FileCheck %s --check-prefix=NONE
// RUN: moec-opt %s --moe-place-predictors --moe-join-products --moe-bufferize | FileCheck %s --check-prefix=PLAYED
// RUN: not moec-opt %s --moe-place-predictors="ahead=4" 2>&1 | FileCheck %s --check-prefix=FAR

// FAR: error: predictions are placed 4 MoE layers ahead, expected at most 3

!f32x2 = !moe.row<f32, 2>
!f32x4 = !moe.row<f32, 4>
!f32x64 = !moe.row<f32, 64>
!i32x2 = !moe.row<i32, 2>
!quantizedx64g32 = !moe.row<quantized, 64, group = 32>
#int4 = #moe.format<kind = int4, group = 32, activationGroup = 32>
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 6, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.weight @ra router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @a layer 0 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rb router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @b layer 1 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rc router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @c layer 3 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rd router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @d layer 4 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @re router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @e layer 5 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>

  // Layer 2 of the model has no routed experts: it is not counted.
  // CHECK-LABEL: moe.program @decode
  // ONE-LABEL: moe.program @decode
  // NONE-LABEL: moe.program @decode
  moe.program @decode {
    %x = moe.embed weight @w scale 1.0 : () -> !f32x64
    %s1 = moe.linear %x weight @ra role router {moe.layer = 0 : i32} : (!f32x64) -> !f32x4
    %ea, %wa = moe.route %s1 moeLayer @a renormalize weightScale 1.0 {moe.layer = 0 : i32} : (!f32x4) -> (!i32x2, !f32x2)
    // CHECK: moe.route {{.*}} moeLayer @a
    // ONE: moe.route {{.*}} moeLayer @a
    // CHECK-NEXT: moe.predict %[[X:.*]] weight @rb moeLayer @b ahead 1 {moe.layer = 0 : i32} : (!f32x64) -> ()
    // ONE-NEXT: moe.predict {{.*}} moeLayer @b ahead 1
    // CHECK-NEXT: moe.predict %[[X]] weight @rc moeLayer @c ahead 2 {moe.layer = 0 : i32} : (!f32x64) -> ()
    // CHECK-NEXT: moe.predict %[[X]] weight @rd moeLayer @d ahead 3 {moe.layer = 0 : i32} : (!f32x64) -> ()
    // CHECK: moe.experts {{.*}} moeLayer @a
    // ONE: moe.experts {{.*}} moeLayer @a
    %xq = moe.quantize %x : (!f32x64) -> !quantizedx64g32
    %ya = moe.experts %xq, %ea, %wa moeLayer @a : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %s2 = moe.linear %x weight @rb role router {moe.layer = 1 : i32} : (!f32x64) -> !f32x4
    %eb, %wb = moe.route %s2 moeLayer @b renormalize weightScale 1.0 {moe.layer = 1 : i32} : (!f32x4) -> (!i32x2, !f32x2)
    // CHECK: moe.route {{.*}} moeLayer @b
    // ONE: moe.route {{.*}} moeLayer @b
    // CHECK-NEXT: moe.predict %[[X]] weight @rc moeLayer @c ahead 1 {moe.layer = 1 : i32} : (!f32x64) -> ()
    // ONE-NEXT: moe.predict {{.*}} moeLayer @c ahead 1
    // CHECK-NEXT: moe.predict %[[X]] weight @rd moeLayer @d ahead 2 {moe.layer = 1 : i32} : (!f32x64) -> ()
    // CHECK-NEXT: moe.predict %[[X]] weight @re moeLayer @e ahead 3 {moe.layer = 1 : i32} : (!f32x64) -> ()
    // CHECK: moe.experts {{.*}} moeLayer @b
    // ONE: moe.experts {{.*}} moeLayer @b
    %yb = moe.experts %xq, %eb, %wb moeLayer @b : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %s3 = moe.linear %x weight @rc role router {moe.layer = 3 : i32} : (!f32x64) -> !f32x4
    %ec, %wc = moe.route %s3 moeLayer @c renormalize weightScale 1.0 {moe.layer = 3 : i32} : (!f32x4) -> (!i32x2, !f32x2)
    // CHECK: moe.route {{.*}} moeLayer @c
    // ONE: moe.route {{.*}} moeLayer @c
    // CHECK-NEXT: moe.predict %[[X]] weight @rd moeLayer @d ahead 1 {moe.layer = 3 : i32} : (!f32x64) -> ()
    // ONE-NEXT: moe.predict {{.*}} moeLayer @d ahead 1
    // CHECK-NEXT: moe.predict %[[X]] weight @re moeLayer @e ahead 2 {moe.layer = 3 : i32} : (!f32x64) -> ()
    // CHECK: moe.experts {{.*}} moeLayer @c
    // ONE: moe.experts {{.*}} moeLayer @c
    %yc = moe.experts %xq, %ec, %wc moeLayer @c : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %s4 = moe.linear %x weight @rd role router {moe.layer = 4 : i32} : (!f32x64) -> !f32x4
    %ed, %wd = moe.route %s4 moeLayer @d renormalize weightScale 1.0 {moe.layer = 4 : i32} : (!f32x4) -> (!i32x2, !f32x2)
    // CHECK: moe.route {{.*}} moeLayer @d
    // ONE: moe.route {{.*}} moeLayer @d
    // CHECK-NEXT: moe.predict %[[X]] weight @re moeLayer @e ahead 1 {moe.layer = 4 : i32} : (!f32x64) -> ()
    // ONE-NEXT: moe.predict {{.*}} moeLayer @e ahead 1
    // CHECK: moe.experts {{.*}} moeLayer @d
    // ONE: moe.experts {{.*}} moeLayer @d
    %yd = moe.experts %xq, %ed, %wd moeLayer @d : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %s5 = moe.linear %x weight @re role router {moe.layer = 5 : i32} : (!f32x64) -> !f32x4
    %ee, %we = moe.route %s5 moeLayer @e renormalize weightScale 1.0 {moe.layer = 5 : i32} : (!f32x4) -> (!i32x2, !f32x2)
    // CHECK: moe.route {{.*}} moeLayer @e
    // ONE: moe.route {{.*}} moeLayer @e
    // CHECK: moe.experts {{.*}} moeLayer @e
    // ONE: moe.experts {{.*}} moeLayer @e
    %ye = moe.experts %xq, %ee, %we moeLayer @e : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    // NONE-NOT: moe.predict
    moe.head %x weight @w scale 1.0 : (!f32x64) -> ()
  }

  // Prefill has no predictions.
  // CHECK-LABEL: moe.program @prefill
  // CHECK-NOT: moe.predict
  moe.program @prefill {
    %x = moe.embed weight @w scale 1.0 : () -> !f32x64
    %s6 = moe.linear %x weight @ra role router {moe.layer = 0 : i32} : (!f32x64) -> !f32x4
    %ea, %wa = moe.route %s6 moeLayer @a renormalize weightScale 1.0 {moe.layer = 0 : i32} : (!f32x4) -> (!i32x2, !f32x2)
    %xq = moe.quantize %x : (!f32x64) -> !quantizedx64g32
    %ya = moe.experts %xq, %ea, %wa moeLayer @a : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %s7 = moe.linear %x weight @rb role router {moe.layer = 1 : i32} : (!f32x64) -> !f32x4
    %eb, %wb = moe.route %s7 moeLayer @b renormalize weightScale 1.0 {moe.layer = 1 : i32} : (!f32x4) -> (!i32x2, !f32x2)
    %yb = moe.experts %xq, %eb, %wb moeLayer @b : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    moe.head %x weight @w scale 1.0 : (!f32x64) -> ()
  }

  // One product computes the scores of consecutive predictions, so these do not overlap: 4 floats each from a multiple of
  // 64 bytes on, reusing the bytes of the layer's own router scores; other layers reuse the same bytes.
  // PLAYED-LABEL: moe.program @decode
  // PLAYED: moe.route {{.*}} moeLayer @a
  // PLAYED-NEXT: moe.predict %[[H:.*]] weight @rb moeLayer @b ahead 1 {moe.layer = 0 : i32, moe.offsets = array<i64: 0>} : (!f32x64) -> ()
  // PLAYED-NEXT: moe.predict %[[H]] weight @rc moeLayer @c ahead 2 joined {moe.layer = 0 : i32, moe.offsets = array<i64: 64>} : (!f32x64) -> ()
  // PLAYED-NEXT: moe.predict %[[H]] weight @rd moeLayer @d ahead 3 joined beginsReads {moe.layer = 0 : i32, moe.offsets = array<i64: 128>} : (!f32x64) -> ()
  // PLAYED: moe.predict %[[H]] weight @rc moeLayer @c ahead 1 {moe.layer = 1 : i32, moe.offsets = array<i64: 0>} : (!f32x64) -> ()
  // PLAYED-LABEL: moe.program @prefill
  // PLAYED-NOT: moe.predict
}
