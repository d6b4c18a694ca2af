// RUN: moec-opt %s --moe-assign-bits | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: moec-opt %s --moe-assign-bits="nested=false" | FileCheck %s --check-prefixes=WHOLE
// RUN: moec-opt %s --moe-assign-bits="bits=3 nested=false" | FileCheck %s --check-prefixes=THREE
// RUN: moec-opt %s --moe-assign-bits="bits=5 nested=false" | FileCheck %s --check-prefixes=FIVE
// RUN: moec-opt %s --moe-assign-bits="bits=6" | FileCheck %s --check-prefixes=SIX
// RUN: moec-opt %s --moe-assign-bits="bits=8" | FileCheck %s --check-prefixes=EIGHT
// RUN: moec-opt %s --moe-assign-bits="bits=8 resident-bits=16 nested=false" | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: moec-opt %s --moe-assign-bits="bits=2 resident-bits=4 group=64 activation-group=16" | FileCheck %s --check-prefixes=CHECK,NARROW
// RUN: moec-opt %s --moe-assign-bits="bits=source resident-bits=source" | FileCheck %s --check-prefixes=CHECK,SOURCE
// A second run replaces the results of the first.
// RUN: moec-opt %s --moe-assign-bits="bits=2 resident-bits=4" --moe-assign-bits | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: moec-opt %s --moe-assign-bits="resident-bits=4 head-bits=8" | FileCheck %s --check-prefixes=CHECK,HEAD
// RUN: moec-opt %s --moe-assign-bits="head-bits=4" --moe-assign-bits | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: not moec-opt %s --moe-assign-bits="group=48" 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: not moec-opt %s --moe-assign-bits="bits=7" 2>&1 | FileCheck %s --check-prefix=WIDTH

// GROUP: error: moe-assign-bits: weight group 48, expected a multiple of the activation group 32
// RUN: not moec-opt %s --moe-assign-bits="bits=3 activation-group=16" 2>&1 | FileCheck %s --check-prefix=ONEBIT
// WIDTH: 7
// ONEBIT: slice 1: int1 with activation group 16, expected 32 or 64

// Nested slices above 2 bits; without nesting, every width is one slice.
// DEFAULT-DAG: #int2g32a32 = #moe.format<kind = int2, group = 32, activationGroup = 32>
// DEFAULT-DAG: #int2g32a32r = #moe.format<kind = int2, group = 32, activationGroup = 32, refines = true>
// NARROW-DAG: #int2g64a16 = #moe.format<kind = int2, group = 64, activationGroup = 16>

// SOURCE-DAG: #mxfp4 = #moe.format<kind = mxfp4, group = 32>

// DEFAULT: moe.expert_bits = "4"
// DEFAULT-NOT: moe.head_bits
// DEFAULT-SAME: moe.resident_bits = "8"
// HEAD: moe.expert_bits = "4", moe.head_bits = "8"
// HEAD-SAME: moe.resident_bits = "4"
// WIDE: moe.expert_bits = "8"
// WIDE-SAME: moe.resident_bits = "16"
// SOURCE: moe.expert_bits = "source"
// SOURCE-SAME: moe.resident_bits = "source"
module {
  // DEFAULT: @bf16 matrix {{.*}} as #int8g32a32
  // WIDE: @bf16 matrix {{.*}} as #bf16
  // NARROW: @bf16 matrix {{.*}} as #int4g64a16
  // HEAD: @bf16 matrix {{.*}} as #int4g32a32
  // SOURCE: @bf16 matrix {{.*}} as #bf16
  moe.weight @bf16 matrix from <tensor = "a", rows = 64, cols = 64, type = bf16>
  // 16 bits of an f16 tensor are f16.
  // WIDE: @f16 matrix {{.*}} as #f16
  // SOURCE: @f16 matrix {{.*}} as #f16
  moe.weight @f16 matrix from <tensor = "b", rows = 64, cols = 64, type = f16>
  // 16 bits of an f32 tensor are bf16.
  // WIDE: @f32 matrix {{.*}} as #bf16
  // SOURCE: @f32 matrix {{.*}} as #f32
  moe.weight @f32 matrix from <tensor = "c", rows = 64, cols = 64, type = f32>
  // The head's matrix may have its own width.
  // HEAD: @head matrix {{.*}} as #int8g32a32
  // NARROW: @head matrix {{.*}} as #int4g64a16
  moe.weight @head matrix from <tensor = "h", rows = 96, cols = 64, type = bf16>
  // Routers keep the stored type under any option; vectors are f32.
  // CHECK: @router router {{.*}} as #bf16
  moe.weight @router router from <tensor = "r", rows = 2, cols = 64, type = bf16>
  // Products per head are never quantized; they have 16 bits where others have fewer.
  // CHECK: @heads heads {{.*}} as #bf16
  moe.weight @heads heads from <tensor = "u", rows = 64, cols = 64, type = bf16>
  // WIDE: @heads32 heads {{.*}} as #bf16
  // NARROW: @heads32 heads {{.*}} as #bf16
  // SOURCE: @heads32 heads {{.*}} as #f32
  moe.weight @heads32 heads from <tensor = "u", rows = 64, cols = 64, type = f32>
  // CHECK: @norm vector {{.*}} as #f32
  moe.weight @norm vector from <tensor = "n", rows = 1, cols = 64, type = bf16>

  // DEFAULT: @experts {{.*}} slices {{\[\[}}#int2g32a32, #int2g32a32r], [#int2g32a32, #int2g32a32r]]
  // WHOLE: @experts {{.*}} slices {{\[\[}}#int4g32a32], [#int4g32a32]]
  // THREE: @experts {{.*}} slices {{\[\[}}#int3g32a32], [#int3g32a32]]
  // FIVE: @experts {{.*}} slices {{\[\[}}#int5g32a32], [
  // SIX: @experts {{.*}} slices {{\[\[}}#int2g32a32, #int2g32a32r, #int2g32a32r], [
  // EIGHT: @experts {{.*}} slices {{\[\[}}#int2g32a32, #int2g32a32r, #int4g32a32r], [
  // WIDE: @experts {{.*}} slices {{\[\[}}#int8g32a32], [#int8g32a32]]
  // NARROW: @experts {{.*}} slices {{\[\[}}#int2g64a16], [#int2g64a16]]
  // SOURCE: @experts {{.*}} slices {{\[\[}}#bf16], [#bf16]]
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
  // Expert 1 mixes f16 with bf16 in gate and up: f32 holds both.
  // SOURCE: @mixed {{.*}} slices {{\[\[}}#bf16], [#f32]] down_slices {{\[\[}}#bf16], [#bf16]]
  moe.moe_layer @mixed layer 1 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.0", rows = 96, cols = 64, type = bf16>,
                                      <tensor = "u.1", rows = 96, cols = 64, type = f16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
  // MXFP4 is kept at the source's width and quantized at any other; down may have another type.
  // SOURCE: @four {{.*}} slices {{\[\[}}#mxfp4], [#mxfp4]] down_slices {{\[\[}}#mxfp4], [#f16]]
  // WHOLE: @four {{.*}} slices {{\[\[}}#int4g32a32], [#int4g32a32]]
  moe.moe_layer @four layer 2 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = mxfp4>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = mxfp4>]>,
              #moe.expert_matrix<down, [<tensor = "d.0", rows = 64, cols = 96, type = mxfp4>,
                                        <tensor = "d.1", rows = 64, cols = 96, type = f16>]>]
  // A product of a quantized weight gets a quantized copy of its row, with the weight's activation group; a norm and a router take
  // the row itself.
  // CHECK-LABEL: moe.program @decode
  // CHECK-NEXT: %[[X:.*]] = moe.embed weight @f32
  // CHECK-NEXT: %[[N:.*]] = moe.norm %[[X]] weight @norm
  // CHECK-NEXT: moe.linear %[[N]] weight @router role router
  // DEFAULT-NEXT: %[[A:.*]] = moe.quantize %[[N]] {moe.layer = 0 : i32} : (!f32x64) -> !quantizedx64g32
  // DEFAULT-NEXT: %[[Y:.*]] = moe.linear %[[A]] weight @bf16 {moe.layer = 0 : i32} : (!quantizedx64g32) -> !f32x64
  // DEFAULT-NEXT: %[[B:.*]] = moe.quantize %[[Y]] : (!f32x64) -> !quantizedx64g32
  // DEFAULT-NEXT: moe.head %[[B]] weight @head
  // NARROW-NEXT: %[[A:.*]] = moe.quantize %[[N]] {moe.layer = 0 : i32} : (!f32x64) -> !quantizedx64g16
  // NARROW-NEXT: moe.linear %[[A]] weight @bf16
  // WIDE-NEXT: %[[Y:.*]] = moe.linear %[[N]] weight @bf16
  // WIDE-NEXT: moe.head %[[Y]] weight @head
  moe.program @decode {
    %x = moe.embed weight @f32 scale 1.0 : () -> !moe.row<f32, 64>
    %n = moe.norm %x weight @norm segment 64 : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
    %r = moe.linear %n weight @router role router : (!moe.row<f32, 64>) -> !moe.row<f32, 2>
    %y = moe.linear %n weight @bf16 {moe.layer = 0 : i32} : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
    moe.head %y weight @head scale 1.0 : (!moe.row<f32, 64>) -> ()
  }
}
