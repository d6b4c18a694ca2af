// Which ops count for the time between two routers.
// RUN: sed s/5e9,/131072000,/ %S/Inputs/device.yaml > %t.yaml
// RUN: moec-opt %s --moe-schedule-prefetch="device=%t.yaml" | FileCheck %s

// Of the device: reading an expert, computing one and a router of 16 x 64 floats are 1 ms each, 1024 floats a ms; keys and
// values 131072 bytes a ms. A token takes two experts.
//
//   layer 1: experts of layer 0                                              2 ms
//            a shared expert of 3 * 96 * 64 floats and its gate of 64       18.0625 ms
//            queries and output of 64 * 64 each, keys and values of 32 * 64  12 ms
//            half of 512 positions * 4 heads * (16 + 16) floats               1 ms
//            its router                                                       1 ms
//   layer 2: experts of layer 1                                              2 ms
//            attention of at most 128 positions                              12.5 ms
//            its router                                                       1 ms

// CHECK: #moe.reason<decision = "prefetch of MoE layer 1", {{[^>]*}}, why = "34.1 reads
// CHECK-SAME: #moe.reason<decision = "prefetch of MoE layer 2", {{[^>]*}}, why = "15.5 reads
#int4 = #moe.format<kind = int4, group = 32, activationGroup = 32>
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 3, maxPositions = 512, eos = [2], checkpoint = "c">,
  moe.page_bytes = 4096 : i64, moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 512, prefillChunk = 8, transitPages = 12, quotaPages = [6, 6, 6],
    guesses = [#moe.guess<>, #moe.guess<predictor = gate>, #moe.guess<predictor = paths>]>]} {
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
  moe.kv_slot @kv heads 2 key 16 value 16
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = f32> as <kind = f32>
  moe.weight @down matrix from <tensor = "d", rows = 64, cols = 96, type = f32> as <kind = f32>
  moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = f32> as <kind = f32>
  moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = f32> as <kind = f32>
  moe.weight @g router from <tensor = "s", rows = 1, cols = 64, type = f32> as <kind = f32>
  func.func @decode(%ids: tensor<?xi32>) {
    %x = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %ea, %wa = moe.route %x router <@ra> to @a softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %ya = moe.experts %x of @a chosen %ea, %wa : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %s = moe.shared_expert %x network <silu, gate = <@w>, up = <@w>, down = <@down>> gate <@g> : tensor<?x64xf32>
    %m = moe.attention %s query <@q> key <@k> value <@k> output <@q> slot @kv heads 4 scale 0.25 : tensor<?x64xf32>
    %eb, %wb = moe.route %x router <@rb> to @b softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %yb = moe.experts %x of @b chosen %eb, %wb : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %n = moe.attention %x query <@q> key <@k> value <@k> output <@q> slot @kv heads 4 scale 0.25 window 128 : tensor<?x64xf32>
    %ec, %wc = moe.route %x router <@rc> to @c softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %yc = moe.experts %x of @c chosen %ec, %wc : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    return
  }
}
