// The width of keys and values.
// RUN: moec-opt %s --moe-assign-bits | FileCheck %s --check-prefixes=ALL,HALF
// RUN: moec-opt %s --moe-assign-bits="bits=source resident-bits=source" | FileCheck %s --check-prefixes=ALL,FULL
// RUN: moec-opt %s --moe-assign-bits="bits=source resident-bits=source head-bits=8" | FileCheck %s --check-prefixes=ALL,HALF
// RUN: moec-opt %s --moe-assign-bits="bits=source resident-bits=source kv-bits=16" | FileCheck %s --check-prefixes=ALL,HALF
// RUN: moec-opt %s --moe-assign-bits=kv-bits=32 | FileCheck %s --check-prefixes=ALL,FULL
// RUN: moec-opt %s --moe-assign-bits=kv-bits=8 | FileCheck %s --check-prefixes=ALL,BYTE
// A second run replaces the results of the first.
// RUN: moec-opt %s --moe-assign-bits=kv-bits=8 --moe-assign-bits=kv-bits=32 | FileCheck %s --check-prefixes=ALL,FULL

// FULL-NOT: moe.kv_bits
// FULL: @kv heads 2 key 16 value 16{{$}}
// FULL: @latent heads 1 key 64 value 0{{$}}

// HALF: moe.kv_bits = "16"
// HALF: @kv heads 2 key 16 value 16 as f16
// HALF: @latent heads 1 key 64 value 0 as f16

// Values in keys stay f16.
// BYTE: moe.kv_bits = "8"
// BYTE: @kv heads 2 key 16 value 16 as int8
// BYTE: @latent heads 1 key 64 value 0 as f16

// ALL: moe.weight
moe.kv_slot @kv heads 2 key 16 value 16
moe.kv_slot @latent heads 1 key 64 value 0
moe.weight @query matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
