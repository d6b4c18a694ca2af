// What make-plans decides of prefetches by the rules of presets, with a device and without one.
// RUN: moec-opt %s --moe-place-predictors --moe-bufferize --moe-make-plans="budgets=50%% presets=fate,edgemoe paths=true threads=1 device=%S/Inputs/device.yaml" | FileCheck %s
// RUN: moec-opt %s --moe-place-predictors --moe-bufferize --moe-make-plans="budgets=50%% presets=fate,edgemoe threads=1" | FileCheck %s --check-prefix=UNKNOWN
// Without predictions there is nothing to prefetch by.
// RUN: moec-opt %s --moe-bufferize --moe-make-plans="budgets=50%% presets=fate threads=1" | FileCheck %s --check-prefix=NONE
// RUN: not moec-opt %s --moe-bufferize --moe-make-plans="device=%t.none.yaml" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: echo "device_profile: 7" > %t.seven.yaml
// RUN: not moec-opt %s --moe-bufferize --moe-make-plans="device=%t.seven.yaml" 2>&1 | FileCheck %s --check-prefix=SEVEN
// RUN: not moec-opt %s --moe-bufferize --moe-make-plans="calibration=%t.none.profile" 2>&1 | FileCheck %s --check-prefix=UNCALIBRATED

// MISSING: error: {{.*}}none.yaml
// SEVEN: error: {{.*}}seven.yaml: device_profile: version 7
// UNCALIBRATED: error: {{.*}}none.profile

// Reading an expert, computing one and computing a router take 1 ms each on this device. A token uses two experts.
//
//   layer 1: experts of layer 0, the prediction and its own router: (2 + 1 + 1) / 1 = 4 reads
//   layer 2: also a network of 3 * 96 * 64 floats at 1,024,000 per second, 18 ms: 22 reads
//   layer 3: 4 reads
//
// A gate has a quarter of 16 experts as candidates. Half of the payload of 64 * 11648 bytes is 91 pages of 4 KiB: 6 for
// prefetching two experts of 3 pages. 48 of the other 85 hold the first layer, 37 are 12 records of three layers.

// CHECK: #moe.plan<name = "50% fate", {{[^>]*}}, stagingPages = 6, quotaPages = [48, 12, 12, 12], preset = "fate", eviction = arc, prefetches = [<>, <predictor = gate, candidates = 4, reads = 2>, <predictor = gate, candidates = 4, reads = 2>, <predictor = gate, candidates = 4, reads = 2>], reasons = [
// CHECK-SAME: <decision = "prefetches", value = "gate, 1 ahead", reason = "{{[^"]*}}", origin = stated>
// CHECK-SAME: <decision = "prefetch of MoE layer 0", value = "off", reason = "no earlier layer can predict it">,
// CHECK-SAME: <decision = "prefetch of MoE layers 1-3", value = "2 of 4 likeliest", reason = "4.0 to 22.0 reads take as long as experts, attention and router on round numbers", origin = assumed>]>
// 85 pages are 28 records. An activation-path table has twice as many candidates as a token uses.
// CHECK-SAME: #moe.plan<name = "50% edgemoe", {{[^>]*}}, stagingPages = 6, quotaPages = [21, 21, 21, 21], preset = "edgemoe", eviction = edgemoe, sharing = "one pool", prefetches = [<>, <predictor = paths, candidates = 4, reads = 2>,

// UNKNOWN: #moe.plan<name = "50% fate", {{[^>]*}}, prefetches = [<>, <predictor = gate, candidates = 4, reads = 2>,
// UNKNOWN-SAME: <decision = "prefetch of MoE layers 1-3", value = "2 of 4 likeliest", reason = "no device was given: as many as the predictor's paper reads", origin = assumed>
// UNKNOWN-SAME: #moe.plan<name = "50% edgemoe", {{[^>]*}}, {{[^>]*}}, sharing = "one pool", reasons =
// UNKNOWN-SAME: <decision = "prefetches", value = "none", reason = "there is no activation-path table, {{[^"]*}}">

// NONE: prefetches = [<>, <>, <>, <>], reasons =
// NONE-SAME: <decision = "prefetch of MoE layers 0-3", value = "off", reason = "no earlier layer can predict it">
!f32x16 = !moe.row<f32, 16>
!f32x2 = !moe.row<f32, 2>
!f32x64 = !moe.row<f32, 64>
!f32x96 = !moe.row<f32, 96>
!i32x2 = !moe.row<i32, 2>
!quantizedx64g32 = !moe.row<quantized, 64, group = 32>
#int4 = #moe.format<kind = int4, group = 32, activationGroup = 32>
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 4, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.weight @ra router from <tensor = "r", rows = 16, cols = 64, type = f32> as <kind = f32>
  moe.moe_layer @a layer 0 silu experts 16
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4]]
  moe.weight @rb router from <tensor = "r", rows = 16, cols = 64, type = f32> as <kind = f32>
  moe.moe_layer @b layer 1 silu experts 16
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4]]
  moe.weight @rc router from <tensor = "r", rows = 16, cols = 64, type = f32> as <kind = f32>
  moe.moe_layer @c layer 2 silu experts 16
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4]]
  moe.weight @rd router from <tensor = "r", rows = 16, cols = 64, type = f32> as <kind = f32>
  moe.moe_layer @d layer 3 silu experts 16
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4], [#int4]]
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = f32> as <kind = f32>
  moe.weight @down matrix from <tensor = "d", rows = 64, cols = 96, type = f32> as <kind = f32>
  moe.program @decode {
    %x = moe.embed weight @w scale 1.0 : () -> !f32x64
    %s1 = moe.linear %x weight @ra role router : (!f32x64) -> !f32x16
    %ea, %wa = moe.route %s1 moeLayer @a renormalize weightScale 1.0 : (!f32x16) -> (!i32x2, !f32x2)
    %xq = moe.quantize %x : (!f32x64) -> !quantizedx64g32
    %ya = moe.experts %xq, %ea, %wa moeLayer @a : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %s2 = moe.linear %x weight @rb role router : (!f32x64) -> !f32x16
    %eb, %wb = moe.route %s2 moeLayer @b renormalize weightScale 1.0 : (!f32x16) -> (!i32x2, !f32x2)
    %yb = moe.experts %xq, %eb, %wb moeLayer @b : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %g3 = moe.linear %x weight @w : (!f32x64) -> !f32x96
    %u3 = moe.linear %x weight @w : (!f32x64) -> !f32x96
    %a3 = moe.activate %g3, %u3 : (!f32x96, !f32x96) -> !f32x96
    %n = moe.linear %a3 weight @down : (!f32x96) -> !f32x64
    %s4 = moe.linear %x weight @rc role router : (!f32x64) -> !f32x16
    %ec, %wc = moe.route %s4 moeLayer @c renormalize weightScale 1.0 : (!f32x16) -> (!i32x2, !f32x2)
    %yc = moe.experts %xq, %ec, %wc moeLayer @c : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %s5 = moe.linear %x weight @rd role router : (!f32x64) -> !f32x16
    %ed, %wd = moe.route %s5 moeLayer @d renormalize weightScale 1.0 : (!f32x16) -> (!i32x2, !f32x2)
    %yd = moe.experts %xq, %ed, %wd moeLayer @d : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    moe.head %x weight @w scale 1.0 : (!f32x64) -> ()
  }
}
