// A model of one dense layer and one layer with routed and shared experts, through the whole pipeline, and with the same
// result through its passes one by one, in text.
// RUN: moec-opt %s --moe-compile="bits=4 resident-bits=8 nested=false" -o %t.all.mlir
// RUN: FileCheck %s < %t.all.mlir
// RUN: moec-opt %s --moe-assign-bits="bits=4 resident-bits=8 nested=false" | moec-opt --moe-place-predictors | moec-opt --moe-make-plans | moec-opt --moe-plan-memory | moec-opt --moe-lower-to-schedule -o %t.each.mlir
// RUN: cmp %t.all.mlir %t.each.mlir
// Bytecode between the passes gives the same result too.
// RUN: moec-opt %s --moe-assign-bits="bits=4 resident-bits=8 nested=false" --emit-bytecode | moec-opt --moe-place-predictors --moe-make-plans --moe-plan-memory --emit-bytecode | moec-opt --moe-lower-to-schedule | cmp - %t.all.mlir

// The pipeline has the options of the passes.
// RUN: moec-opt %s --moe-compile="bits=2 down-bits=4" | FileCheck %s --check-prefix=DOWN
// DOWN: moe.expert_bits = "2", moe.expert_down_bits = "4"

// CHECK: moe.expert_bits = "4"
// 8 experts of 12288 bytes (3 pages), see make-plans.mlir.
// CHECK-SAME: moe.plans = [#moe.plan<name = "default", contextTokens = 512, prefillChunkTokens = 512, quotaPages = [24], preset = "auto", reasons = [{{.*}}]>]
// CHECK-SAME: moe.resident_bits = "8"
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.rope @rope0 half factor 1.0 frequencies [1.0 : f32, 0.177827939 : f32]
  moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16>
  moe.weight @norm vector from <tensor = "norm", rows = 1, cols = 64, type = bf16>
  moe.weight @square matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
  moe.weight @half matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
  moe.weight @bias vector from <tensor = "qb", rows = 1, cols = 64, type = bf16>
  moe.weight @wide matrix from <tensor = "gate", rows = 96, cols = 64, type = bf16>
  moe.weight @back matrix from <tensor = "down", rows = 64, cols = 96, type = bf16>
  moe.weight @router router from <tensor = "router", rows = 8, cols = 64, type = bf16>
  moe.weight @shared_gate router from <tensor = "shared_gate", rows = 1, cols = 64, type = bf16>
  moe.weight @head matrix from <tensor = "head", rows = 96, cols = 64, type = bf16>
  moe.kv_slot @layer0.kv heads 2 key 16 value 16
  moe.kv_slot @layer1.kv heads 2 key 16 value 16
  moe.moe_layer @layer1.experts layer 1 silu experts 8
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]

  // The residual stream is one buffer from the embedding to the head. Both layers use the same offsets: buffers of one
  // type at one offset are declared once, so the second layer adds none for its attention.
  // CHECK-LABEL: moe.program @decode
  // CHECK-COUNT-24: moe.buffer at
  // CHECK-NOT: moe.buffer at
  // CHECK: moe.exec.embed %[[H:.*]] weight @embedding
  // CHECK: moe.exec.quantize %[[N:.*]] to %[[NQ:.*]] {moe.layer = 0 : i32}
  // CHECK: moe.exec.store_kv %[[K:.*]], %[[V:.*]] slot @layer0.kv
  // CHECK: moe.exec.activate {{.*}} {moe.layer = 0 : i32}
  // CHECK: moe.exec.add %[[H]], %{{.*}} to %[[H]] scale 1.000000e+00 {moe.layer = 0 : i32}
  // CHECK: moe.exec.norm %[[H]] to %[[N]] weight @norm rms epsilon 9.99999997E-7 segment 64 {moe.layer = 1 : i32}
  // CHECK: moe.exec.quantize %[[N]] to %[[NQ]] {moe.layer = 1 : i32}
  // CHECK: moe.exec.store_kv %[[K]], %[[V]] slot @layer1.kv
  // CHECK: moe.exec.experts {{.*}} of @layer1.experts {{.*}} {moe.layer = 1 : i32}
  // CHECK: moe.exec.gate_rows {{.*}} {moe.layer = 1 : i32}
  // CHECK: moe.exec.add %[[H]], %{{.*}} to %[[H]] scale 1.000000e+00 {moe.layer = 1 : i32}
  // CHECK: moe.exec.head %{{.*}} weight @head
  func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h0 = moe.embed %ids weight @embedding scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %n0 = moe.norm %h0 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %a0 = moe.attention %n0 query <@square, bias = @bias> key <@half> value <@half> output <@square> slot @layer0.kv
            heads 4 scale 0.25 rope @rope0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %h1 = moe.add %h0, %a0 scale 1.0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %n1 = moe.norm %h1 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %d = moe.dense %n1 network <silu, gate = <@wide>, up = <@wide>, down = <@back>> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %h2 = moe.add %h1, %d scale 1.0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %n2 = moe.norm %h2 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 1 : i32} : tensor<?x64xf32>
    %a1 = moe.attention %n2 query <@square, bias = @bias> key <@half> value <@half> output <@square> slot @layer1.kv
            heads 4 scale 0.25 rope @rope0 {moe.layer = 1 : i32} : tensor<?x64xf32>
    %h3 = moe.add %h2, %a1 scale 1.0 {moe.layer = 1 : i32} : tensor<?x64xf32>
    %n3 = moe.norm %h3 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 1 : i32} : tensor<?x64xf32>
    %e, %w = moe.route %n3 router <@router> to @layer1.experts softmax_then_top_k renormalize false scale 1.0 {moe.layer = 1 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %x = moe.experts %n3 of @layer1.experts chosen %e, %w {moe.layer = 1 : i32} : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %s = moe.shared_expert %n3 network <silu, gate = <@wide>, up = <@wide>, down = <@back>> gate <@shared_gate> {moe.layer = 1 : i32} : tensor<?x64xf32>
    %m = moe.add %x, %s scale 1.0 {moe.layer = 1 : i32} : tensor<?x64xf32>
    %h4 = moe.add %h3, %m scale 1.0 {moe.layer = 1 : i32} : tensor<?x64xf32>
    %f = moe.norm %h4 by <rms, epsilon = 1.0e-6 : f32, @norm> : tensor<?x64xf32>
    %l = moe.head %f linear <@head> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }
}
