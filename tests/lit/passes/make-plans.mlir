// RUN: moec-opt %s -split-input-file --moe-bufferize --moe-make-plans | FileCheck %s --check-prefix=ALL
// RUN: moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="budgets=50%%,30%%,1GiB context=32 prefill-chunk=8" | FileCheck %s --check-prefix=FRACTIONS
// RUN: moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="page-bytes=16384" | FileCheck %s --check-prefix=PAGE
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="page-bytes=5000" 2>&1 | FileCheck %s --check-prefix=BADPAGE
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="budgets=10%%" 2>&1 | FileCheck %s --check-prefix=FRACTION
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="budgets=6" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="context=513" 2>&1 | FileCheck %s --check-prefix=CONTEXT
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="budgets=1GiB,1GiB" 2>&1 | FileCheck %s --check-prefix=TWICE

// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="presets=lru,lru" 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="presets=hobbit" 2>&1 | FileCheck %s --check-prefix=HOBBIT
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="presets=swapmoe" 2>&1 | FileCheck %s --check-prefix=SWAPMOE
// RUN: not moec-opt %s -split-input-file --moe-bufferize --moe-make-plans="presets=fifo" 2>&1 | FileCheck %s --check-prefix=FIFO

// SAME: error: preset lru is given twice; plan names must be unique
// HOBBIT: error: preset hobbit loses accuracy on misses, and its loss is measured on an artifact: {{.*}} moec replan OUT.moe --preset hobbit
// SWAPMOE: error: preset swapmoe loses accuracy on misses, and its loss is measured on an artifact: {{.*}} moec replan OUT.moe --preset swapmoe
// FIFO: error: preset 'fifo', expected auto, load-on-demand, lru, edgemoe, fate, hobbit, swapmoe or pruning
// TWICE: error: budget 1GiB is given twice; plan names must be unique
// BADPAGE: error: a page of 5000 bytes, expected a power of two from 4 KiB to 1 MiB
// FRACTION: error: budget 10%: a cache of that fraction of 45.5 KiB of experts is smaller than the largest record, 12.0 KiB
// SIZE: error: budget: size '6': the unit is missing
// CONTEXT: error: found a context of 513 tokens, expected at most the model's 512 positions

// A matrix of 96 x 64 in int4 has 96 * 64 / 2 = 3072 bytes of codes and 96 * 2 groups * 2 = 384 of scales, together
// 3456; the next one starts at 4096. 64 x 96 has 3072 and 64 * 3 * 2 = 384. The record's payload is
// 4096 + 4096 + 3456 = 11648 bytes, with padding 12288: 3 pages of 4 KiB. Pages of 8 KiB would waste a third.
// Four records are 12 pages. Half of the experts' 4 * 11648 bytes are 23296, 5 pages; 30% are 13977, 3 pages: either
// way one record fits. 1 GiB is more than everything needs. The largest comes first.

// FRACTIONS: moe.page_bytes = 4096 : i64
// FRACTIONS-SAME: #moe.plan<name = "1GiB", budgetBytes = 1073741824, contextTokens = 32, prefillChunkTokens = 8, quotaPages = [12], preset = "auto", reasons =
// FRACTIONS-SAME: #moe.plan<name = "50%", {{[^>]*}}, quotaPages = [3], preset = "auto", reasons =
// FRACTIONS-SAME: #moe.plan<name = "30%", {{[^>]*}}, quotaPages = [3], preset = "auto", reasons =

// ALL: moe.page_bytes = 4096 : i64
// ALL-SAME: moe.plans = [#moe.plan<name = "default", contextTokens = 512, prefillChunkTokens = 512, quotaPages = [12], preset = "auto", reasons = [<decision = "eviction", value = "reuse-distance", reason = "{{[^"]*}}", origin = assumed>, <decision = "quotas", value = "even", reason = "{{[^"]*}}", origin = assumed>, <decision = "prefetches", value = "none", reason = "{{[^"]*}}", origin = assumed>]>]
// PAGE: moe.page_bytes = 16384 : i64
// One page of 16 KiB holds a record.
// PAGE-SAME: quotaPages = [4]
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.moe_layer @experts layer 0 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>], [#moe.format<kind = int4, group = 32, activationGroup = 32>],
            [#moe.format<kind = int4, group = 32, activationGroup = 32>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
}

// -----

// 1024 x 1024 in bf16 is 2 MiB; three are 6 MiB, a multiple of every page size: the largest is chosen. Two layers of
// two records are 4 * 96 pages.

// ALL: moe.page_bytes = 65536 : i64
// ALL-SAME: quotaPages = [192, 192]
// Half of 24 MiB are 192 pages, 2 records; a layer pass needs its 2 chosen records at the same time, which only the
// staging pages can give to each of the two layers in turn.
// FRACTIONS: name = "50%", {{[^>]*}}, stagingPages = 192, quotaPages = [0, 0], preset = "auto"
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 1024, layers = 2, maxPositions = 512, eos = [2], checkpoint = "c">} {
  moe.weight @r router from <tensor = "r", rows = 2, cols = 1024, type = bf16> as <kind = bf16>
  moe.moe_layer @a layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 1024, cols = 1024, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 1024, cols = 1024, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 1024, cols = 1024, type = bf16>]>]
    slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
  moe.moe_layer @b layer 1 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 1024, cols = 1024, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 1024, cols = 1024, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 1024, cols = 1024, type = bf16>]>]
    slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 1024, type = bf16> as <kind = bf16>
  moe.program @decode {
    %x = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 1024>
    %s = moe.linear %x weight @r role router : (!moe.row<f32, 1024>) -> !moe.row<f32, 2>
    %i, %w = moe.route %s moeLayer @a renormalize weightScale 1.0 : (!moe.row<f32, 2>) -> (!moe.row<i32, 2>, !moe.row<f32, 2>)
    %t = moe.linear %x weight @r role router : (!moe.row<f32, 1024>) -> !moe.row<f32, 2>
    %j, %v = moe.route %t moeLayer @b renormalize weightScale 1.0 : (!moe.row<f32, 2>) -> (!moe.row<i32, 2>, !moe.row<f32, 2>)
    moe.head %x weight @w scale 1.0 : (!moe.row<f32, 1024>) -> ()
  }
}
