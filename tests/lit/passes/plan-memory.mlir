// RUN: moec-opt %s --moe-plan-memory | FileCheck %s
// A second run has the same result.
// RUN: moec-opt %s --moe-plan-memory --moe-plan-memory | FileCheck %s

module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">,
                   moe.page_bytes = 4096 : i64,
                   moe.plans = [#moe.plan<name = "default", budgetBytes = 0, contextTokens = 512, prefillChunkTokens = 8, stagingPages = 0, quotaPages = []>]} {
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
  moe.weight @g matrix from <tensor = "g", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @d matrix from <tensor = "d", rows = 64, cols = 96, type = bf16> as <kind = bf16>

  // A row of 64 f32 is 256 bytes per token, one of 96 is 384; 64 quantized in groups of 32 are 64 codes, 2 scales and
  // 2 sums, each part from a multiple of 64: 192.
  //
  //   #0 %h     f32 64   embed .. norm %m in place (to the end, as %m)
  //   #1 %n     f32 64   norm .. up
  //   #2 gate   f32 96   gate .. down (activated in place)
  //   #3 up     f32 96   up .. activate
  //   #4 down   f32 64   down .. add
  //   #5        q   64   quantize .. head
  //
  // Largest first: #2 at 0, #3 at 384; then #0, live with both, at 768; #1 at 1024. #4 is live with #2 at down and
  // with #0: at 384, where #3 is dead. #5 is live with #0 only: at 0.

  // CHECK-LABEL: func.func @decode
  // CHECK-NEXT: moe.buffer at 768 : !f32x64
  // CHECK-NEXT: moe.buffer at 1024 : !f32x64
  // CHECK-NEXT: moe.buffer at 0 : !f32x96
  // CHECK-NEXT: moe.buffer at 384 : !f32x96
  // CHECK-NEXT: moe.buffer at 384 : !f32x64
  // CHECK-NEXT: moe.buffer at 0 : !quantizedx64g32
  // CHECK-NEXT: moe.embed
  func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
    %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    %n = moe.norm %h by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
    %d = moe.dense %n network <silu, gate = <@g>, up = <@g>, down = <@d>> : tensor<?x64xf32>
    %r = moe.add %h, %d scale 1.0 : tensor<?x64xf32>
    %m = moe.norm %r by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
    %l = moe.head %m linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    return %l : tensor<?x96xf32>
  }
}
