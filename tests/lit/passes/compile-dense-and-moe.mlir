// A model of one dense layer and one layer with routed and shared experts, through the whole pipeline, and with the same
// result through its passes one by one, in text.
// RUN: moec-opt %s --moe-compile="bits=4 resident-bits=8 nested=false" -o %t.all.mlir
// RUN: FileCheck %s < %t.all.mlir
// RUN: moec-opt %s --moe-assign-bits="bits=4 resident-bits=8 nested=false" | moec-opt --canonicalize | moec-opt --cse | moec-opt --moe-place-predictors | moec-opt --moe-join-products | moec-opt --moe-bufferize | moec-opt --moe-make-plans | moec-opt --moe-check-budgets -o %t.each.mlir
// RUN: cmp %t.all.mlir %t.each.mlir
// Bytecode between the passes gives the same result too.
// RUN: moec-opt %s --moe-assign-bits="bits=4 resident-bits=8 nested=false" --canonicalize --cse --emit-bytecode | moec-opt --moe-place-predictors --moe-join-products --emit-bytecode | moec-opt --moe-bufferize --moe-make-plans --moe-check-budgets | cmp - %t.all.mlir

// The pipeline has the options of the passes.
// RUN: moec-opt %s --moe-compile="bits=2 down-bits=4" | FileCheck %s --check-prefix=DOWN
// DOWN: moe.expert_bits = "2", moe.expert_down_bits = "4"

// CHECK: moe.expert_bits = "4"
// 8 experts of 12288 bytes (3 pages), see make-plans.mlir.
// CHECK-SAME: moe.plans = [#moe.plan<name = "default", contextTokens = 512, prefillChunkTokens = 512, quotaPages = [24], preset = "auto", reasons = [{{.*}}]>]
// CHECK-SAME: moe.resident_bits = "8"
!f32x1 = !moe.row<f32, 1>
!f32x2 = !moe.row<f32, 2>
!f32x32 = !moe.row<f32, 32>
!f32x64 = !moe.row<f32, 64>
!f32x8 = !moe.row<f32, 8>
!f32x96 = !moe.row<f32, 96>
!i32x2 = !moe.row<i32, 2>
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.rope_table @rope0 half factor 1.0 frequencies [1.0 : f32, 0.177827939 : f32]
  moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16>
  moe.weight @norm vector from <tensor = "norm", rows = 1, cols = 64, type = bf16>
  moe.weight @square matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
  moe.weight @half matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
  moe.weight @half_value matrix from <tensor = "v", rows = 32, cols = 64, type = bf16>
  moe.weight @wide_up matrix from <tensor = "up", rows = 96, cols = 64, type = bf16>
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

  // The residual stream lies at one place from the embedding to the head. Both layers use the same offsets.
  // CHECK-LABEL: moe.program @decode
  // CHECK-NEXT: %[[H:.*]] = moe.embed weight @embedding scale 1.000000e+00 {moe.offsets = array<i64: [[R:[0-9]+]]>}
  // CHECK-NEXT: %[[N:.*]] = moe.norm %[[H]] {{.*}}moe.layer = 0 : i32, moe.offsets = array<i64: [[NORM:[0-9]+]]>}
  // CHECK-NEXT: %[[Q:.*]] = moe.quantize %[[N]] {moe.layer = 0 : i32, moe.offsets = array<i64: [[QUANTIZED:[0-9]+]]>}
  // CHECK-NEXT: moe.linear %[[Q]] weight @square bias @bias role attention {moe
  // CHECK-NEXT: moe.linear %[[Q]] weight @half role attention joined
  // CHECK-NEXT: moe.linear %[[Q]] weight @half_value role attention joined
  // CHECK-NEXT: moe.rope
  // CHECK-NEXT: moe.rope
  // CHECK-NEXT: moe.store_kv %{{.*}}, %{{.*}} slot @layer0.kv {moe.layer = 0 : i32} :
  // CHECK: moe.add %[[H]], %{{.*}} scale 1.000000e+00 {moe.layer = 0 : i32, moe.offsets = array<i64: [[R]]>}
  // CHECK: moe.activate {{.*}} {moe.layer = 0 : i32
  // CHECK: moe.add {{.*}} {moe.layer = 0 : i32, moe.offsets = array<i64: [[R]]>}
  // CHECK-NEXT: moe.norm {{.*}}moe.layer = 1 : i32, moe.offsets = array<i64: [[NORM]]>}
  // CHECK-NEXT: moe.quantize {{.*}}moe.layer = 1 : i32, moe.offsets = array<i64: [[QUANTIZED]]>}
  // CHECK: moe.experts {{.*}} moeLayer @layer1.experts {{.*}}moe.layer = 1 : i32
  // CHECK: moe.gate_rows
  // CHECK: moe.add {{.*}} {moe.layer = 1 : i32, moe.offsets = array<i64: [[R]]>}
  // CHECK-NEXT: moe.norm {{.*}} {moe.offsets = array<i64: [[R]]>}
  // CHECK-NEXT: moe.quantize
  // CHECK-NEXT: moe.head %{{.*}} weight @head
  moe.program @decode {
    %h0 = moe.embed weight @embedding scale 1.0 : () -> !f32x64
    %n0 = moe.norm %h0 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %q1 = moe.linear %n0 weight @square bias @bias role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %k1 = moe.linear %n0 weight @half role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x32
    %v1 = moe.linear %n0 weight @half_value role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x32
    %qr1 = moe.rope %q1 heads 4 headDim 16 rope @rope0 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %kr1 = moe.rope %k1 heads 2 headDim 16 rope @rope0 {moe.layer = 0 : i32} : (!f32x32) -> !f32x32
    moe.store_kv %kr1, %v1 slot @layer0.kv {moe.layer = 0 : i32} : (!f32x32, !f32x32) -> ()
    %c1 = moe.attend %qr1 slot @layer0.kv heads 4 scale 0.25 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %a0 = moe.linear %c1 weight @square role attention {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %h1 = moe.add %h0, %a0 scale 1.0 {moe.layer = 0 : i32} : (!f32x64, !f32x64) -> !f32x64
    %n1 = moe.norm %h1 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 0 : i32} : (!f32x64) -> !f32x64
    %g2 = moe.linear %n1 weight @wide {moe.layer = 0 : i32} : (!f32x64) -> !f32x96
    %u2 = moe.linear %n1 weight @wide_up {moe.layer = 0 : i32} : (!f32x64) -> !f32x96
    %a2 = moe.activate %g2, %u2 {moe.layer = 0 : i32} : (!f32x96, !f32x96) -> !f32x96
    %d = moe.linear %a2 weight @back {moe.layer = 0 : i32} : (!f32x96) -> !f32x64
    %h2 = moe.add %h1, %d scale 1.0 {moe.layer = 0 : i32} : (!f32x64, !f32x64) -> !f32x64
    %n2 = moe.norm %h2 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    %q3 = moe.linear %n2 weight @square bias @bias role attention {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    %k3 = moe.linear %n2 weight @half role attention {moe.layer = 1 : i32} : (!f32x64) -> !f32x32
    %v3 = moe.linear %n2 weight @half_value role attention {moe.layer = 1 : i32} : (!f32x64) -> !f32x32
    %qr3 = moe.rope %q3 heads 4 headDim 16 rope @rope0 {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    %kr3 = moe.rope %k3 heads 2 headDim 16 rope @rope0 {moe.layer = 1 : i32} : (!f32x32) -> !f32x32
    moe.store_kv %kr3, %v3 slot @layer1.kv {moe.layer = 1 : i32} : (!f32x32, !f32x32) -> ()
    %c3 = moe.attend %qr3 slot @layer1.kv heads 4 scale 0.25 {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    %a1 = moe.linear %c3 weight @square role attention {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    %h3 = moe.add %h2, %a1 scale 1.0 {moe.layer = 1 : i32} : (!f32x64, !f32x64) -> !f32x64
    %n3 = moe.norm %h3 weight @norm epsilon 1.0e-6 segment 64 {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    %s4 = moe.linear %n3 weight @router role router {moe.layer = 1 : i32} : (!f32x64) -> !f32x8
    %e, %w = moe.route %s4 moeLayer @layer1.experts weightScale 1.0 {moe.layer = 1 : i32} : (!f32x8) -> (!i32x2, !f32x2)
    %x = moe.experts %n3, %e, %w moeLayer @layer1.experts {moe.layer = 1 : i32} : (!f32x64, !i32x2, !f32x2) -> !f32x64
    %g5 = moe.linear %n3 weight @wide {moe.layer = 1 : i32} : (!f32x64) -> !f32x96
    %u5 = moe.linear %n3 weight @wide_up {moe.layer = 1 : i32} : (!f32x64) -> !f32x96
    %a5 = moe.activate %g5, %u5 {moe.layer = 1 : i32} : (!f32x96, !f32x96) -> !f32x96
    %d5 = moe.linear %a5 weight @back {moe.layer = 1 : i32} : (!f32x96) -> !f32x64
    %o5 = moe.linear %n3 weight @shared_gate {moe.layer = 1 : i32} : (!f32x64) -> !f32x1
    %s = moe.gate_rows %d5, %o5 {moe.layer = 1 : i32} : (!f32x64, !f32x1) -> !f32x64
    %m = moe.add %x, %s scale 1.0 {moe.layer = 1 : i32} : (!f32x64, !f32x64) -> !f32x64
    %h4 = moe.add %h3, %m scale 1.0 {moe.layer = 1 : i32} : (!f32x64, !f32x64) -> !f32x64
    %f = moe.norm %h4 weight @norm epsilon 1.0e-6 segment 64 : (!f32x64) -> !f32x64
    moe.head %f weight @head scale 1.0 : (!f32x64) -> ()
  }
}
