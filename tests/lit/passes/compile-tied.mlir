// A tied model in the checkpoint's own types: the head is the embedding, experts take f32 rows, and nothing is ever
// quantized. Decode and prefill become the same list.
// RUN: moec-opt %s --moe-compile="bits=source resident-bits=source" | FileCheck %s

// CHECK: moe.expert_bits = "source"
// CHECK: moe.weight @embedding {{.*}} as #bf16
// CHECK: moe.moe_layer @layer0.experts {{.*}} slices {{\[\[}}#bf16], [#bf16]]
// CHECK-NOT: quantize
// CHECK-LABEL: moe.program @decode
// CHECK-NOT: quantize
// CHECK: moe.exec.embed %[[H:.*]] weight @embedding
// CHECK: moe.exec.experts
// CHECK: moe.exec.head %[[H]] weight @embedding scale 1.000000e+00 : !f32x64
// CHECK-LABEL: moe.program @prefill
// CHECK-NOT: quantize
// CHECK: moe.exec.embed %[[P:.*]] weight @embedding
// CHECK: moe.exec.experts
// CHECK: moe.exec.head %[[P]] weight @embedding scale 1.000000e+00 : !f32x64
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16>
  moe.weight @norm vector from <tensor = "norm", rows = 1, cols = 64, type = bf16>
  moe.weight @square matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
  moe.weight @half matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
  moe.weight @router router from <tensor = "router", rows = 2, cols = 64, type = bf16>
  moe.kv_slot @layer0.kv heads 2 key 16 value 16
  moe.moe_layer @layer0.experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "w1", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "w3", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "w2", rows = 64, cols = 96, type = bf16>]>]

  func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h0 = moe.embed %ids weight @embedding scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %n0 = moe.norm %h0 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %a0 = moe.attention %n0 query <@square> key <@half> value <@half> output <@square> slot @layer0.kv
            heads 4 scale 0.25 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %h1 = moe.add %h0, %a0 scale 1.0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %n1 = moe.norm %h1 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %e, %w = moe.route %n1 router <@router> to @layer0.experts softmax_then_top_k renormalize true scale 1.0 {moe.layer = 0 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %x = moe.experts %n1 of @layer0.experts chosen %e, %w {moe.layer = 0 : i32} : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %h2 = moe.add %h1, %x scale 1.0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %f = moe.norm %h2 by <rms, epsilon = 1.0e-6 : f32, @norm> : tensor<?x64xf32>
    %l = moe.head %f linear <@embedding> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }
  func.func @prefill(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h0 = moe.embed %ids weight @embedding scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %n0 = moe.norm %h0 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %a0 = moe.attention %n0 query <@square> key <@half> value <@half> output <@square> slot @layer0.kv
            heads 4 scale 0.25 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %h1 = moe.add %h0, %a0 scale 1.0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %n1 = moe.norm %h1 by <rms, epsilon = 1.0e-6 : f32, @norm> {moe.layer = 0 : i32} : tensor<?x64xf32>
    %e, %w = moe.route %n1 router <@router> to @layer0.experts softmax_then_top_k renormalize true scale 1.0 {moe.layer = 0 : i32}
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %x = moe.experts %n1 of @layer0.experts chosen %e, %w {moe.layer = 0 : i32} : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %h2 = moe.add %h1, %x scale 1.0 {moe.layer = 0 : i32} : tensor<?x64xf32>
    %f = moe.norm %h2 by <rms, epsilon = 1.0e-6 : f32, @norm> : tensor<?x64xf32>
    %l = moe.head %f linear <@embedding> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }
}
