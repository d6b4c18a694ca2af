// RUN: moec-opt %s --moe-schedule-prefetch="device=%S/Inputs/device.yaml" | FileCheck %s
// RUN: moec-opt %s --moe-schedule-prefetch | FileCheck %s --check-prefix=UNKNOWN
// A disk that takes 3.1 times as long.
// RUN: sed s/12288000/3963870/ %S/Inputs/device.yaml > %t.slow.yaml
// RUN: moec-opt %s --moe-schedule-prefetch="device=%t.slow.yaml" | FileCheck %s --check-prefix=SLOW
// RUN: not moec-opt %s --moe-schedule-prefetch="device=%t.none.yaml" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: echo "device_profile: 7" > %t.seven.yaml
// RUN: not moec-opt %s --moe-schedule-prefetch="device=%t.seven.yaml" 2>&1 | FileCheck %s --check-prefix=SEVEN

// MISSING: error: {{.*}}none.yaml
// SEVEN: error: {{.*}}seven.yaml: device_profile: version 7

// On this device reading an expert, computing one and computing a router take 1 ms each. A token uses two experts.
//
//   layer 1: experts of layer 0 and its own router: (2 + 1) / 1 = 3 reads
//   layer 2: also a network of 3 * 96 * 64 floats at 1,024,000 per second, 18 ms: (2 + 18 + 1) / 1 = 21 reads
//   layer 3: 3 reads, but it has pages for all of its 16 experts of 3 pages
//
// A gate has a quarter of 16 experts as candidates; 12 staging pages hold 4 records.

// CHECK: name = "gate", {{[^>]*}}, prefetches = [#moe.prefetch<>, #moe.prefetch<predictor = gate, candidates = 4, reads = 3>, #moe.prefetch<predictor = gate, candidates = 4, reads = 4>, #moe.prefetch<>], reasons = [
// CHECK-SAME: #moe.reason<decision = "prefetch of MoE layer 0", value = "off", why = "no earlier layer can predict it", origin = derived>,
// CHECK-SAME: #moe.reason<decision = "prefetch of MoE layer 1", value = "3 of 4 likeliest", why = "3.0 reads take as long as experts, attention and router on round numbers", origin = derived>,
// CHECK-SAME: #moe.reason<decision = "prefetch of MoE layer 2", value = "4 of 4 likeliest", why = "21.0 reads take as long as experts, attention and router on round numbers", origin = derived>,
// CHECK-SAME: #moe.reason<decision = "prefetch of MoE layer 3", value = "off", why = "all experts stay in memory", origin = derived>]
// An activation-path table has twice as many candidates as a token uses, and at most three are read.
// CHECK-SAME: name = "paths", {{[^>]*}}, prefetches = [#moe.prefetch<>, #moe.prefetch<>, #moe.prefetch<predictor = paths, candidates = 4, reads = 3>, #moe.prefetch<>]
// Two layers ahead there is time for both layers' experts and routers: (2 + 1 + 2 + 18 + 1) / 1 = 24 reads.
// CHECK-SAME: name = "further", {{[^>]*}}, prefetches = [#moe.prefetch<>, #moe.prefetch<>, #moe.prefetch<predictor = gate, ahead = 2, candidates = 4, reads = 4>, #moe.prefetch<>]
// CHECK-SAME: why = "24.0 reads
// 5 pages hold one record.
// CHECK-SAME: name = "tight", {{[^>]*}}, prefetches = [#moe.prefetch<>, #moe.prefetch<predictor = gate, candidates = 4, reads = 1>
// CHECK-SAME: name = "none", {{[^>]*}}, prefetches = [#moe.prefetch<>, #moe.prefetch<>, #moe.prefetch<>, #moe.prefetch<>]
// CHECK-SAME: #moe.reason<decision = "prefetch of MoE layers 1-2", value = "off", why = "the staging pages do not hold another expert; 3.0 to 21.0 reads
// A plan without predictors stays unchanged.
// CHECK-SAME: name = "off", {{[^>]*}}, quotaPages = [6, 6, 6, 6]>]

// Layers 1 and 2 get the same decision: as many reads as a token uses experts.
// UNKNOWN: name = "gate", {{[^>]*}}, prefetches = [#moe.prefetch<>, #moe.prefetch<predictor = gate, candidates = 4, reads = 2>, #moe.prefetch<predictor = gate, candidates = 4, reads = 2>, #moe.prefetch<>]
// UNKNOWN-SAME: #moe.reason<decision = "prefetch of MoE layers 1-2", value = "2 of 4 likeliest", why = "no device was given: as many as the predictor's paper reads", origin = assumed>

// 3 ms are less than one read of 3.1 ms; 21 ms are 6.8.
// SLOW: name = "gate", {{[^>]*}}, prefetches = [#moe.prefetch<>, #moe.prefetch<>, #moe.prefetch<predictor = gate, candidates = 4, reads = 4>, #moe.prefetch<>]
// SLOW-SAME: #moe.reason<decision = "prefetch of MoE layer 1", value = "off", why = "reading an expert takes longer than computing until its router runs; 1.0 reads
#int4 = #moe.format<kind = int4, group = 32, activationGroup = 32>
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 4, maxPositions = 512, eos = [2], checkpoint = "c">,
  moe.page_bytes = 4096 : i64, moe.plans = [
    #moe.plan<name = "gate", budgetBytes = 0, contextTokens = 512, prefillChunk = 8, stagingPages = 12, quotaPages = [6, 6, 6, 48], prefetches = [#moe.prefetch<>, #moe.prefetch<predictor = gate>, #moe.prefetch<predictor = gate>, #moe.prefetch<predictor = gate>]>,
    #moe.plan<name = "paths", budgetBytes = 0, contextTokens = 512, prefillChunk = 8, stagingPages = 12, quotaPages = [6, 6, 6, 48], prefetches = [#moe.prefetch<>, #moe.prefetch<>, #moe.prefetch<predictor = paths>, #moe.prefetch<predictor = paths>]>,
    #moe.plan<name = "further", budgetBytes = 0, contextTokens = 512, prefillChunk = 8, stagingPages = 12, quotaPages = [6, 6, 6, 48], prefetches = [#moe.prefetch<>, #moe.prefetch<>, #moe.prefetch<predictor = gate, ahead = 2>, #moe.prefetch<predictor = gate, ahead = 2>]>,
    #moe.plan<name = "tight", budgetBytes = 0, contextTokens = 512, prefillChunk = 8, stagingPages = 5, quotaPages = [6, 6, 6, 48], prefetches = [#moe.prefetch<>, #moe.prefetch<predictor = gate>, #moe.prefetch<predictor = gate>, #moe.prefetch<predictor = gate>]>,
    #moe.plan<name = "none", budgetBytes = 0, contextTokens = 512, prefillChunk = 8, stagingPages = 2, quotaPages = [6, 6, 6, 48], prefetches = [#moe.prefetch<>, #moe.prefetch<predictor = gate>, #moe.prefetch<predictor = gate>, #moe.prefetch<predictor = gate>]>,
    #moe.plan<name = "off", budgetBytes = 0, contextTokens = 512, prefillChunk = 8, stagingPages = 12, quotaPages = [6, 6, 6, 6]>]} {
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
