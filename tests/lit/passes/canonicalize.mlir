// What MLIR's canonicalizer and CSE do with instructions.
// RUN: moec-opt %s --canonicalize | FileCheck %s --check-prefix=CANONICAL
// RUN: moec-opt %s --cse | FileCheck %s --check-prefix=CSE

!f32x32 = !moe.row<f32, 32>
!f32x64 = !moe.row<f32, 64>
moe.weight @w matrix from <tensor = "w", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @one vector from <tensor = "o", rows = 1, cols = 1, type = bf16>
moe.weight @t taps from <tensor = "t", rows = 64, cols = 4, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.state_slot @s rows 3 width 64

// A scale by 1 goes, one with a weight or another factor stays. What has no use goes, unless it has an effect.
// CANONICAL-LABEL: moe.program @scales
// CANONICAL-NEXT: %[[H:.*]] = moe.embed
// CANONICAL-NEXT: %[[B:.*]] = moe.scale %[[H]] weight @one factor 1.000000e+00
// CANONICAL-NEXT: %[[C:.*]] = moe.scale %[[B]] factor 5.000000e-01
// CANONICAL-NEXT: moe.convolve
// CANONICAL-NEXT: moe.head %[[C]]
moe.program @scales {
  %h = moe.embed weight @w scale 1.0 : () -> !f32x64
  %a = moe.scale %h factor 1.0 : (!f32x64) -> !f32x64
  %b = moe.scale %a weight @one factor 1.0 : (!f32x64) -> !f32x64
  %c = moe.scale %b factor 0.5 : (!f32x64) -> !f32x64
  %dead = moe.linear %c weight @w : (!f32x64) -> !f32x64
  %state = moe.convolve %b weight @t slot @s : (!f32x64) -> !f32x64
  moe.head %c weight @w scale 1.0 : (!f32x64) -> ()
}

// Equal products are one. A state is updated as often as it says; attention before and after a store reads other keys.
// CSE-LABEL: moe.program @equals
// CSE-NEXT: %[[H:.*]] = moe.embed
// CSE-NEXT: %[[K:.*]] = moe.linear %[[H]] weight @k
// CSE-NEXT: moe.attend %[[H]] slot @kv
// CSE-NEXT: moe.store_kv %[[K]], %[[K]]
// CSE-NEXT: %[[A:.*]] = moe.attend %[[H]] slot @kv
// CSE-NEXT: moe.convolve
// CSE-NEXT: moe.convolve
// CSE-NEXT: moe.add
// CSE-NEXT: moe.add
// CSE-NEXT: %[[S:.*]] = moe.add %{{.*}}, %[[A]]
// CSE-NEXT: %[[T:.*]] = moe.add %[[S]], %[[A]]
// CSE-NEXT: moe.head %[[T]]
moe.program @equals {
  %h = moe.embed weight @w scale 1.0 : () -> !f32x64
  %k = moe.linear %h weight @k : (!f32x64) -> !f32x32
  %v = moe.linear %h weight @k : (!f32x64) -> !f32x32
  %a = moe.attend %h slot @kv heads 4 scale 0.25 : (!f32x64) -> !f32x64
  moe.store_kv %k, %v slot @kv : (!f32x32, !f32x32) -> ()
  %b = moe.attend %h slot @kv heads 4 scale 0.25 : (!f32x64) -> !f32x64
  %c = moe.attend %h slot @kv heads 4 scale 0.25 : (!f32x64) -> !f32x64
  %d = moe.convolve %h weight @t slot @s : (!f32x64) -> !f32x64
  %e = moe.convolve %h weight @t slot @s : (!f32x64) -> !f32x64
  %f = moe.add %d, %e scale 1.0 : (!f32x64, !f32x64) -> !f32x64
  %g = moe.add %f, %a scale 1.0 : (!f32x64, !f32x64) -> !f32x64
  %i = moe.add %g, %b scale 1.0 : (!f32x64, !f32x64) -> !f32x64
  %j = moe.add %i, %c scale 1.0 : (!f32x64, !f32x64) -> !f32x64
  moe.head %j weight @w scale 1.0 : (!f32x64) -> ()
}
