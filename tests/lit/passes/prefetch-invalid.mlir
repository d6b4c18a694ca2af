// What moe-place-predictors and moe-schedule-prefetch require of the module, and refuse.
// RUN: moec-opt %s -split-input-file -verify-diagnostics --moe-place-predictors --moe-schedule-prefetch="device=%S/Inputs/device.yaml"

// Needs plans.
// expected-error@+1 {{the module has no plans: run moe-allot-cache first}}
module {}

// -----

// An unknown preset is refused.
// expected-error@+1 {{preset 'mru', expected auto, load-on-demand, lru, edgemoe or fate}}
module attributes {moe.page_bytes = 4096 : i64, moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunk = 8, stagingPages = 0, quotaPages = [], preset = "mru">]} {}

// -----

// The sizes of records need formats.
module attributes {moe.page_bytes = 4096 : i64, moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunk = 8, stagingPages = 0, quotaPages = [0]>]} {
  // expected-error@+1 {{the experts have no slices: run moe-assign-bits first}}
  moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
}

// -----

// So do the times of products.
#int4 = #moe.format<kind = int4, group = 32, activationGroup = 32>
module attributes {moe.page_bytes = 4096 : i64, moe.plans = [#moe.plan<name = "p", budgetBytes = 0, contextTokens = 8, prefillChunk = 8, stagingPages = 8, quotaPages = [0, 0], preset = "fate">]} {
  moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = f32>
  moe.moe_layer @a layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#int4], [#int4]]
  moe.moe_layer @b layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#int4], [#int4]]
  func.func @decode(%x: tensor<?x64xf32>) {
    %e, %w = moe.route %x router <@r> to @a softmax_then_top_k renormalize true scale 1.0 : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // expected-error@+1 {{uses weight @r, which has no format: run moe-assign-bits first}}
    %f, %v = moe.route %x router <@r> to @b softmax_then_top_k renormalize true scale 1.0 : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    return
  }
}
