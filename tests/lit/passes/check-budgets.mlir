// A budget that is too small is refused with the smallest that works, and with the items of the account.
// RUN: not moec-opt %s --moe-check-budgets="threads=1" 2>&1 | FileCheck %s
// RUN: not moec-opt %s --moe-check-budgets="threads=0" 2>&1 | FileCheck %s --check-prefix=THREADS
// More threads need more memory: the same plan is refused with a larger smallest budget.
// RUN: not moec-opt %s --moe-check-budgets="threads=2" 2>&1 | FileCheck %s --check-prefix=TWO

// THREADS: error: threads is 0, expected at least 1

// The memory of the process itself is estimated: image 7 MiB, heap 1.5 MiB, 224 KiB per thread,
// I/O 2 MiB, reserve 1.5 MiB and 256 KiB per thread.
// CHECK: check-budgets.mlir:[[#@LINE+13]]:1: error: plan '1MiB' needs [[#NEEDS:]] bytes ({{.*}} MiB) of a budget of 1048576 bytes (1.00 MiB); the smallest budget that works is [[#SMALLEST:]] bytes
// CHECK: program and libraries: 7340032 bytes
// CHECK: heap and main stack: 1572864 bytes
// CHECK: threads: 229376 bytes
// TWO: threads: 458752 bytes
// 96 words of 128 bytes.
// CHECK: tokenizer: 12288 bytes
// One weight of 96 x 64 in bf16 is 12288 bytes.
// CHECK: resident weights: 12288 bytes
// 2 heads of 16 + 16 f32 are 256 bytes a token, and a byte a token for the table: 257 * 512, in whole pages.
// CHECK: KV cache: 135168 bytes
// CHECK: reserve: 1835008 bytes
// CHECK: expert cache: 0 bytes
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">,
                   moe.page_bytes = 4096 : i64,
                   moe.plans = [#moe.plan<name = "1MiB", budgetBytes = 1048576, contextTokens = 512, prefillChunkTokens = 8, stagingPages = 0, quotaPages = []>]} {
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.kv_slot @kv heads 2 key 16 value 16
}
