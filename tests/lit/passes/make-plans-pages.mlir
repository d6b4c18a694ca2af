// RUN: moec-opt %s --moe-make-plans | FileCheck %s

// The expert in f32 has 3 * 24576 bytes, 9 pages of 8 KiB without any waste; each of the others, 12288 bytes as in
// make-plans.mlir, would waste half a page of those, 12288 of 110592 bytes in all. In pages of 4 KiB they are 18 + 3 * 3.
// CHECK: moe.page_bytes = 4096 : i64
// CHECK-SAME: quotaPages = [18, 9]
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.moe_layer @floats layer 0 silu experts 1
    matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = f32>]>,
              #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = f32>]>,
              #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = f32>]>]
    slices [[#moe.format<kind = f32>]]
  moe.moe_layer @experts layer 1 silu experts 3
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = f32>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = f32>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = f32>]>]
    slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>], [#moe.format<kind = int4, group = 32, activationGroup = 32>],
            [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
}
