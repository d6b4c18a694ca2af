// Every op, attribute and type, printed and read again: as text, as generic text and as bytecode.
// RUN: moec-opt %s | moec-opt | FileCheck %s
// RUN: moec-opt %s --mlir-print-op-generic | moec-opt | FileCheck %s
// RUN: moec-opt %s --emit-bytecode -o %t.bc
// RUN: moec-opt %t.bc | FileCheck %s

// CHECK-DAG: #bf16 = #moe.format<kind = bf16>
// CHECK-DAG: #int2g64a32o = #moe.format<kind = int2, group = 64, activationGroup = 32, offsets = true>
// CHECK-DAG: !f32x64 = !moe.buffer<f32, 64>
// CHECK-DAG: !quantizedx64g32 = !moe.buffer<quantized, 64, group = 32>

// CHECK: module attributes
// CHECK-SAME: moe.expert_bits = "2"
// CHECK-SAME: moe.measured = #moe.measured<metric = "perplexity", target = 2.000000e-02, loss = 1.500000e-02, upperBound = 0.017499999999999998, klNats = 1.000000e-02, topDisagreement = 5.000000e-02, confidence = 0.95999999999999996, units = 2, documents = 3, unitSpread = 1.250000e-01, isSetAside = true, windowTokens = 128, solver = "greedy", quantizer = "gptq", measurements = 12, windowsEvaluated = 900, calibrationTokens = 2048, calibrationTexts = [<name = "c.txt", hash = 18446744073709551615, bytes = 64>], acceptanceTexts = [<name = "a.txt", hash = 7, bytes = 4096, windows = [0, 3], referenceNats = [3.102500e+02, 2.985000e+02], referencePoints = [1.000000e+00, 0.000000e+00], loss = 2.500000e-01, units = 2, unitSpread = 5.000000e-01>], itemOptions = ["shots" = "3"], candidates = [<solver = "mckp", expertBytes = 4096, residentBytes = 512, klNats = 2.500000e-01, loss = 5.000000e-01, expectedBound = 7.500000e-01, tokenNs = 1.500000e+00, isChosen = true>, <solver = "uniform", expertBytes = 8192, residentBytes = 512, klNats = 1.250000e-01>], quantile = <fraction = 9.000000e-01, upperBound = 2.500000e-02, target = 3.125000e-02>>
// CHECK-SAME: moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512, eos = [2, 3], checkpoint = "models/tiny", bos = 1>
// CHECK-SAME: moe.page_bytes = 4096 : i64
// CHECK-SAME: moe.plans = [#moe.plan<name = "64MiB", budgetBytes = 67108864, contextTokens = 256, prefillChunkTokens = 8, stagingPages = 4, quotaPages = [8, 0]>,
// CHECK-SAME: #moe.plan<name = "32MiB fate", budgetBytes = 33554432, contextTokens = 256, prefillChunkTokens = 8, stagingPages = 4, quotaPages = [4, 0], preset = "fate", eviction = arc, sharing = "one pool", survival = pins, pinned = [[1], []], start = [<experts = [1, 0], uses = [5, 3]>, <>], startTokens = 9, prefetches = [<>, <predictor = gate, candidates = 1, reads = 1, minProbability = 100>], reasons = [<decision = "eviction", value = "arc", reason = "because", origin = stated>]>,
// CHECK-SAME: #moe.plan<name = "as usual", budgetBytes = 33554432, contextTokens = 256, prefillChunkTokens = 8, stagingPages = 4, quotaPages = [4, 0]>]
// CHECK-SAME: moe.quantizer = #moe.quantizer<method = per_channel, group = 96, offsets = true, hadamard = true, nested = true, calibration = "tiny.profile", traceExpertBytes = 3538944, searchRuns = [5, -1]>
// CHECK-SAME: moe.resident_bits = "8"
// CHECK-SAME: moe.widths_by = "bytes"
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
  // CHECK: moe.rope @rope0 interleaved factor 1.500000e+00 frequencies [1.000000e+00 : f32, 0.177827939 : f32]
  moe.rope @rope0 interleaved factor 1.5 frequencies [1.0 : f32, 0.177827939 : f32]

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
  // CHECK: moe.kv_slot @kv heads 2 key 16 value 16{{$}}
  moe.kv_slot @kv heads 2 key 16 value 16

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

  // CHECK-LABEL: func.func @layers
  func.func @layers(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    // CHECK: moe.buffer at 0 : !f32x64
    %place = moe.buffer at 0 : !moe.buffer<f32, 64>
    // CHECK: moe.embed %{{.*}} weight @embedding scale 2.000000e+00 : tensor<?xi32> -> tensor<?x64xf32>
    %h = moe.embed %ids weight @embedding scale 2.0 : tensor<?xi32> -> tensor<?x64xf32>
    // CHECK: moe.norm %{{.*}} by <layer, epsilon = 9.99999974E-6 : f32, @norm, bias = @norm> {moe.layer = 1 : i32} : tensor<?x64xf32>
    %n = moe.norm %h by <layer, epsilon = 1.0e-5 : f32, @norm, bias = @norm> {moe.layer = 1 : i32} : tensor<?x64xf32>
    // CHECK: moe.attention %{{.*}} query <@square, bias = @norm> key <@half> value <@half> output <@square> slot @kv heads 4 scale 2.500000e-01 window 128 rope @rope0 query_norm <rms, epsilon = 9.99999997E-7 : f32, @norm> key_norm <rms, epsilon = 9.99999997E-7 : f32, @head_norm> clip 8.000000e+00 : tensor<?x64xf32>
    %a = moe.attention %n query <@square, bias = @norm> key <@half> value <@half> output <@square> slot @kv
           heads 4 scale 0.25 window 128 rope @rope0 query_norm <rms, epsilon = 1.0e-6 : f32, @norm>
           key_norm <rms, epsilon = 1.0e-6 : f32, @head_norm> clip 8.0 : tensor<?x64xf32>
    // CHECK: moe.attention %{{.*}} query <@square> key <@half> value <@half> output <@square> slot @kv heads 4 scale 2.500000e-01 : tensor<?x64xf32>
    %b = moe.attention %a query <@square> key <@half> value <@half> output <@square> slot @kv heads 4 scale 0.25 : tensor<?x64xf32>
    // CHECK: moe.attention %{{.*}} query <@square> key <@half> value <@half> output <@square> slot @kv heads 4 scale 2.500000e-01 sinks @sinks : tensor<?x64xf32>
    %bs = moe.attention %a query <@square> key <@half> value <@half> output <@square> slot @kv heads 4 scale 0.25 sinks @sinks : tensor<?x64xf32>
    // CHECK: moe.latent_attention %{{.*}} query <@query128> key <@key16> latent <@latent48> norm <rms, epsilon = 9.99999997E-7 : f32, @latent_norm> up @up, @up output <@output96> slot @latent heads 2 scale 2.500000e-01 rope @rope0 down <@square> <rms, epsilon = 9.99999997E-7 : f32, @norm> : tensor<?x64xf32>
    %la = moe.latent_attention %a query <@query128> key <@key16> latent <@latent48> norm <rms, epsilon = 1.0e-6 : f32, @latent_norm>
            up @up, @up output <@output96> slot @latent heads 2 scale 0.25 rope @rope0
            down <@square> <rms, epsilon = 1.0e-6 : f32, @norm> : tensor<?x64xf32>
    // CHECK: moe.attention %{{.*}} query <@square> key <@half> output <@square> slot @kv heads 4 scale 1.000000e+00 value_norm 9.99999997E-7 : tensor<?x64xf32>
    %vk = moe.attention %b query <@square> key <@half> output <@square> slot @kv heads 4 scale 1.0 value_norm 1.0e-6 : tensor<?x64xf32>
    // CHECK: moe.scale %{{.*}} by 5.000000e-01 weight @one : tensor<?x64xf32>
    %sc = moe.scale %vk by 0.5 weight @one : tensor<?x64xf32>
    // CHECK: moe.scale %{{.*}} by 1.250000e-01 : tensor<?x64xf32>
    %sd = moe.scale %sc by 0.125 : tensor<?x64xf32>
    // CHECK: moe.route %{{.*}} router <@router> to @experts softmax_then_top_k renormalize true scale 1.000000e+00 factors @pair : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %ef, %wf = moe.route %sd router <@router> to @experts softmax_then_top_k renormalize true scale 1.0 factors @pair
           : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.route %{{.*}} router <@router> to @experts softmax_then_top_k renormalize true scale 1.000000e+00 : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %e, %w = moe.route %b router <@router> to @experts softmax_then_top_k renormalize true scale 1.0
           : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.predict %{{.*}} router <@router> of @experts ahead 1 {moe.layer = 0 : i32} : tensor<?x64xf32>
    moe.predict %b router <@router> of @experts ahead 1 {moe.layer = 0 : i32} : tensor<?x64xf32>
    // CHECK: moe.predict %{{.*}} router <@router, bias = @pair> of @experts ahead 3 : tensor<?x64xf32>
    moe.predict %b router <@router, bias = @pair> of @experts ahead 3 : tensor<?x64xf32>
    // CHECK: moe.experts %{{.*}} of @experts chosen %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %x = moe.experts %b of @experts chosen %e, %w : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.experts %{{.*}} of @experts chosen %{{.*}}, %{{.*}} gate_bias @stacked up_bias @stacked down_bias @down_bias : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    %xb = moe.experts %b of @experts chosen %e, %w gate_bias @stacked up_bias @stacked down_bias @down_bias : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    // CHECK: moe.shared_expert %{{.*}} network <silu, gate = <@square>, up = <@square>, down = <@square, bias = @norm>> gate <@gate1> : tensor<?x64xf32>
    %s = moe.shared_expert %b network <silu, gate = <@square>, up = <@square>, down = <@square, bias = @norm>> gate <@gate1> : tensor<?x64xf32>
    // CHECK: moe.dense %{{.*}} network <silu, gate = <@square>, up = <@square>, down = <@square>> : tensor<?x64xf32>
    %d = moe.dense %s network <silu, gate = <@square>, up = <@square>, down = <@square>> : tensor<?x64xf32>
    // CHECK: moe.dense %{{.*}} network <clamped_swiglu, gate = <@square>, up = <@square>, down = <@square>, alpha = 1.500000e+00 : f32, limit = 7.000000e+00 : f32> : tensor<?x64xf32>
    %dc = moe.dense %s network <clamped_swiglu, gate = <@square>, up = <@square>, down = <@square>, alpha = 1.5 : f32, limit = 7.0 : f32> : tensor<?x64xf32>
    // CHECK: moe.dense %{{.*}} network <gelu_tanh, gate = <@square>, up = <@square>, down = <@square>> : tensor<?x64xf32>
    %dg = moe.dense %s network <gelu_tanh, gate = <@square>, up = <@square>, down = <@square>> : tensor<?x64xf32>
    // CHECK: moe.add %{{.*}}, %{{.*}} scale 5.000000e-01 : tensor<?x64xf32>
    %r = moe.add %x, %d scale 0.5 : tensor<?x64xf32>
    // CHECK: moe.head %{{.*}} linear <@embedding> scale 1.000000e+00 soft_cap 3.000000e+01 : tensor<?x64xf32> -> tensor<?x96xf32>
    %capped = moe.head %r linear <@embedding> scale 1.0 soft_cap 30.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    // CHECK: moe.head %{{.*}} linear <@embedding, bias = @bias> scale 1.000000e+00 : tensor<?x64xf32> -> tensor<?x96xf32>
    %l = moe.head %r linear <@embedding, bias = @bias> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }

  // CHECK-LABEL: moe.program @planned
  moe.program @planned {
    // CHECK-NEXT: %[[H:.*]] = moe.buffer at 0 : !f32x64
    %h = moe.buffer at 0 : !moe.buffer<f32, 64>
    // CHECK-NEXT: moe.exec.embed %[[H]] weight @embedding scale 1.000000e+00 : !f32x64
    moe.exec.embed %h weight @embedding scale 1.0 : !moe.buffer<f32, 64>
    // CHECK-NEXT: moe.exec.head %[[H]] weight @embedding bias @bias scale 1.000000e+00 : !f32x64
    moe.exec.head %h weight @embedding bias @bias scale 1.0 : !moe.buffer<f32, 64>
  }

  // CHECK-LABEL: moe.program @instructions
  moe.program @instructions {
    %h = moe.buffer : !moe.buffer<f32, 64>
    // CHECK: moe.buffer : !quantizedx64g32
    %q = moe.buffer : !moe.buffer<quantized, 64, group = 32>
    %k = moe.buffer : !moe.buffer<f32, 32>
    %c = moe.buffer : !moe.buffer<f32, 64>
    %s = moe.buffer : !moe.buffer<f32, 2>
    %e = moe.buffer : !moe.buffer<i32, 2>
    %w = moe.buffer : !moe.buffer<f32, 2>
    %g = moe.buffer : !moe.buffer<f32, 96>
    %u = moe.buffer : !moe.buffer<f32, 96>
    %y = moe.buffer : !moe.buffer<quantized, 96, group = 32>
    %r = moe.buffer : !moe.buffer<f32, 128>
    %o = moe.buffer : !moe.buffer<f32, 1>
    moe.exec.embed %h weight @embedding scale 1.0 : !moe.buffer<f32, 64>
    // CHECK: moe.exec.norm %{{.*}} to %{{.*}} weight @norm bias @norm rms epsilon 9.99999997E-7 segment 64 {moe.layer = 0 : i32} : !f32x64, !f32x64
    moe.exec.norm %h to %h weight @norm bias @norm rms epsilon 1.0e-6 segment 64 {moe.layer = 0 : i32} : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    // CHECK: moe.exec.quantize %{{.*}} to %{{.*}} : !f32x64, !quantizedx64g32
    moe.exec.quantize %h to %q : !moe.buffer<f32, 64>, !moe.buffer<quantized, 64, group = 32>
    // CHECK: moe.exec.linear %{{.*}} to %{{.*}} weight @square bias @norm : !quantizedx64g32, !f32x64
    moe.exec.linear %q to %c weight @square bias @norm : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 64>
    // CHECK: moe.exec.linear %{{.*}} to %{{.*}} weight @half8 : !quantizedx64g32, !f32x32
    moe.exec.linear %q to %k weight @half8 : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 32>
    // CHECK: moe.exec.linear_heads %{{.*}} to %{{.*}} weight @heads heads 2 kept 8 : !f32x64, !f32x32
    moe.exec.linear_heads %h to %k weight @heads heads 2 kept 8 : !moe.buffer<f32, 64>, !moe.buffer<f32, 32>
    // CHECK: moe.exec.rope %{{.*}} heads 2 of 16 by @rope0 : !f32x32
    moe.exec.rope %k heads 2 of 16 by @rope0 : !moe.buffer<f32, 32>
    // CHECK: moe.exec.store_kv %{{.*}}, %{{.*}} slot @kv : !f32x32, !f32x32
    moe.exec.store_kv %k, %k slot @kv : !moe.buffer<f32, 32>, !moe.buffer<f32, 32>
    // CHECK: moe.exec.attend %{{.*}} to %{{.*}} slot @kv heads 4 window 128 scale 2.500000e-01 : !f32x64, !f32x64
    moe.exec.attend %c to %h slot @kv heads 4 window 128 scale 0.25 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    moe.exec.linear %h to %s weight @router : !moe.buffer<f32, 64>, !moe.buffer<f32, 2>
    // CHECK: moe.exec.route %{{.*}} to %{{.*}}, %{{.*}} of @experts softmax_then_top_k renormalize false scale 1.000000e+00 : !f32x2, !i32x2, !f32x2
    moe.exec.route %s to %e, %w of @experts softmax_then_top_k renormalize false scale 1.0 : !moe.buffer<f32, 2>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>
    // CHECK: moe.exec.route %{{.*}} to %{{.*}}, %{{.*}} of @experts softmax_then_top_k renormalize false scale 1.000000e+00 factors @pair : !f32x2, !i32x2, !f32x2
    moe.exec.route %s to %e, %w of @experts softmax_then_top_k renormalize false scale 1.0 factors @pair : !moe.buffer<f32, 2>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>
    // CHECK: moe.exec.predict %{{.*}} to %{{.*}} weight @router of @experts ahead 1 {moe.layer = 0 : i32} : !f32x64, !f32x2
    moe.exec.predict %h to %s weight @router of @experts ahead 1 {moe.layer = 0 : i32} : !moe.buffer<f32, 64>, !moe.buffer<f32, 2>
    // CHECK: moe.exec.predict %{{.*}} to %{{.*}} weight @router bias @pair of @experts ahead 2 : !f32x64, !f32x2
    moe.exec.predict %h to %s weight @router bias @pair of @experts ahead 2 : !moe.buffer<f32, 64>, !moe.buffer<f32, 2>
    // CHECK: moe.exec.experts %{{.*}} to %{{.*}} of @experts chosen %{{.*}}, %{{.*}} scratch gathered %{{.*}} gate %{{.*}} up %{{.*}} ranks %{{.*}} hidden %{{.*}} : !quantizedx64g32, !f32x64, !i32x2, !f32x2, !quantizedx64g32, !f32x96, !f32x96, !f32x128, !quantizedx96g32
    moe.exec.experts %q to %c of @experts chosen %e, %w scratch gathered %q gate %g up %u ranks %r hidden %y
      : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>,
        !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 128>,
        !moe.buffer<quantized, 96, group = 32>
    // CHECK: moe.exec.activate %{{.*}}, %{{.*}} to %{{.*}} silu : !f32x96, !f32x96, !f32x96
    moe.exec.activate %g, %u to %g silu : !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>
    // CHECK: moe.exec.add %{{.*}}, %{{.*}} to %{{.*}} scale 1.000000e+00 : !f32x64, !f32x64, !f32x64
    moe.exec.add %h, %c to %h scale 1.0 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    // CHECK: moe.exec.gate_rows %{{.*}} by %{{.*}} to %{{.*}} : !f32x64, !f32x1, !f32x64
    moe.exec.gate_rows %c by %o to %c : !moe.buffer<f32, 64>, !moe.buffer<f32, 1>, !moe.buffer<f32, 64>
    // CHECK: moe.exec.norm %{{.*}} to %{{.*}} rms epsilon 9.99999997E-7 segment 16 : !f32x64, !f32x64
    moe.exec.norm %c to %c rms epsilon 1.0e-6 segment 16 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    // CHECK: moe.exec.scale %{{.*}} to %{{.*}} weight @one factor 5.000000e-01 : !f32x64, !f32x64
    moe.exec.scale %h to %c weight @one factor 0.5 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    // CHECK: moe.exec.scale %{{.*}} to %{{.*}} factor 1.250000e-01 : !f32x64, !f32x64
    moe.exec.scale %c to %h factor 0.125 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    // CHECK: moe.exec.head %{{.*}} weight @embedding scale 1.000000e+00 soft_cap 3.000000e+01 : !f32x64
    moe.exec.head %h weight @embedding scale 1.0 soft_cap 30.0 : !moe.buffer<f32, 64>
  }

  // Float experts have no hidden buffer.
  // CHECK-LABEL: moe.program @float_experts
  moe.program @float_experts {
    %h = moe.buffer : !moe.buffer<f32, 64>
    %c = moe.buffer : !moe.buffer<f32, 64>
    %x = moe.buffer : !moe.buffer<f32, 64>
    %e = moe.buffer : !moe.buffer<i32, 1>
    %w = moe.buffer : !moe.buffer<f32, 1>
    %g = moe.buffer : !moe.buffer<f32, 96>
    %u = moe.buffer : !moe.buffer<f32, 96>
    %r = moe.buffer : !moe.buffer<f32, 64>
    // CHECK: moe.exec.experts {{.*}} ranks %{{[^ ]*}} : !f32x64, !f32x64, !i32x1, !f32x1, !f32x64, !f32x96, !f32x96, !f32x64{{$}}
    moe.exec.experts %h to %c of @floats chosen %e, %w scratch gathered %x gate %g up %u ranks %r
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>, !moe.buffer<i32, 1>, !moe.buffer<f32, 1>,
        !moe.buffer<f32, 64>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 64>
    moe.exec.head %h weight @embedding scale 1.0 : !moe.buffer<f32, 64>
  }
}
