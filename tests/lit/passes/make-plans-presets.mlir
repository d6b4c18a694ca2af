// Each preset has a plan for each budget, named after both, with the preset's rules and page quotas.
// RUN: moec-opt %s --moe-bufferize --moe-make-plans="budgets=75%%,40%% presets=auto,load-on-demand,lru,edgemoe,fate paths=true" | FileCheck %s
// Without an activation-path table edgemoe prefetches nothing and has no staging pages.
// RUN: moec-opt %s --moe-bufferize --moe-make-plans="budgets=75%%,40%% presets=edgemoe" | FileCheck %s --check-prefix=ALONE

// The passes can run again with the same result.
// RUN: moec-opt %s --moe-place-predictors --moe-bufferize --moe-make-plans="budgets=40%% presets=fate device=%S/Inputs/device.yaml" -o %t.once.mlir
// RUN: moec-opt %t.once.mlir --moe-place-predictors --moe-bufferize --moe-make-plans="budgets=40%% presets=fate device=%S/Inputs/device.yaml" | cmp - %t.once.mlir

// Nine layers of four records of 3 pages, see make-plans.mlir: 108 pages. Three quarters of the payload of 9 * 4 * 11648
// bytes are 314496 bytes, 76 pages of 4 KiB; 40% are 40 pages. A token uses 2 experts: a layer pass needs 6 pages.

// Evenly: 76 - 76 % 3 = 75 pages are 25 records, of which seven layers get 3 and two get 2.
// CHECK: #moe.plan<name = "75% auto", {{[^>]*}}, quotaPages = [9, 9, 9, 9, 9, 9, 9, 6, 6], preset = "auto", reasons
// CHECK-SAME: decision = "eviction", value = "reuse-distance"
// Nothing is kept; the staging pages hold all experts of a layer.
// CHECK-SAME: #moe.plan<name = "75% load-on-demand", {{[^>]*}}, stagingPages = 12, quotaPages = [0, 0, 0, 0, 0, 0, 0, 0, 0], preset = "load-on-demand", eviction = lru, reasons
// CHECK-SAME: #moe.plan<name = "75% lru", {{[^>]*}}, quotaPages = [9, 9, 9, 9, 9, 9, 9, 6, 6], preset = "lru", eviction = lru, reasons
// Two records for prefetching; 70 pages are 23 records.
// CHECK-SAME: #moe.plan<name = "75% edgemoe", {{[^>]*}}, stagingPages = 6, quotaPages = [9, 9, 9, 9, 9, 6, 6, 6, 6], preset = "edgemoe", eviction = edgemoe, sharing = "one pool", prefetches = [{{[^]]*}}], reasons
// An eighth of nine layers, rounded up, is two: 24 pages. 46 are left for seven layers: 15 records.
// CHECK-SAME: #moe.plan<name = "75% fate", {{[^>]*}}, stagingPages = 6, quotaPages = [12, 12, 9, 6, 6, 6, 6, 6, 6], preset = "fate", eviction = arc, prefetches = [{{[^]]*}}], reasons
// CHECK-SAME: #moe.plan<name = "40% auto"
// CHECK-SAME: #moe.plan<name = "40% load-on-demand"
// CHECK-SAME: #moe.plan<name = "40% lru"
// CHECK-SAME: #moe.plan<name = "40% edgemoe"
// 6 pages for prefetching and 24 for the first two layers leave 10; with a quota of (10 - t) / 7 a layer pass needs
// t = (6 * 7 - 10) / 6 = 6 staging pages: two records. One layer gets the last record.
// CHECK-SAME: #moe.plan<name = "40% fate", {{[^>]*}}, stagingPages = 12, quotaPages = [12, 12, 3, 0, 0, 0, 0, 0, 0], preset = "fate"

// ALONE: #moe.plan<name = "75%", {{[^>]*}}, quotaPages = [9, 9, 9, 9, 9, 9, 9, 6, 6], preset = "edgemoe", eviction = edgemoe, sharing = "one pool"
// ALONE-SAME: #moe.plan<name = "40%",
!f32x2 = !moe.row<f32, 2>
!f32x4 = !moe.row<f32, 4>
!f32x64 = !moe.row<f32, 64>
!i32x2 = !moe.row<i32, 2>
#int4 = #moe.format<kind = int4, group = 32, activationGroup = 32>
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 9, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.weight @ra router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @a layer 0 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rb router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @b layer 1 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rc router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @c layer 2 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rd router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @d layer 3 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @re router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @e layer 4 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rf router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @f layer 5 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rg router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @g layer 6 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @rh router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @h layer 7 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @ri router from <tensor = "r", rows = 4, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @i layer 8 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#int4], [#int4], [#int4], [#int4]]
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.program @decode {
    %x = moe.embed weight @w scale 1.0 : () -> !f32x64
    %s1 = moe.linear %x weight @ra role router : (!f32x64) -> !f32x4
    %ea, %wa = moe.route %s1 moeLayer @a renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s2 = moe.linear %x weight @rb role router : (!f32x64) -> !f32x4
    %eb, %wb = moe.route %s2 moeLayer @b renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s3 = moe.linear %x weight @rc role router : (!f32x64) -> !f32x4
    %ec, %wc = moe.route %s3 moeLayer @c renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s4 = moe.linear %x weight @rd role router : (!f32x64) -> !f32x4
    %ed, %wd = moe.route %s4 moeLayer @d renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s5 = moe.linear %x weight @re role router : (!f32x64) -> !f32x4
    %ee, %we = moe.route %s5 moeLayer @e renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s6 = moe.linear %x weight @rf role router : (!f32x64) -> !f32x4
    %ef, %wf = moe.route %s6 moeLayer @f renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s7 = moe.linear %x weight @rg role router : (!f32x64) -> !f32x4
    %eg, %wg = moe.route %s7 moeLayer @g renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s8 = moe.linear %x weight @rh role router : (!f32x64) -> !f32x4
    %eh, %wh = moe.route %s8 moeLayer @h renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    %s9 = moe.linear %x weight @ri role router : (!f32x64) -> !f32x4
    %ei, %wi = moe.route %s9 moeLayer @i renormalize weightScale 1.0 : (!f32x4) -> (!i32x2, !f32x2)
    moe.head %x weight @w scale 1.0 : (!f32x64) -> ()
  }
}
