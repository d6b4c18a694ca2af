// A tied model in the checkpoint's own types: the head is the embedding, experts take f32 rows, and nothing is ever
// quantized. Decode and prefill become the same list.
// RUN: moec-opt %s --moe-compile="bits=source resident-bits=source" | FileCheck %s

// CHECK: moe.expert_bits = "source"
// CHECK: moe.weight @embedding {{.*}} as #bf16
// CHECK: moe.moe_layer @layer0.experts {{.*}} slices {{\[\[}}#bf16], [#bf16]]
// CHECK-NOT: quantize
// CHECK-LABEL: moe.program @decode
// CHECK-NOT: quantize
// CHECK: %[[H:.*]] = moe.embed weight @embedding
// CHECK: moe.experts
// CHECK: moe.head %{{.*}} weight @embedding scale 1.000000e+00 : (!f32x64) -> ()
// CHECK-LABEL: moe.program @prefill
// CHECK-NOT: quantize
// CHECK: %[[P:.*]] = moe.embed weight @embedding
// CHECK: moe.experts
// CHECK: moe.head %{{.*}} weight @embedding scale 1.000000e+00 : (!f32x64) -> ()
!f32x2 = !moe.row<f32, 2>
!f32x32 = !moe.row<f32, 32>
!f32x64 = !moe.row<f32, 64>
!i32x2 = !moe.row<i32, 2>
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16>
  moe.weight @norm vector from <tensor = "norm", rows = 1, cols = 64, type = bf16>
  moe.weight @square matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
  moe.weight @half matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
  moe.weight @value matrix from <tensor = "v", rows = 32, cols = 64, type = bf16>
  moe.weight @router router from <tensor = "router", rows = 2, cols = 64, type = bf16>
  moe.kv_slot @layer0.kv heads 2 key 16 value 16
  moe.moe_layer @layer0.experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "w1", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "w3", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "w2", rows = 64, cols = 96, type = bf16>]>]

  moe.program @decode {
    %h0 = moe.embed weight @embedding scale 1.0 : () -> !f32x64
    %n0 = moe.norm %h0 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %q1 = moe.linear %n0 weight @square role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %k1 = moe.linear %n0 weight @half role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x32
    %v1 = moe.linear %n0 weight @value role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x32
    moe.store_kv %k1, %v1 slot @layer0.kv {moe.layer = 0 : i32} : (!f32x32, !f32x32) -> ()
    %c1 = moe.attend %q1 slot @layer0.kv heads 4 scale 0.25 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %a0 = moe.linear %c1 weight @square role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %h1 = moe.add %h0, %a0 scale 1.0 {moe.layer = 0 : i32} : (!f32x64, !f32x64) -> !f32x64
    %n1 = moe.norm %h1 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %s2 = moe.linear %n1 weight @router role router {moe.layer = 0 : i32} : (!f32x64) -> !f32x2
    %e, %w = moe.route %s2 moeLayer @layer0.experts renormalize weightScale 1.0 {moe.layer = 0 : i32} : (!f32x2) -> (!i32x2, !f32x2)
    %x = moe.experts %n1, %e, %w moeLayer @layer0.experts {moe.layer = 0 : i32} : (!f32x64, !i32x2, !f32x2) -> !f32x64
    %h2 = moe.add %h1, %x scale 1.0 {moe.layer = 0 : i32} : (!f32x64, !f32x64) -> !f32x64
    %f = moe.norm %h2 weight @norm epsilon 1.0e-6 segment 64 : (!f32x64) -> !f32x64
    moe.head %f weight @embedding scale 1.0 : (!f32x64) -> ()
  }
  moe.program @prefill {
    %h0 = moe.embed weight @embedding scale 1.0 : () -> !f32x64
    %n0 = moe.norm %h0 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %q3 = moe.linear %n0 weight @square role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %k3 = moe.linear %n0 weight @half role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x32
    %v3 = moe.linear %n0 weight @value role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x32
    moe.store_kv %k3, %v3 slot @layer0.kv {moe.layer = 0 : i32} : (!f32x32, !f32x32) -> ()
    %c3 = moe.attend %q3 slot @layer0.kv heads 4 scale 0.25 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %a0 = moe.linear %c3 weight @square role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %h1 = moe.add %h0, %a0 scale 1.0 {moe.layer = 0 : i32} : (!f32x64, !f32x64) -> !f32x64
    %n1 = moe.norm %h1 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %s4 = moe.linear %n1 weight @router role router {moe.layer = 0 : i32} : (!f32x64) -> !f32x2
    %e, %w = moe.route %s4 moeLayer @layer0.experts renormalize weightScale 1.0 {moe.layer = 0 : i32} : (!f32x2) -> (!i32x2, !f32x2)
    %x = moe.experts %n1, %e, %w moeLayer @layer0.experts {moe.layer = 0 : i32} : (!f32x64, !i32x2, !f32x2) -> !f32x64
    %h2 = moe.add %h1, %x scale 1.0 {moe.layer = 0 : i32} : (!f32x64, !f32x64) -> !f32x64
    %f = moe.norm %h2 weight @norm epsilon 1.0e-6 segment 64 : (!f32x64) -> !f32x64
    moe.head %f weight @embedding scale 1.0 : (!f32x64) -> ()
  }
}
