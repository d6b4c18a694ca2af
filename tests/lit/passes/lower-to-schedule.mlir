// RUN: moec-opt %s --moe-lower-to-schedule | FileCheck %s --check-prefixes=CHECK,UNPLACED
// RUN: moec-opt %s --moe-plan-memory --moe-lower-to-schedule | FileCheck %s --check-prefixes=CHECK,PLACED

module {
  moe.rope @rope half factor 1.0 frequencies [1.0 : f32, 0.5 : f32]
  moe.kv_slot @kv heads 2 key 16 value 16
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @g matrix from <tensor = "g", rows = 96, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @d matrix from <tensor = "d", rows = 64, cols = 96, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @f matrix from <tensor = "f", rows = 64, cols = 64, type = bf16> as <kind = bf16>
  moe.kv_slot @kv2 heads 2 key 16 value 16
  moe.weight @one vector from <tensor = "one", rows = 1, cols = 1, type = bf16> as <kind = f32>
  moe.kv_slot @latent_kv heads 1 key 32 value 0
  moe.kv_slot @latent_kv2 heads 1 key 32 value 0
  moe.weight @qd matrix from <tensor = "qd", rows = 32, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @qn vector from <tensor = "qn", rows = 1, cols = 32, type = bf16> as <kind = f32>
  moe.weight @qu matrix from <tensor = "qu", rows = 64, cols = 32, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @ks matrix from <tensor = "ks", rows = 8, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @lt matrix from <tensor = "lt", rows = 24, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @ln vector from <tensor = "ln", rows = 1, cols = 24, type = bf16> as <kind = f32>
  moe.weight @ku heads from <tensor = "up", rows = 48, cols = 24, type = bf16, transposed = true, blocks = 2, blockStep = 40> as <kind = bf16>
  moe.weight @vu heads from <tensor = "up", rows = 32, cols = 24, type = bf16, firstRow = 24, blocks = 2, blockStep = 40> as <kind = bf16>
  moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
  moe.weight @hn vector from <tensor = "hn", rows = 1, cols = 16, type = bf16> as <kind = f32>
  moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @s router from <tensor = "s", rows = 1, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @c vector from <tensor = "c", rows = 1, cols = 2, type = f32> as <kind = f32>
  moe.weight @sinks vector from <tensor = "s", rows = 1, cols = 4, type = bf16> as <kind = f32>
  moe.weight @gb vector from <tensor = "b", rows = 1, cols = 192, type = bf16, rowStep = 2, stackedVectors = 2> as <kind = f32>
  moe.weight @ub vector from <tensor = "b", rows = 1, cols = 192, type = bf16, firstRow = 1, rowStep = 2, stackedVectors = 2> as <kind = f32>
  moe.weight @db vector from <tensor = "db", rows = 1, cols = 128, type = bf16, stackedVectors = 2> as <kind = f32>
  moe.moe_layer @e layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
  moe.moe_layer @float layer 1 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
  moe.moe_layer @scaled layer 2 silu experts 2 scaled_inputs
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
  moe.moe_layer @transformed layer 3 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int4, group = 32, activationGroup = 32, hadamard = true>],
            [#moe.format<kind = nl4, group = 32, activationGroup = 32, byteScales = true, hadamard = true>]]

  // CHECK-NOT: func.func

  // Queries, keys and values share one quantized input and are computed together; norms of heads precede the clamp and the rotation, all in place; the
  // residual is added in place.
  // CHECK-LABEL: moe.program @attention
  // UNPLACED-NEXT: %{{.*}} = moe.buffer : !f32x64
  // PLACED-NEXT: %{{.*}} = moe.buffer at {{[0-9]+}} : !f32x64
  // CHECK: moe.exec.embed %[[H:.*]] weight @w scale 1.000000e+00 : !f32x64
  // CHECK-NEXT: moe.exec.norm %[[H]] to %[[N:.*]] weight @n rms epsilon 9.99999997E-7 segment 64 {moe.layer = 0 : i32} : !f32x64, !f32x64
  // CHECK-NEXT: moe.exec.quantize %[[N]] to %[[NQ:.*]] {moe.layer = 0 : i32} : !f32x64, !quantizedx64g32
  // CHECK-NEXT: moe.exec.linear %[[NQ]] to %[[Q:.*]] weight @q bias @n for attention {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.exec.linear %[[NQ]] to %[[K:.*]] weight @k for attention joined {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.exec.linear %[[NQ]] to %[[V:.*]] weight @k for attention joined {moe.layer = 0 : i32}
  // CHECK-NEXT: moe.exec.norm %[[Q]] to %[[Q]] weight @n rms epsilon 9.99999997E-7 segment 64
  // CHECK-NEXT: moe.exec.norm %[[K]] to %[[K]] weight @hn rms epsilon 9.99999997E-7 segment 16
  // CHECK-NEXT: moe.exec.clamp %[[Q]] limit 8.000000e+00
  // CHECK-NEXT: moe.exec.clamp %[[K]] limit 8.000000e+00
  // CHECK-NEXT: moe.exec.clamp %[[V]] limit 8.000000e+00
  // CHECK-NEXT: moe.exec.rope %[[Q]] heads 4 of 16 by @rope
  // CHECK-NEXT: moe.exec.rope %[[K]] heads 2 of 16 by @rope
  // CHECK-NEXT: moe.exec.store_kv %[[K]], %[[V]] slot @kv
  // CHECK-NEXT: moe.exec.attend %[[Q]] to %[[C:.*]] slot @kv heads 4 window 8 scale 2.500000e-01
  // CHECK-NEXT: moe.exec.quantize %[[C]] to %[[CQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.linear %[[CQ]] to %[[O:.*]] weight @q for attention {moe
  // CHECK-NEXT: moe.exec.add %[[H]], %[[O]] to %[[H]] scale 1.000000e+00 {moe.layer = 0 : i32}
  // The last norm is in place too, and the overwritten row is quantized again.
  // CHECK-NEXT: moe.exec.norm %[[H]] to %[[H]] weight @n rms epsilon 9.99999997E-7 segment 64 : !f32x64, !f32x64
  // CHECK-NEXT: moe.exec.quantize %[[H]] to %[[HQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.head %[[HQ]] weight @w scale 1.000000e+00 : !quantizedx64g32
  // CHECK-NEXT: }
  func.func @attention(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %n = moe.norm %h by <rms, epsilon = 1.0e-6 : f32, @n> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %a = moe.attention %n query <@q, bias = @n> key <@k> value <@k> output <@q> slot @kv heads 4 scale 0.25
           window 8 rope @rope query_norm <rms, epsilon = 1.0e-6 : f32, @n> key_norm <rms, epsilon = 1.0e-6 : f32, @hn> clip 8.0
           {moe.layer = 0 : i32} : tensor<?x64xf32>
    %r = moe.add %h, %a scale 1.0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %m = moe.norm %r by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
    %l = moe.head %m linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Values that are the products of keys are normed into a row of their own, before the norm of keys; values of their own
  // in place. A scale is in place where its input has no later use.
  // CHECK-LABEL: moe.program @values_of_keys
  // CHECK: moe.exec.linear %{{.*}} to %[[Q:.*]] weight @q for attention :
  // CHECK-NEXT: moe.exec.linear %{{.*}} to %[[K:.*]] weight @k for attention joined :
  // CHECK-NEXT: moe.exec.norm %[[K]] to %[[V:.*]] rms epsilon 9.99999997E-7 segment 16 : !f32x32, !f32x32
  // CHECK-NEXT: moe.exec.norm %[[K]] to %[[K]] weight @hn rms
  // CHECK-NEXT: moe.exec.store_kv %[[K]], %[[V]] slot @kv :
  // CHECK: moe.exec.linear %{{.*}} to %[[O:.*]] weight @q for attention :
  // CHECK-NEXT: moe.exec.scale %[[O]] to %[[S:.*]] weight @one factor 5.000000e-01 : !f32x64, !f32x64
  // CHECK-NEXT: moe.exec.add %[[O]], %[[S]] to %[[O]]
  // CHECK-NEXT: moe.exec.scale %[[O]] to %[[O]] factor 2.500000e-01
  // CHECK: moe.exec.linear %{{.*}} to %{{.*}} weight @q for attention :
  // CHECK-NEXT: moe.exec.linear %{{.*}} to %{{.*}} weight @k for attention joined :
  // CHECK-NEXT: moe.exec.linear %{{.*}} to %[[V2:.*]] weight @k for attention joined :
  // CHECK-NEXT: moe.exec.norm %[[V2]] to %[[V2]] rms epsilon 9.99999997E-7 segment 16
  // CHECK-NEXT: moe.exec.store_kv %{{.*}}, %[[V2]] slot @kv2
  // CHECK: moe.exec.head %{{.*}} weight @w scale 1.000000e+00 soft_cap 3.000000e+01
  func.func @values_of_keys(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %a = moe.attention %h query <@q> key <@k> output <@q> slot @kv heads 4 scale 1.0
           key_norm <rms, epsilon = 1.0e-6 : f32, @hn> value_norm 1.0e-6 : tensor<?x64xf32>
    %b = moe.scale %a by 0.5 weight @one : tensor<?x64xf32>
    %c = moe.add %a, %b scale 1.0 : tensor<?x64xf32>
    %d = moe.scale %c by 0.25 : tensor<?x64xf32>
    %e = moe.attention %d query <@q> key <@k> value <@k> output <@q> slot @kv2 heads 4 scale 1.0 value_norm 1.0e-6 : tensor<?x64xf32>
    %l = moe.head %e linear <@w> scale 1.0 soft_cap 30.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Latent attention computes the products of its input together; the query's shared part moves before the absorbed
  // rest and is rotated there; the latent is stored as a part of the key, and products per head take float rows.
  // CHECK-LABEL: moe.program @latent
  // CHECK: moe.exec.embed %[[H:.*]] weight @w scale 1.000000e+00 : !f32x64
  // CHECK-NEXT: moe.exec.quantize %[[H]] to %[[HQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[D:.*]] weight @qd for attention : !quantizedx64g32, !f32x32
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[K:.*]] weight @ks for attention joined : !quantizedx64g32, !f32x8
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[L:.*]] weight @lt for attention joined : !quantizedx64g32, !f32x24
  // CHECK-NEXT: moe.exec.norm %[[L]] to %[[L]] weight @ln rms epsilon 9.99999997E-7 segment 24
  // CHECK-NEXT: moe.exec.norm %[[D]] to %[[D]] weight @qn rms epsilon 9.99999997E-7 segment 32
  // CHECK-NEXT: moe.exec.quantize %[[D]] to %[[DQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.linear %[[DQ]] to %[[Q:.*]] weight @qu for attention : !quantizedx32g32, !f32x64
  // CHECK-NEXT: moe.exec.linear_heads %[[Q]] to %[[A:.*]] weight @ku heads 2 kept 8 : !f32x64, !f32x64
  // CHECK-NEXT: moe.exec.rope %[[A]] heads 2 of 32 by @rope
  // CHECK-NEXT: moe.exec.rope %[[K]] heads 1 of 8 by @rope
  // CHECK-NEXT: moe.exec.store_kv %[[K]], %[[L]] slot @latent_kv
  // CHECK-NEXT: moe.exec.attend %[[A]] to %[[C:.*]] slot @latent_kv heads 2 window 0 scale 2.500000e-01 : !f32x64, !f32x48
  // CHECK-NEXT: moe.exec.linear_heads %[[C]] to %[[V:.*]] weight @vu heads 2 kept 0 : !f32x48, !f32x32
  // CHECK-NEXT: moe.exec.quantize %[[V]] to %[[VQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.linear %[[VQ]] to %[[O:.*]] weight @qu for attention : !quantizedx32g32, !f32x64
  // Without a down-projection the query is one of the products of the input.
  // CHECK-NEXT: moe.exec.quantize %[[O]] to %[[OQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.linear %[[OQ]] to %[[Q2:.*]] weight @q for attention : !quantizedx64g32, !f32x64
  // CHECK-NEXT: moe.exec.linear %[[OQ]] to %{{.*}} weight @ks for attention joined
  // CHECK-NEXT: moe.exec.linear %[[OQ]] to %{{.*}} weight @lt for attention joined
  // CHECK-NEXT: moe.exec.norm
  // CHECK-NEXT: moe.exec.linear_heads %[[Q2]] to %[[A2:.*]] weight @ku heads 2 kept 8
  // CHECK-NEXT: moe.exec.store_kv %{{.*}}, %{{.*}} slot @latent_kv2
  func.func @latent(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %a = moe.latent_attention %h query <@qu> key <@ks> latent <@lt> norm <rms, epsilon = 1.0e-6 : f32, @ln> up @ku, @vu
           output <@qu> slot @latent_kv heads 2 scale 0.25 rope @rope down <@qd> <rms, epsilon = 1.0e-6 : f32, @qn>
           : tensor<?x64xf32>
    %b = moe.latent_attention %a query <@q> key <@ks> latent <@lt> norm <rms, epsilon = 1.0e-6 : f32, @ln> up @ku, @vu
           output <@qu> slot @latent_kv2 heads 2 scale 0.25 : tensor<?x64xf32>
    %l = moe.head %b linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // The router and the shared gate take f32 rows; routed and shared experts share one quantized copy. The quantized
  // input of down has the experts' width; ranks are 2 rows of 64.
  // CHECK-LABEL: moe.program @experts
  // CHECK: moe.exec.embed %[[H:.*]] weight @w
  // CHECK-NEXT: moe.exec.linear %[[H]] to %[[S:.*]] weight @r for router : !f32x64, !f32x2
  // CHECK-NEXT: moe.exec.route %[[S]] to %[[E:.*]], %[[W:.*]] of @e softmax_then_top_k renormalize true scale 1.000000e+00 begins_reads : !f32x2, !i32x2, !f32x2
  // CHECK-NEXT: moe.exec.quantize %[[H]] to %[[HQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.experts %[[HQ]] to %[[D:.*]] of @e chosen %[[E]], %[[W]] scratch gathered %{{.*}} gate %{{.*}} up %{{.*}} ranks %{{.*}} hidden %{{.*}} : !quantizedx64g32, !f32x64, !i32x2, !f32x2, !quantizedx64g32, !f32x96, !f32x96, !f32x128, !quantizedx96g32
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[G:.*]] weight @g :
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[U:.*]] weight @g joined :
  // CHECK-NEXT: moe.exec.activate %[[G]], %[[U]] to %[[G]] silu
  // CHECK-NEXT: moe.exec.quantize %[[G]] to %[[GQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.linear %[[GQ]] to %[[Y:.*]] weight @d
  // CHECK-NEXT: moe.exec.linear %[[H]] to %[[T:.*]] weight @s : !f32x64, !f32x1
  // CHECK-NEXT: moe.exec.gate_rows %[[Y]] by %[[T]] to %[[Y]]
  // CHECK-NEXT: moe.exec.add %[[D]], %[[Y]] to %[[D]]
  // CHECK-NEXT: moe.exec.add %[[H]], %[[D]] to %[[H]] scale 5.000000e-01
  func.func @experts(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %e, %w = moe.route %h router <@r> to @e softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %d = moe.experts %h of @e chosen %e, %w : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %s = moe.shared_expert %h network <silu, gate = <@g>, up = <@g>, down = <@d>> gate <@s> : tensor<?x64xf32>
    %x = moe.add %d, %s scale 1.0 : tensor<?x64xf32>
    %r = moe.add %h, %x scale 0.5 : tensor<?x64xf32>
    %l = moe.head %r linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Routed experts with the Hadamard transform take the transformed row, the shared expert the row itself: the row is
  // quantized twice, into a buffer of each kind. The input of the routed experts' down is transformed too.
  // CHECK-LABEL: moe.program @transformed_experts
  // CHECK: moe.exec.embed %[[H:.*]] weight @w
  // CHECK: moe.exec.quantize %[[H]] to %[[HT:[^ ]*]] : !f32x64, !hadamardx64g32
  // CHECK-NEXT: moe.exec.experts %[[HT]] to %{{.*}} of @transformed chosen %{{.*}} scratch gathered %{{.*}} gate %{{.*}} up %{{.*}} ranks %{{.*}} hidden %{{.*}} : !hadamardx64g32, !f32x64, !i32x2, !f32x2, !hadamardx64g32, !f32x96, !f32x96, !f32x128, !hadamardx96g32
  // CHECK-NEXT: moe.exec.quantize %[[H]] to %[[HQ:[^ ]*]] : !f32x64, !quantizedx64g32
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[G:.*]] weight @g :
  // CHECK-NEXT: moe.exec.linear %[[HQ]] to %[[U:.*]] weight @g joined :
  // CHECK-NEXT: moe.exec.activate %[[G]], %[[U]] to %[[G]] silu
  // CHECK-NEXT: moe.exec.quantize %[[G]] to %{{[^ ]*}} : !f32x96, !quantizedx96g32
  // CHECK-NOT: moe.exec.quantize %[[H]] to
  // CHECK: moe.exec.head
  func.func @transformed_experts(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %e, %w = moe.route %h router <@r> to @transformed softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %d = moe.experts %h of @transformed chosen %e, %w : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %s = moe.shared_expert %h network <silu, gate = <@g>, up = <@g>, down = <@d>> : tensor<?x64xf32>
    %x = moe.add %d, %s scale 1.0 : tensor<?x64xf32>
    %l = moe.head %x linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Sinks, the biases of experts and the numbers of an activation are the instructions'.
  // CHECK-LABEL: moe.program @biases
  // CHECK: moe.exec.attend %{{.*}} to %{{.*}} slot @kv heads 4 window 0 scale 2.500000e-01 sinks @sinks :
  // CHECK: moe.exec.experts %{{.*}} to %{{.*}} of @float chosen {{.*}} ranks %{{[^ ]*}} gate_bias @gb up_bias @ub down_bias @db :
  // CHECK: moe.exec.activate %[[G:.*]], %{{.*}} to %[[G]] clamped_swiglu alpha 1.500000e+00 limit 7.000000e+00 :
  func.func @biases(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %a = moe.attention %h query <@q> key <@k> value <@k> output <@q> slot @kv heads 4 scale 0.25 sinks @sinks
           : tensor<?x64xf32>
    %e, %w = moe.route %a router <@r> to @float softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x1xi32>, tensor<?x1xf32>
    %d = moe.experts %a of @float chosen %e, %w gate_bias @gb up_bias @ub down_bias @db
      : tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>
    %y = moe.dense %d network <clamped_swiglu, gate = <@g>, up = <@g>, down = <@d>, alpha = 1.5 : f32, limit = 7.0 : f32>
           : tensor<?x64xf32>
    %l = moe.head %y linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // What follows the rotation: norms of heads without weights, then the queries' scale. Attention in chunks. The weight of
  // the one expert moves to a copy of its input; the shared expert takes the row itself.
  // CHECK-LABEL: moe.program @chunks
  // CHECK: moe.exec.rope %[[Q:.*]] heads 4 of 16 by @rope
  // CHECK-NEXT: moe.exec.rope %[[K:.*]] heads 2 of 16 by @rope
  // CHECK-NEXT: moe.exec.norm %[[Q]] to %[[Q]] rms epsilon 9.99999997E-7 segment 16
  // CHECK-NEXT: moe.exec.norm %[[K]] to %[[K]] rms epsilon 9.99999997E-7 segment 16
  // CHECK-NEXT: moe.exec.scale_by_position %[[Q]] scale 1.000000e-01 period 8192 :
  // CHECK-NEXT: moe.exec.store_kv
  // CHECK-NEXT: moe.exec.attend %[[Q]] to %{{.*}} slot @kv heads 4 window 8 scale 2.500000e-01 chunked :
  // CHECK: moe.exec.route %{{.*}} to %[[E:.*]], %[[W:.*]] of @scaled top_k_then_sigmoid renormalize false scale 1.000000e+00 begins_reads
  // CHECK: moe.exec.linear %[[HQ:.*]] to %{{.*}} weight @g :
  // CHECK: moe.exec.scale_input %[[H:.*]] by %[[W]] to %[[S:.*]] : !f32x64, !f32x1, !f32x64
  // CHECK-NEXT: moe.exec.quantize %[[S]] to %[[SQ:[^ ]*]]
  // CHECK-NEXT: moe.exec.experts %[[SQ]] to %{{.*}} of @scaled chosen %[[E]], %[[W]]
  func.func @chunks(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %a = moe.attention %h query <@q> key <@k> value <@k> output <@q> slot @kv heads 4 scale 0.25
           window 8 chunked rope @rope plain_norm 1.0e-6 query_scale 0.1 period 8192 : tensor<?x64xf32>
    %e, %w = moe.route %a router <@r> to @scaled top_k_then_sigmoid renormalize false scale 1.0
      : tensor<?x64xf32> -> tensor<?x1xi32>, tensor<?x1xf32>
    %s = moe.shared_expert %a network <silu, gate = <@g>, up = <@g>, down = <@d>> : tensor<?x64xf32>
    %d = moe.experts %a of @scaled chosen %e, %w : tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>
    %x = moe.add %d, %s scale 1.0 : tensor<?x64xf32>
    %l = moe.head %x linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Sparsemixer's tolerance is the instruction's.
  // CHECK-LABEL: moe.program @sparsemixer
  // CHECK: moe.exec.route %{{.*}} of @e sparsemixer renormalize false scale 1.000000e+00 tolerance 1.250000e-01 begins_reads
  func.func @sparsemixer(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %e, %w = moe.route %h router <@r> to @e sparsemixer renormalize false scale 1.0 tolerance 0.125
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %d = moe.experts %h of @e chosen %e, %w : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %l = moe.head %d linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // A bias that chooses, and groups, are the instruction's.
  // CHECK-LABEL: moe.program @groups
  // CHECK: moe.exec.route %{{.*}} to %{{.*}}, %{{.*}} of @float sigmoid renormalize true scale 2.500000e+00 bias @c groups 2 kept 1 by two_largest begins_reads
  func.func @groups(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %e, %w = moe.route %h router <@r> to @float sigmoid renormalize true scale 2.5 bias @c
        groups <count = 2, kept = 1, score = two_largest>
      : tensor<?x64xf32> -> tensor<?x1xi32>, tensor<?x1xf32>
    %d = moe.experts %h of @float chosen %e, %w : tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>
    %l = moe.head %d linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Factors of weights are the instruction's, and it has no bias or groups with them; other activations are those of
  // their networks.
  // CHECK-LABEL: moe.program @factors
  // CHECK: moe.exec.route %{{.*}} to %{{.*}}, %{{.*}} of @float softmax_then_top_k renormalize true scale 1.000000e+00 factors @c begins_reads
  // CHECK: moe.exec.activate %{{.*}}, %{{.*}} to %{{.*}} gelu_tanh
  func.func @factors(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %e, %w = moe.route %h router <@r> to @float softmax_then_top_k renormalize true scale 1.0 factors @c
      : tensor<?x64xf32> -> tensor<?x1xi32>, tensor<?x1xf32>
    %d = moe.experts %h of @float chosen %e, %w : tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>
    %s = moe.dense %d network <gelu_tanh, gate = <@g>, up = <@g>, down = <@d>> : tensor<?x64xf32>
    %l = moe.head %s linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // Float experts take f32 rows and need no hidden buffer. An addition whose left operand is used later overwrites the
  // right one; if both are used later, the result gets another buffer.
  // CHECK-LABEL: moe.program @floats
  // CHECK: moe.exec.experts %[[H:.*]] to %[[D:.*]] of @float chosen %{{.*}}, %{{.*}} scratch gathered %{{.*}} gate %{{.*}} up %{{.*}} ranks %{{[^ ]*}} : !f32x64, !f32x64, !i32x1, !f32x1, !f32x64, !f32x96, !f32x96, !f32x64{{$}}
  // CHECK-NEXT: moe.exec.add %[[H]], %[[D]] to %[[X:.*]] scale 1.000000e+00
  // CHECK-NEXT: moe.exec.add %[[H]], %[[D]] to %[[D]] scale 2.000000e+00
  // CHECK-NEXT: moe.exec.add %[[H]], %[[D]] to %[[H]] scale 3.000000e+00
  // CHECK-NEXT: moe.exec.add %[[H]], %[[X]] to %[[H]] scale 4.000000e+00
  func.func @floats(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %e, %w = moe.route %h router <@r> to @float softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x1xi32>, tensor<?x1xf32>
    %d = moe.experts %h of @float chosen %e, %w : tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>
    %x = moe.add %h, %d scale 1.0 : tensor<?x64xf32>
    %y = moe.add %h, %d scale 2.0 : tensor<?x64xf32>
    %z = moe.add %h, %y scale 3.0 : tensor<?x64xf32>
    %r = moe.add %z, %x scale 4.0 : tensor<?x64xf32>
    %l = moe.head %r linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }
}
