// Every op, attribute and type, printed and read again: as text, as generic text and as bytecode.
// RUN: moec-opt %s | moec-opt | FileCheck %s
// RUN: moec-opt %s --mlir-print-op-generic | moec-opt | FileCheck %s
// RUN: moec-opt %s --emit-bytecode -o %t.bc
// RUN: moec-opt %t.bc | FileCheck %s

// CHECK-DAG: #bf16 = #moe.format<kind = bf16>
// CHECK-DAG: #int2g64a32o = #moe.format<kind = int2, group = 64, activationGroup = 32, offsets = true>
// CHECK-DAG: !f32x64 = !moe.row<f32, 64>
// CHECK-DAG: !quantizedx64g32 = !moe.row<quantized, 64, group = 32>

// CHECK: module attributes
// CHECK-SAME: moe.expert_bits = "2"
// CHECK-SAME: moe.measured = #moe.measured<metric = "perplexity", target = 2.000000e-02, loss = 1.500000e-02, upperBound = 0.017499999999999998, klNats = 1.000000e-02, topDisagreement = 5.000000e-02, confidence = 0.95999999999999996, units = 2, documents = 3, unitSpread = 1.250000e-01, isSetAside = true, windowTokens = 128, solver = "greedy", quantizer = "gptq", measurements = 12, windowsEvaluated = 900, calibrationTokens = 2048, calibrationTexts = [<name = "c.txt", hash = 18446744073709551615, bytes = 64>], acceptanceTexts = [<name = "a.txt", hash = 7, bytes = 4096, windows = [0, 3], referenceNats = [3.102500e+02, 2.985000e+02], referencePoints = [1.000000e+00, 0.000000e+00], loss = 2.500000e-01, units = 2, unitSpread = 5.000000e-01>], itemOptions = ["shots" = "3"], candidates = [<solver = "mckp", expertBytes = 4096, residentBytes = 512, klNats = 2.500000e-01, loss = 5.000000e-01, expectedBound = 7.500000e-01, tokenNs = 1.500000e+00, isChosen = true>, <solver = "uniform", expertBytes = 8192, residentBytes = 512, klNats = 1.250000e-01>], quantile = <fraction = 9.000000e-01, upperBound = 2.500000e-02, target = 3.125000e-02>>
// CHECK-SAME: moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512, eos = [2, 3], checkpoint = "models/tiny", bos = 1>
// CHECK-SAME: moe.page_bytes = 4096 : i64
// CHECK-SAME: moe.plans = [#moe.plan<name = "64MiB", budgetBytes = 67108864, contextTokens = 256, prefillChunkTokens = 8, stagingPages = 4, quotaPages = [8, 0]>,
// CHECK-SAME: #moe.plan<name = "32MiB fate", budgetBytes = 33554432, contextTokens = 256, prefillChunkTokens = 8, stagingPages = 4, quotaPages = [4, 0], preset = "fate", eviction = arc, sharing = "one pool", survival = pins, pinned = {{\[\[}}1], []], start = [<experts = [1, 0], uses = [5, 3]>, <>], startTokens = 9, prefetches = [<>, <predictor = gate, candidates = 1, reads = 1, minProbability = 100>], reasons = [<decision = "eviction", value = "arc", reason = "because", origin = stated>]>,
// CHECK-SAME: #moe.plan<name = "as usual", budgetBytes = 33554432, contextTokens = 256, prefillChunkTokens = 8, stagingPages = 4, quotaPages = [4, 0]>]
// CHECK-SAME: moe.quantizer = #moe.quantizer<method = per_channel, group = 96, offsets = true, hadamard = true, nested = true, calibration = "tiny.profile", traceExpertBytes = 3538944, searchRuns = [5, -1]>
// CHECK-SAME: moe.resident_bits = "8"
// CHECK-SAME: moe.widths_by = "bytes"
!f32x1 = !moe.row<f32, 1>
!f32x2 = !moe.row<f32, 2>
!f32x8 = !moe.row<f32, 8>
!f32x32 = !moe.row<f32, 32>
!f32x64 = !moe.row<f32, 64>
!i32x1 = !moe.row<i32, 1>
!i32x2 = !moe.row<i32, 2>
!i32x12 = !moe.row<i32, 12>
!i32x16 = !moe.row<i32, 16>
!quantizedx64g32 = !moe.row<quantized, 64, group = 32>
!f32x64r16 = !moe.row<f32, 64 rows = 16>
!f32x256r4 = !moe.row<f32, 256 rows = 4>
!f32x256 = !moe.row<f32, 256>
module attributes {
  moe.quantizer = #moe.quantizer<method = per_channel, group = 96, offsets = true, hadamard = true, nested = true,
                                 calibration = "tiny.profile", traceExpertBytes = 3538944, searchRuns = [5, -1]>,
  moe.widths_by = "bytes",
  moe.measured = #moe.measured<metric = "perplexity", target = 2.0e-02, loss = 1.5e-02,
                               upperBound = 0.017499999999999998, klNats = 0.01,
                               topDisagreement = 0.05, confidence = 0.96, units = 2, documents = 3,
                               unitSpread = 0.125, isSetAside = true, windowTokens = 128,
                               solver = "greedy", quantizer = "gptq", measurements = 12, windowsEvaluated = 900,
                               calibrationTokens = 2048,
                               calibrationTexts = [<name = "c.txt", hash = 18446744073709551615, bytes = 64>],
                               acceptanceTexts = [<name = "a.txt", hash = 7, bytes = 4096, windows = [0, 3],
                                                   referenceNats = [310.25, 298.5], referencePoints = [1.0, 0.0],
                                                   loss = 0.25, units = 2, unitSpread = 0.5>],
                               itemOptions = ["shots" = "3"],
                               candidates = [<solver = "mckp", expertBytes = 4096, residentBytes = 512, klNats = 0.25,
                                              loss = 0.5, expectedBound = 0.75, tokenNs = 1.5, isChosen = true>,
                                             <solver = "uniform", expertBytes = 8192, residentBytes = 512,
                                              klNats = 0.125>],
                               quantile = <fraction = 0.9, upperBound = 0.025, target = 0.03125>>,
  moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512,
                         eos = [2, 3], checkpoint = "models/tiny", bos = 1>,
  moe.expert_bits = "2", moe.resident_bits = "8", moe.page_bytes = 4096 : i64,
  moe.plans = [#moe.plan<name = "64MiB", budgetBytes = 67108864, contextTokens = 256,
                         prefillChunkTokens = 8, stagingPages = 4, quotaPages = [8, 0]>,
               #moe.plan<name = "32MiB fate", budgetBytes = 33554432, contextTokens = 256, prefillChunkTokens = 8,
                         stagingPages = 4, quotaPages = [4, 0], preset = "fate", eviction = arc,
                         sharing = "one pool", survival = pins, pinned = [[1], []],
                         start = [<experts = [1, 0], uses = [5, 3]>, <>],
                         startTokens = 9, prefetches = [<>,
                           <predictor = gate, candidates = 1, reads = 1, minProbability = 100>],
                         reasons = [<decision = "eviction", value = "arc", reason = "because", origin = stated>]>,
               #moe.plan<name = "as usual", budgetBytes = 33554432, contextTokens = 256, prefillChunkTokens = 8,
                         stagingPages = 4, quotaPages = [4, 0], preset = "", eviction = "reuse-distance", sharing = "layer quotas",
                         survival = everything, startTokens = 1>]
} {
  // A frequency keeps its bits: six digits would not be enough for the second.
  // CHECK: moe.rope_table @rope0 interleaved factor 1.500000e+00 frequencies [1.000000e+00 : f32, 0.177827939 : f32]
  moe.rope_table @rope0 interleaved factor 1.5 frequencies [1.0 : f32, 0.177827939 : f32]

  // CHECK: moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16> as #bf16
  moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  // CHECK: moe.weight @square matrix from <tensor = "fused", rows = 64, cols = 64, type = f16, index = 3, firstRow = 64, rowStep = 2, transposed = true> as #int8g32a32
  moe.weight @square matrix
    from <tensor = "fused", rows = 64, cols = 64, type = f16, index = 3, firstRow = 64, rowStep = 2, transposed = true>
    as <kind = int8, group = 32, activationGroup = 32>
  // CHECK: moe.weight @chosen matrix from <tensor = "c", rows = 64, cols = 64, type = bf16> class "attention" bits 16 as #bf16
  moe.weight @chosen matrix from <tensor = "c", rows = 64, cols = 64, type = bf16> class "attention" bits 16 as <kind = bf16>
  // CHECK: moe.weight @half matrix from <tensor = "h", rows = 32, cols = 64, type = f32>{{$}}
  moe.weight @half matrix from <tensor = "h", rows = 32, cols = 64, type = f32>
  moe.weight @half8 matrix from <tensor = "h", rows = 32, cols = 64, type = f32> as <kind = int8, group = 32, activationGroup = 32>
  // CHECK: moe.weight @router router
  moe.weight @router router from <tensor = "r", rows = 2, cols = 64, type = f32> as <kind = f32>
  moe.weight @gate1 router from <tensor = "g", rows = 1, cols = 64, type = f32> as <kind = f32>
  // CHECK: moe.weight @norm vector
  moe.weight @norm vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
  moe.weight @head_norm vector from <tensor = "hn", rows = 1, cols = 16, type = bf16> as <kind = f32>
  moe.weight @pair vector from <tensor = "p", rows = 1, cols = 2, type = bf16> as <kind = f32>
  moe.weight @bias vector from <tensor = "b", rows = 1, cols = 96, type = bf16> as <kind = f32>
  moe.weight @one vector from <tensor = "1", rows = 1, cols = 1, type = bf16> as <kind = f32>

  // CHECK: moe.weight @stacked vector from <tensor = "st", rows = 1, cols = 192, type = bf16, firstRow = 1, rowStep = 2, stackedVectors = 2> as #f32
  moe.weight @stacked vector from <tensor = "st", rows = 1, cols = 192, type = bf16, firstRow = 1, rowStep = 2, stackedVectors = 2> as <kind = f32>
  moe.weight @down_bias vector from <tensor = "db", rows = 1, cols = 128, type = bf16, stackedVectors = 2> as <kind = f32>
  moe.weight @sinks vector from <tensor = "sk", rows = 1, cols = 4, type = bf16> as <kind = f32>
  // CHECK: moe.weight @up heads from <tensor = "up", rows = 96, cols = 48, type = bf16, transposed = true, blocks = 2, blockStep = 80> as #bf16
  moe.weight @up heads from <tensor = "up", rows = 96, cols = 48, type = bf16, transposed = true, blocks = 2, blockStep = 80> as <kind = bf16>
  moe.weight @heads heads from <tensor = "h", rows = 16, cols = 24, type = bf16> as <kind = bf16>
  moe.weight @latent_norm vector from <tensor = "ln", rows = 1, cols = 48, type = bf16> as <kind = f32>
  moe.weight @key16 matrix from <tensor = "k16", rows = 16, cols = 64, type = bf16>
  moe.weight @latent48 matrix from <tensor = "l48", rows = 48, cols = 64, type = bf16>
  moe.weight @query128 matrix from <tensor = "q128", rows = 128, cols = 64, type = bf16>
  moe.weight @output96 matrix from <tensor = "o96", rows = 64, cols = 96, type = bf16>
  // CHECK: moe.kv_slot @latent heads 1 key 64 value 0 as f16{{$}}
  moe.kv_slot @latent heads 1 key 64 value 0 as f16
  moe.weight @taps taps from <tensor = "t", rows = 64, cols = 4, type = bf16> as <kind = f32>
  // CHECK: moe.state_slot @tail rows 3 width 64
  moe.state_slot @tail rows 3 width 64
  moe.state_slot @state rows 64 width 32
  moe.state_slot @state2 rows 64 width 32
  // CHECK: moe.kv_slot @kv heads 2 key 16 value 16{{$}}
  moe.kv_slot @kv heads 2 key 16 value 16
  moe.kv_slot @index heads 1 key 32 value 0
  moe.kv_slot @pools heads 2 key 32 value 0
  moe.state_slot @sums rows 3 width 32
  moe.state_slot @tokens rows 1 width 1
  moe.weight @mix8 router from <tensor = "m8", rows = 8, cols = 64, type = f32> as <kind = f32>
  moe.weight @three vector from <tensor = "3", rows = 1, cols = 3, type = f32> as <kind = f32>
  moe.weight @eight vector from <tensor = "8", rows = 1, cols = 8, type = f32> as <kind = f32>
  // CHECK: moe.weight @table taps from <tensor = "tid", rows = 96, cols = 2, type = f32, integers = true> as #f32
  moe.weight @table taps from <tensor = "tid", rows = 96, cols = 2, type = f32, integers = true> as <kind = f32>
  // CHECK: moe.weight @ngrams heads from <tensor = "part_*", rows = 6, cols = 64, type = bf16, shards = 2> as #bf16
  moe.weight @ngrams heads from <tensor = "part_*", rows = 6, cols = 64, type = bf16, shards = 2> as <kind = bf16>

  // CHECK: moe.moe_layer @experts layer 1 silu experts 2 matrices
  // CHECK-SAME: #moe.expert_matrix<gate, [<tensor = "w1.{expert}", rows = 96, cols = 64, type = bf16>]>
  // CHECK-SAME: #moe.expert_matrix<up, [<tensor = "w3.a", rows = 96, cols = 64, type = bf16>, <tensor = "w3.b", rows = 96, cols = 64, type = bf16>]>
  // CHECK-SAME: bits [4, 2] down_bits [2, 2]
  // CHECK-SAME: slices {{\[\[}}#int2g64a32o, #int2g64a32r], [#int2g64a32o]] down_slices {{\[\[}}#int2g64a32o, #int0g64a32r], [#int2g64a32o]]
  moe.moe_layer @experts layer 1 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "w1.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "w3.a", rows = 96, cols = 64, type = bf16>,
                                      <tensor = "w3.b", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "w2", rows = 64, cols = 96, type = bf16>]>]
    bits [4, 2] down_bits [2, 2]
    slices [[#moe.format<kind = int2, group = 64, activationGroup = 32, offsets = true>,
             #moe.format<kind = int2, group = 64, activationGroup = 32, refines = true>],
            [#moe.format<kind = int2, group = 64, activationGroup = 32, offsets = true>]]
    down_slices [[#moe.format<kind = int2, group = 64, activationGroup = 32, offsets = true>,
                  #moe.format<kind = int0, group = 64, activationGroup = 32, refines = true>],
                 [#moe.format<kind = int2, group = 64, activationGroup = 32, offsets = true>]]
  // CHECK: moe.moe_layer @floats layer 0 clamped_swiglu alpha 1.500000e+00 limit 7.000000e+00 experts 1 matrices
  // CHECK-SAME: slices {{\[\[}}#bf16]]
  moe.moe_layer @floats layer 0 clamped_swiglu alpha 1.5 limit 7.0 experts 1
    matrices [#moe.expert_matrix<gate, [<tensor = "a", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "b", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "c", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = bf16>]]

  // Attributes with their default values are not printed.
  // CHECK-LABEL: moe.program @instructions
  moe.program @instructions {
    // CHECK-NEXT: %[[H:.*]] = moe.embed weight @embedding scale 2.000000e+00 : () -> !f32x64
    %h = moe.embed weight @embedding scale 2.0 : () -> !f32x64
    // CHECK-NEXT: moe.embed_position weight @embedding : () -> !f32x64
    %ep = moe.embed_position weight @embedding : () -> !f32x64
    // CHECK-NEXT: %[[N:.*]] = moe.norm %[[H]] weight @norm bias @norm kind layer epsilon 9.99999974E-6 segment 64 {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    %n = moe.norm %h weight @norm bias @norm kind layer epsilon 1.0e-5 segment 64 {moe.layer = 1 : i32} : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.norm %[[N]] epsilon 9.99999997E-7 segment 16 : (!f32x64) -> !f32x64
    %p = moe.norm %n kind rms epsilon 1.0e-6 segment 16 : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.quantize %{{.*}} : (!f32x64) -> !quantizedx64g32
    %q = moe.quantize %p : (!f32x64) -> !quantizedx64g32
    // CHECK-NEXT: moe.linear %{{.*}} weight @square bias @norm role attention : (!quantizedx64g32) -> !f32x64
    %c = moe.linear %q weight @square bias @norm role attention : (!quantizedx64g32) -> !f32x64
    // CHECK-NEXT: moe.linear %{{.*}} weight @half8 joined : (!quantizedx64g32) -> !f32x32
    %k = moe.linear %q weight @half8 role dense joined : (!quantizedx64g32) -> !f32x32
    // CHECK-NEXT: moe.linear_heads %{{.*}} weight @heads heads 2 kept 8 : (!f32x64) -> !f32x32
    %l = moe.linear_heads %h weight @heads heads 2 kept 8 : (!f32x64) -> !f32x32
    // CHECK-NEXT: moe.clamp %{{.*}} limit 8.000000e+00 : (!f32x32) -> !f32x32
    %lc = moe.clamp %l limit 8.0 : (!f32x32) -> !f32x32
    // CHECK-NEXT: moe.rope %{{.*}} heads 2 headDim 16 rope @rope0 : (!f32x32) -> !f32x32
    %kr = moe.rope %k heads 2 headDim 16 rope @rope0 : (!f32x32) -> !f32x32
    // CHECK-NEXT: moe.store_kv %{{.*}}, %{{.*}} slot @kv : (!f32x32, !f32x32) -> ()
    moe.store_kv %kr, %lc slot @kv : (!f32x32, !f32x32) -> ()
    // CHECK-NEXT: moe.attend %{{.*}} slot @kv heads 4 scale 2.500000e-01 : (!f32x64) -> !f32x64
    %at = moe.attend %c slot @kv heads 4 window 0 scale 0.25 : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.attend %{{.*}} slot @kv heads 4 window 128 scale 2.500000e-01 sinks @sinks chunked : (!f32x64) -> !f32x64
    %ac = moe.attend %c slot @kv heads 4 window 128 scale 0.25 sinks @sinks chunked : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.attend_range %{{.*}} slot @kv heads 4 range input scale 2.500000e-01 : (!f32x64) -> !f32x64
    %ai = moe.attend_range %c slot @kv heads 4 range input scale 0.25 : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.gate %{{.*}}, %{{.*}} : (!f32x64, !f32x64) -> !f32x64
    %ga = moe.gate %at, %ac kind sigmoid : (!f32x64, !f32x64) -> !f32x64
    // CHECK-NEXT: moe.gate %{{.*}}, %{{.*}} kind linear : (!f32x64, !f32x64) -> !f32x64
    %gl = moe.gate %ga, %ac kind linear : (!f32x64, !f32x64) -> !f32x64
    // CHECK-NEXT: moe.linear %{{.*}} weight @router role router : (!f32x64) -> !f32x2
    %s = moe.linear %gl weight @router role router : (!f32x64) -> !f32x2
    // CHECK-NEXT: %[[CHOSEN:.*]] = moe.choose_keys %{{.*}}, %{{.*}}, %{{.*}} slot @index heads 2 : (!f32x64, !f32x32, !f32x2) -> !i32x2
    %ck = moe.choose_keys %c, %kr, %s slot @index heads 2 : (!f32x64, !f32x32, !f32x2) -> !i32x2
    // CHECK-NEXT: moe.attend_chosen %{{.*}}, %[[CHOSEN]] slot @kv heads 4 scale 2.500000e-01 : (!f32x64, !i32x2) -> !f32x64
    %ak = moe.attend_chosen %c, %ck slot @kv heads 4 scale 0.25 : (!f32x64, !i32x2) -> !f32x64
    // CHECK-NEXT: moe.pool %{{.*}}, %{{.*}} slot @sums poolTokens 4 : (!f32x32, !f32x32) -> !f32x32
    %po = moe.pool %kr, %lc slot @sums poolTokens 4 : (!f32x32, !f32x32) -> !f32x32
    // CHECK-NEXT: moe.rope_part %{{.*}} heads 2 headDim 16 rope @rope0 first 4 poolTokens 4 inverse : (!f32x32) -> !f32x32
    %pr = moe.rope_part %po heads 2 headDim 16 rope @rope0 first 4 poolTokens 4 inverse : (!f32x32) -> !f32x32
    // CHECK-NEXT: moe.store_key %{{.*}} slot @pools poolTokens 4 : (!f32x32) -> ()
    moe.store_key %pr slot @pools poolTokens 4 : (!f32x32) -> ()
    // CHECK-NEXT: moe.choose_pools %{{.*}}, %{{.*}}, %{{.*}} slot @index heads 2 poolTokens 4 window 8 : (!f32x64, !f32x32, !f32x2) -> !i32x12
    %cp = moe.choose_pools %c, %pr, %s slot @index heads 2 poolTokens 4 window 8 : (!f32x64, !f32x32, !f32x2) -> !i32x12
    // CHECK-NEXT: moe.list_pools poolTokens 64 window 8 : () -> !i32x16
    %lp = moe.list_pools poolTokens 64 window 8 : () -> !i32x16
    // CHECK-NEXT: moe.attend_pools %{{.*}}, %{{.*}} slot @pools heads 2 scale 2.500000e-01 sinks @pair : (!f32x64, !i32x12) -> !f32x64
    %al = moe.attend_pools %c, %cp slot @pools heads 2 scale 0.25 sinks @pair : (!f32x64, !i32x12) -> !f32x64
    // CHECK-NEXT: moe.repeat_row %{{.*}} : (!f32x32) -> !f32x64
    %rr = moe.repeat_row %kr : (!f32x32) -> !f32x64
    // CHECK-NEXT: moe.mean_streams %{{.*}} : (!f32x64) -> !f32x32
    %ms = moe.mean_streams %rr : (!f32x64) -> !f32x32
    // CHECK-NEXT: moe.dot_streams %{{.*}}, %{{.*}} factor 5.000000e-01 : (!f32x64, !f32x64) -> !f32x2
    %ds = moe.dot_streams %rr, %al factor 0.5 : (!f32x64, !f32x64) -> !f32x2
    // CHECK-NEXT: moe.linear %{{.*}} weight @mix8 role router : (!f32x64) -> !f32x8
    %m8 = moe.linear %rr weight @mix8 role router : (!f32x64) -> !f32x8
    // CHECK-NEXT: moe.stream_weights %{{.*}} scale @three base @eight streams 2 iterations 20 epsilon 2.500000e-01 : (!f32x8) -> !f32x8
    %sm = moe.stream_weights %m8 scale @three base @eight streams 2 iterations 20 epsilon 0.25 : (!f32x8) -> !f32x8
    // CHECK-NEXT: moe.merge_streams %{{.*}}, %{{.*}} : (!f32x64, !f32x8) -> !f32x32
    %mg = moe.merge_streams %rr, %sm : (!f32x64, !f32x8) -> !f32x32
    // CHECK-NEXT: moe.update_streams %{{.*}}, %{{.*}}, %{{.*}} : (!f32x64, !f32x32, !f32x8) -> !f32x64
    %us = moe.update_streams %rr, %mg, %sm : (!f32x64, !f32x32, !f32x8) -> !f32x64
    // CHECK-NEXT: moe.embed_ngrams weight @ngrams slot @tokens tokens 2 heads 1 leastRows 5 seed 7 endToken 2 : () -> !f32x64
    %en = moe.embed_ngrams weight @ngrams slot @tokens tokens 2 heads 1 leastRows 5 number 0 seed 7 endToken 2 : () -> !f32x64
    // CHECK-NEXT: moe.mask_experts %{{.*}} table @table : (!f32x2) -> !f32x2
    %me = moe.mask_experts %ds table @table : (!f32x2) -> !f32x2
    // CHECK-NEXT: %[[E:.*]], %[[W:.*]] = moe.route %{{.*}} moeLayer @experts renormalize weightScale 1.000000e+00 beginsReads : (!f32x2) -> (!i32x2, !f32x2)
    %e, %w = moe.route %s moeLayer @experts renormalize weightScale 1.0 beginsReads : (!f32x2) -> (!i32x2, !f32x2)
    // CHECK-NEXT: moe.route %{{.*}} moeLayer @experts scoring sigmoid weightScale 2.500000e+00 choiceBias @pair groups 2 groupScore two_largest weightFactors @pair : (!f32x2) -> (!i32x1, !f32x1)
    %e1, %w1 = moe.route %s moeLayer @experts scoring sigmoid weightScale 2.5 choiceBias @pair groups 2 keptGroups 1 groupScore two_largest weightFactors @pair : (!f32x2) -> (!i32x1, !f32x1)
    // CHECK-NEXT: moe.route %{{.*}} moeLayer @experts scoring sparsemixer weightScale 1.000000e+00 tolerance 1.250000e-01 : (!f32x2) -> (!i32x2, !f32x2)
    %em, %wm = moe.route %s moeLayer @experts scoring sparsemixer weightScale 1.0 tolerance 0.125 : (!f32x2) -> (!i32x2, !f32x2)
    // CHECK-NEXT: moe.predict %{{.*}} weight @router bias @pair moeLayer @experts ahead 3 joined beginsReads {moe.layer = 0 : i32} : (!f32x64) -> ()
    moe.predict %gl weight @router bias @pair moeLayer @experts ahead 3 joined beginsReads {moe.layer = 0 : i32} : (!f32x64) -> ()
    // CHECK-NEXT: moe.experts %{{.*}}, %[[E]], %[[W]] moeLayer @experts gateBias @stacked upBias @stacked downBias @down_bias : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    %x = moe.experts %q, %e, %w moeLayer @experts gateBias @stacked upBias @stacked downBias @down_bias : (!quantizedx64g32, !i32x2, !f32x2) -> !f32x64
    // CHECK-NEXT: %{{.*}}, %{{.*}} = moe.scale_input %{{.*}}, %{{.*}} : (!f32x64, !f32x1) -> (!f32x1, !f32x64)
    %wu, %si = moe.scale_input %x, %w1 : (!f32x64, !f32x1) -> (!f32x1, !f32x64)
    // CHECK-NEXT: %{{.*}}, %{{.*}}, %{{.*}} = moe.capacity %[[E]], %[[W]] moeLayer @experts kind even_split capacity 1.250000e+00 byPriority normalizesAfter weightScale 5.000000e-01 beginsReads : (!i32x2, !f32x2) -> (!i32x2, !f32x2, !f32x1)
    %el, %wl, %pl = moe.capacity %e, %w moeLayer @experts kind even_split capacity 1.25 byPriority normalizesAfter weightScale 0.5 beginsReads : (!i32x2, !f32x2) -> (!i32x2, !f32x2, !f32x1)
    // CHECK-NEXT: moe.activate %{{.*}}, %{{.*}} activation clamped_swiglu alpha 1.500000e+00 limit 7.000000e+00 : (!f32x64, !f32x64) -> !f32x64
    %sw = moe.activate %x, %si activation clamped_swiglu alpha 1.5 limit 7.0 : (!f32x64, !f32x64) -> !f32x64
    // CHECK-NEXT: moe.add %{{.*}}, %{{.*}} scale 5.000000e-01 : (!f32x64, !f32x64) -> !f32x64
    %r = moe.add %sw, %gl scale 0.5 : (!f32x64, !f32x64) -> !f32x64
    // CHECK-NEXT: moe.gate_rows %{{.*}}, %{{.*}} : (!f32x64, !f32x1) -> !f32x64
    %gr = moe.gate_rows %r, %wu : (!f32x64, !f32x1) -> !f32x64
    // CHECK-NEXT: moe.scale %{{.*}} weight @one factor 5.000000e-01 : (!f32x64) -> !f32x64
    %sc = moe.scale %gr weight @one factor 0.5 : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.scale_by_position %{{.*}} scale 1.000000e-01 period 8192 : (!f32x64) -> !f32x64
    %sp = moe.scale_by_position %sc scale 0.1 period 8192 : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.scale_by_period %{{.*}} scale 1.000000e-01 period 8192 : (!f32x64) -> !f32x64
    %sb = moe.scale_by_period %sp scale 0.1 period 8192 : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.scale_rows %{{.*}}, %{{.*}} : (!f32x64, !f32x1) -> !f32x64
    %sr = moe.scale_rows %sb, %wu : (!f32x64, !f32x1) -> !f32x64
    // CHECK-NEXT: moe.convolve %{{.*}} weight @taps slot @tail silu : (!f32x64) -> !f32x64
    %cv = moe.convolve %sr weight @taps slot @tail silu : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.unit_norm %{{.*}} epsilon 5.000000e-01 segment 16 : (!f32x64) -> !f32x64
    %un = moe.unit_norm %cv epsilon 0.5 segment 16 : (!f32x64) -> !f32x64
    // CHECK-NEXT: moe.decay %{{.*}} logRate @pair bias @pair : (!f32x2) -> !f32x2
    %dc = moe.decay %s logRate @pair bias @pair : (!f32x2) -> !f32x2
    // CHECK-NEXT: moe.bounded_decay %{{.*}} logRate @pair bias @pair bound -5.000000e+00 : (!f32x2) -> !f32x2
    %bd = moe.bounded_decay %s logRate @pair bias @pair bound -5.0 : (!f32x2) -> !f32x2
    // CHECK-NEXT: moe.delta_rule %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} slot @state keyHeads 1 heads 2 scale 2.500000e-01 : (!f32x32, !f32x32, !f32x64, !f32x2, !f32x2) -> !f32x64
    %dr = moe.delta_rule %lc, %kr, %un, %dc, %s slot @state keyHeads 1 heads 2 scale 0.25 : (!f32x32, !f32x32, !f32x64, !f32x2, !f32x2) -> !f32x64
    // CHECK-NEXT: moe.apply %{{.*}} function softplus bias @pair : (!f32x2) -> !f32x2
    %ap = moe.apply %s function softplus bias @pair : (!f32x2) -> !f32x2
    // CHECK-NEXT: moe.state_space %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} logRate @pair skip @pair slot @state2 keyHeads 1 heads 2 : (!f32x32, !f32x32, !f32x64, !f32x2) -> !f32x64
    %ss = moe.state_space %lc, %kr, %dr, %ap logRate @pair skip @pair slot @state2 keyHeads 1 heads 2 : (!f32x32, !f32x32, !f32x64, !f32x2) -> !f32x64
    // CHECK-NEXT: moe.head %{{.*}} weight @embedding bias @bias scale 1.000000e+00 softCap 3.000000e+01 : (!f32x64) -> ()
    moe.head %dr weight @embedding bias @bias scale 1.0 softCap 30.0 : (!f32x64) -> ()
  }

  // The norm lies in place of its input; the scratch of a prediction has an offset too.
  // CHECK-LABEL: moe.program @planned
  moe.program @planned {
    // CHECK-NEXT: %[[H:.*]] = moe.embed weight @embedding scale 1.000000e+00 {moe.offsets = array<i64: 64>} : () -> !f32x64
    %h = moe.embed weight @embedding scale 1.0 {moe.offsets = array<i64: 64>} : () -> !f32x64
    // CHECK-NEXT: moe.predict %[[H]] weight @router moeLayer @experts ahead 1 {moe.offsets = array<i64: 0>} : (!f32x64) -> ()
    moe.predict %h weight @router moeLayer @experts ahead 1 {moe.offsets = array<i64: 0>} : (!f32x64) -> ()
    // CHECK-NEXT: %[[N:.*]] = moe.norm %[[H]] segment 64 {moe.offsets = array<i64: 64>} : (!f32x64) -> !f32x64
    %n = moe.norm %h segment 64 {moe.offsets = array<i64: 64>} : (!f32x64) -> !f32x64
    moe.head %n weight @embedding scale 1.0 : (!f32x64) -> ()
  }

  // An image is a token of several rows.
  moe.weight @offsets vector from <tensor = "of", rows = 1, cols = 18, type = bf16> as <kind = f32>
  moe.weight @classes matrix from <tensor = "cl", rows = 96, cols = 256, type = bf16>
  // CHECK-LABEL: moe.program @images
  moe.program @images {
    // CHECK-NEXT: %[[P:.*]] = moe.patches channels 1 side 32 patch 8 : () -> !f32x64r16
    %p = moe.patches channels 1 side 32 patch 8 : () -> !f32x64r16
    // CHECK-NEXT: %[[A:.*]] = moe.attend_windows %[[P]], %[[P]], %[[P]] bias @offsets heads 2 side 4 window 2 shift 1 scale 2.500000e-01 : (!f32x64r16, !f32x64r16, !f32x64r16) -> !f32x64r16
    %a = moe.attend_windows %p, %p, %p bias @offsets heads 2 side 4 window 2 shift 1 scale 0.25 : (!f32x64r16, !f32x64r16, !f32x64r16) -> !f32x64r16
    // CHECK-NEXT: %[[M:.*]] = moe.merge_patches %[[A]] side 4 : (!f32x64r16) -> !f32x256r4
    %m = moe.merge_patches %a side 4 : (!f32x64r16) -> !f32x256r4
    // CHECK-NEXT: %[[R:.*]] = moe.mean_rows %[[M]] : (!f32x256r4) -> !f32x256
    %r = moe.mean_rows %m : (!f32x256r4) -> !f32x256
    moe.head %r weight @classes scale 1.0 : (!f32x256) -> ()
  }
}
