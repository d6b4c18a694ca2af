// RUN: moec-opt %s --moe-lower-to-schedule | FileCheck %s
// RUN: moec-opt %s --moe-plan-memory --moe-lower-to-schedule | FileCheck %s

module {
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @q matrix from <tensor = "qkvz", rows = 32, cols = 64, type = bf16, blocks = 2, blockStep = 96> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @v matrix from <tensor = "qkvz", rows = 64, cols = 64, type = bf16, firstRow = 32, blocks = 2, blockStep = 96> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @b router from <tensor = "ba", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @qt taps from <tensor = "conv1d", rows = 32, cols = 4, type = bf16> as <kind = f32>
  moe.weight @vt taps from <tensor = "conv1d", rows = 64, cols = 4, type = bf16, firstRow = 64> as <kind = f32>
  moe.weight @a vector from <tensor = "A_log", rows = 1, cols = 4, type = f32> as <kind = f32>
  moe.weight @dt vector from <tensor = "dt_bias", rows = 1, cols = 4, type = f32> as <kind = f32>
  moe.weight @n vector from <tensor = "norm", rows = 1, cols = 16, type = bf16> as <kind = f32>
  moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16> as <kind = bf16>
  moe.state_slot @q_tail rows 3 width 32
  moe.state_slot @k_tail rows 3 width 32
  moe.state_slot @v_tail rows 3 width 64
  moe.state_slot @state rows 64 width 16
  moe.kv_slot @kv heads 2 key 16 value 16

  // The products of the input come first, those of its quantized copy and those of floats together; the
  // query's scale is 16^-0.5.
  // CHECK-LABEL: moe.program @delta
  // CHECK: moe.exec.embed %[[H:.*]] weight @w
  // CHECK-NEXT: moe.exec.quantize %[[H]] to %[[HQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[Q:.*]] weight @q for attention {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[K:.*]] weight @q for attention joined
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[V:.*]] weight @v for attention joined
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[Z:.*]] weight @v for attention joined
  // CHECK-NEXT: moe.exec.linear %[[H]] to %[[A:.*]] weight @b for attention {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.exec.linear %[[H]] to %[[B:.*]] weight @b for attention joined
  // CHECK-NEXT: moe.exec.convolve %[[Q]] to %[[Q]] weight @qt slot @q_tail silu true
  // CHECK-NEXT: moe.exec.convolve %[[K]] to %[[K]] weight @qt slot @k_tail silu true
  // CHECK-NEXT: moe.exec.convolve %[[V]] to %[[V]] weight @vt slot @v_tail silu true
  // CHECK-NEXT: moe.exec.unit_norm %[[Q]] epsilon 9.99999997E-7 segment 16
  // CHECK-NEXT: moe.exec.unit_norm %[[K]] epsilon 9.99999997E-7 segment 16
  // CHECK-NEXT: moe.exec.decay %[[A]] to %[[A]] rate @a bias @dt
  // CHECK-NEXT: moe.exec.delta_rule %[[Q]], %[[K]], %[[V]] decay %[[A]] write %[[B]] to %[[R:.*]] slot @state keys 2 heads 4 scale 2.500000e-01
  // CHECK-NEXT: moe.exec.norm %[[R]] to %[[R]] weight @n rms epsilon 9.99999974E-6 segment 16
  // CHECK-NEXT: moe.exec.activate %[[Z]], %[[R]] to %[[R]] silu
  // CHECK-NEXT: moe.exec.linear %[[R]] to %[[O:.*]] weight @o for attention {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.exec.head %[[O]] weight @w
  func.func @delta(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %a = moe.delta_net %h query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail>
           gate <@v> decay <@b> rate @a bias @dt write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@o>
           state @state keys 2 heads 4 epsilon 1.0e-6 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %l = moe.head %a linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // CHECK-LABEL: moe.program @short
  // CHECK: moe.exec.linear %[[HQ:.*]] to %[[B:.*]] weight @v for attention
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[X:.*]] weight @v for attention joined
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[C:.*]] weight @v for attention joined
  // CHECK-NEXT: moe.exec.gate %[[X]] by %[[B]] to %[[X]] linear
  // CHECK-NEXT: moe.exec.convolve %[[X]] to %[[X]] weight @vt slot @v_tail silu false
  // CHECK-NEXT: moe.exec.gate %[[X]] by %[[C]] to %[[X]] linear
  // CHECK-NEXT: moe.exec.linear %[[X]] to %{{.*}} weight @o for attention
  func.func @short(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %a = moe.short_convolution %h before <@v> value <<@v>, @vt, @v_tail> after <@v> output <@o> : tensor<?x64xf32>
    %l = moe.head %a linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // An attention's gate is a product of its input, beside query, key and value.
  // CHECK-LABEL: moe.program @gated
  // CHECK: moe.exec.linear %[[HQ:.*]] to %{{.*}} weight @q for attention joined
  // CHECK: moe.exec.linear %{{.*}} to %[[G:.*]] weight @v for attention joined
  // CHECK-NEXT: moe.exec.store_kv
  // CHECK-NEXT: moe.exec.attend %{{.*}} to %[[R:.*]] slot @kv
  // CHECK-NEXT: moe.exec.gate %[[R]] by %[[G]] to %[[R]] sigmoid
  // CHECK-NEXT: moe.exec.linear %[[R]] to %{{.*}} weight @o
  func.func @gated(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %a = moe.attention %h query <@v> key <@q> value <@q> output <@o> slot @kv heads 4 scale 0.25 gate <@v>
      : tensor<?x64xf32>
    %l = moe.head %a linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }
}
