// RUN: moec-opt %s --moe-place-predictors | FileCheck %s
// A second run has the same result.
// RUN: moec-opt %s --moe-place-predictors --moe-place-predictors | FileCheck %s
// RUN: moec-opt %s --moe-place-predictors="ahead=1" | FileCheck %s --check-prefix=ONE
// RUN: moec-opt %s --moe-place-predictors --moe-place-predictors="ahead=0" | FileCheck %s --check-prefix=NONE
// RUN: moec-opt %s --moe-place-predictors --moe-plan-memory --moe-lower-to-schedule | FileCheck %s --check-prefix=PLAYED
// RUN: not moec-opt %s --moe-place-predictors="ahead=4" 2>&1 | FileCheck %s --check-prefix=FAR

// FAR: error: predictions are placed 4 MoE layers ahead, expected at most 3

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
  // CHECK-LABEL: func.func @decode
  // ONE-LABEL: func.func @decode
  // NONE-LABEL: func.func @decode
  func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %x = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %ea, %wa = moe.route %x router <@ra> to @a softmax_then_top_k renormalize true scale 1.0 {moe.layer = 0 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.route {{.*}} to @a
    // ONE: moe.route {{.*}} to @a
    // CHECK-NEXT: moe.predict %[[X:.*]] router <@rb> of @b ahead 1 {moe.layer = 0 : i32} : tensor<?x64xf32>
    // ONE-NEXT: moe.predict {{.*}} of @b ahead 1
    // CHECK-NEXT: moe.predict %[[X]] router <@rc> of @c ahead 2 {moe.layer = 0 : i32} : tensor<?x64xf32>
    // CHECK-NEXT: moe.predict %[[X]] router <@rd> of @d ahead 3 {moe.layer = 0 : i32} : tensor<?x64xf32>
    // CHECK-NEXT: moe.experts %{{.*}} of @a
    // ONE-NEXT: moe.experts %{{.*}} of @a
    %ya = moe.experts %x of @a chosen %ea, %wa : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %eb, %wb = moe.route %x router <@rb> to @b softmax_then_top_k renormalize true scale 1.0 {moe.layer = 1 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.route {{.*}} to @b
    // ONE: moe.route {{.*}} to @b
    // CHECK-NEXT: moe.predict %[[X]] router <@rc> of @c ahead 1 {moe.layer = 1 : i32} : tensor<?x64xf32>
    // ONE-NEXT: moe.predict {{.*}} of @c ahead 1
    // CHECK-NEXT: moe.predict %[[X]] router <@rd> of @d ahead 2 {moe.layer = 1 : i32} : tensor<?x64xf32>
    // CHECK-NEXT: moe.predict %[[X]] router <@re> of @e ahead 3 {moe.layer = 1 : i32} : tensor<?x64xf32>
    // CHECK-NEXT: moe.experts %{{.*}} of @b
    // ONE-NEXT: moe.experts %{{.*}} of @b
    %yb = moe.experts %x of @b chosen %eb, %wb : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %ec, %wc = moe.route %x router <@rc> to @c softmax_then_top_k renormalize true scale 1.0 {moe.layer = 3 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.route {{.*}} to @c
    // ONE: moe.route {{.*}} to @c
    // CHECK-NEXT: moe.predict %[[X]] router <@rd> of @d ahead 1 {moe.layer = 3 : i32} : tensor<?x64xf32>
    // ONE-NEXT: moe.predict {{.*}} of @d ahead 1
    // CHECK-NEXT: moe.predict %[[X]] router <@re> of @e ahead 2 {moe.layer = 3 : i32} : tensor<?x64xf32>
    // CHECK-NEXT: moe.experts %{{.*}} of @c
    // ONE-NEXT: moe.experts %{{.*}} of @c
    %yc = moe.experts %x of @c chosen %ec, %wc : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %ed, %wd = moe.route %x router <@rd> to @d softmax_then_top_k renormalize true scale 1.0 {moe.layer = 4 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.route {{.*}} to @d
    // ONE: moe.route {{.*}} to @d
    // CHECK-NEXT: moe.predict %[[X]] router <@re> of @e ahead 1 {moe.layer = 4 : i32} : tensor<?x64xf32>
    // ONE-NEXT: moe.predict {{.*}} of @e ahead 1
    // CHECK-NEXT: moe.experts %{{.*}} of @d
    // ONE-NEXT: moe.experts %{{.*}} of @d
    %yd = moe.experts %x of @d chosen %ed, %wd : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %ee, %we = moe.route %x router <@re> to @e softmax_then_top_k renormalize true scale 1.0 {moe.layer = 5 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.route {{.*}} to @e
    // ONE: moe.route {{.*}} to @e
    // CHECK-NEXT: moe.experts %{{.*}} of @e
    // ONE-NEXT: moe.experts %{{.*}} of @e
    %ye = moe.experts %x of @e chosen %ee, %we : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    // NONE-NOT: moe.predict
    %l = moe.head %x linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Prefill has no predictions.
  // CHECK-LABEL: func.func @prefill
  // CHECK-NOT: moe.predict
  func.func @prefill(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %x = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %ea, %wa = moe.route %x router <@ra> to @a softmax_then_top_k renormalize true scale 1.0 {moe.layer = 0 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %ya = moe.experts %x of @a chosen %ea, %wa : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %eb, %wb = moe.route %x router <@rb> to @b softmax_then_top_k renormalize true scale 1.0 {moe.layer = 1 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %yb = moe.experts %x of @b chosen %eb, %wb : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %l = moe.head %x linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // One product computes the scores of consecutive predictions, so these do not overlap: 4 floats each from a multiple of
  // 64 bytes on, reusing the bytes of the layer's own router scores; other layers reuse the same bytes.
  // PLAYED-LABEL: moe.program @decode
  // PLAYED: %[[H:.*]] = moe.buffer at {{.*}} : !f32x64
  // PLAYED-NEXT: %[[S:.*]] = moe.buffer at 0 : !f32x4
  // PLAYED: %[[T:.*]] = moe.buffer at 64 : !f32x4
  // PLAYED-NEXT: %[[U:.*]] = moe.buffer at 128 : !f32x4
  // PLAYED: moe.exec.route {{.*}} of @a
  // PLAYED-NEXT: moe.exec.predict %[[H]] to %[[S]] weight @rb of @b ahead 1 {moe.layer = 0 : i32} : !f32x64, !f32x4
  // PLAYED-NEXT: moe.exec.predict %[[H]] to %[[T]] weight @rc of @c ahead 2 joined {moe.layer = 0 : i32} : !f32x64, !f32x4
  // PLAYED-NEXT: moe.exec.predict %[[H]] to %[[U]] weight @rd of @d ahead 3 joined begins_reads {moe.layer = 0 : i32} : !f32x64, !f32x4
  // PLAYED: moe.exec.predict %[[H]] to %[[S]] weight @rc of @c ahead 1 {moe.layer = 1 : i32} : !f32x64, !f32x4
  // PLAYED-LABEL: moe.program @prefill
  // PLAYED-NOT: moe.exec.predict
}
