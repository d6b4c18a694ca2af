// What make-plans decides of prefetches by the rules of presets, with a device and without one.
// RUN: moec-opt %s --moe-place-predictors --moe-make-plans="budgets=50%% presets=fate,edgemoe paths=true threads=1 device=%S/Inputs/device.yaml" | FileCheck %s
// RUN: moec-opt %s --moe-place-predictors --moe-make-plans="budgets=50%% presets=fate,edgemoe threads=1" | FileCheck %s --check-prefix=UNKNOWN
// Without predictions there is nothing to prefetch by.
// RUN: moec-opt %s --moe-make-plans="budgets=50%% presets=fate threads=1" | FileCheck %s --check-prefix=NONE
// RUN: not moec-opt %s --moe-make-plans="device=%t.none.yaml" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: echo "device_profile: 7" > %t.seven.yaml
// RUN: not moec-opt %s --moe-make-plans="device=%t.seven.yaml" 2>&1 | FileCheck %s --check-prefix=SEVEN
// RUN: not moec-opt %s --moe-make-plans="calibration=%t.none.profile" 2>&1 | FileCheck %s --check-prefix=UNCALIBRATED

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
// CHECK-SAME: <decision = "prefetch of MoE layer 0", value = "off", reason = "no earlier layer can predict it", origin = derived>,
// CHECK-SAME: <decision = "prefetch of MoE layers 1-3", value = "2 of 4 likeliest", reason = "4.0 to 22.0 reads take as long as experts, attention and router on round numbers", origin = assumed>]>
// 85 pages are 28 records. An activation-path table has twice as many candidates as a token uses.
// CHECK-SAME: #moe.plan<name = "50% edgemoe", {{[^>]*}}, stagingPages = 6, quotaPages = [21, 21, 21, 21], preset = "edgemoe", eviction = edgemoe, sharing = "one pool", prefetches = [<>, <predictor = paths, candidates = 4, reads = 2>,

// UNKNOWN: #moe.plan<name = "50% fate", {{[^>]*}}, prefetches = [<>, <predictor = gate, candidates = 4, reads = 2>,
// UNKNOWN-SAME: <decision = "prefetch of MoE layers 1-3", value = "2 of 4 likeliest", reason = "no device was given: as many as the predictor's paper reads", origin = assumed>
// UNKNOWN-SAME: #moe.plan<name = "50% edgemoe", {{[^>]*}}, {{[^>]*}}, sharing = "one pool", reasons =
// UNKNOWN-SAME: <decision = "prefetches", value = "none", reason = "there is no activation-path table, {{[^"]*}}", origin = derived>

// NONE: prefetches = [<>, <>, <>, <>], reasons =
// NONE-SAME: <decision = "prefetch of MoE layers 0-3", value = "off", reason = "no earlier layer can predict it", origin = derived>
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
  func.func @decode(%ids: tensor<?xi32>) {
    %x = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %ea, %wa = moe.route %x router <@ra> to @a softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %ya = moe.experts %x of @a chosen %ea, %wa : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %eb, %wb = moe.route %x router <@rb> to @b softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %yb = moe.experts %x of @b chosen %eb, %wb : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %n = moe.dense %x network <silu, gate = <@w>, up = <@w>, down = <@down>> : tensor<?x64xf32>
    %ec, %wc = moe.route %x router <@rc> to @c softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %yc = moe.experts %x of @c chosen %ec, %wc : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %ed, %wd = moe.route %x router <@rd> to @d softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %yd = moe.experts %x of @d chosen %ed, %wd : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    return
  }
}
