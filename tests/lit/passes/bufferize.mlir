// Offsets from lifetimes and roles.
// RUN: moec-opt %s --moe-join-products --moe-bufferize | FileCheck %s
// A second run has the same result.
// RUN: moec-opt %s --moe-join-products --moe-bufferize --moe-bufferize | FileCheck %s

!f32x2 = !moe.row<f32, 2>
!f32x1 = !moe.row<f32, 1>
!f32x64 = !moe.row<f32, 64>
!f32x96 = !moe.row<f32, 96>
!i32x1 = !moe.row<i32, 1>
!quantizedx64g32 = !moe.row<quantized, 64, group = 32>
module {
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
  moe.weight @g matrix from <tensor = "g", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  moe.weight @d matrix from <tensor = "d", rows = 64, cols = 96, type = bf16> as <kind = bf16>
  moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
  moe.moe_layer @e layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]

  // A row of 64 f32 is 256 bytes per token, one of 96 is 384; 64 quantized in groups of 32 are 64 codes, 2 scales and
  // 2 sums, each part from a multiple of 64: 192.
  //
  //   %h     f32 64   embed .. norm %m in place (to the end, as %m)
  //   %n     f32 64   norm .. up
  //   %g     f32 96   gate .. down (activated in place)
  //   %u     f32 96   up .. activate
  //   %d     f32 64   down .. add
  //   %q     q   64   quantize .. head
  //
  // Largest first: %g at 0, %u at 384; then %h, live with both, at 768; %n at 1024. %d is live with %g at down and
  // with %h: at 384, where %u is dead. %q is live with %h only: at 0.
  // CHECK-LABEL: moe.program @dense
  // CHECK-NEXT: moe.embed {{.*}} {moe.offsets = array<i64: 768>}
  // CHECK-NEXT: moe.norm {{.*}} {moe.offsets = array<i64: 1024>}
  // CHECK-NEXT: moe.linear {{.*}} {moe.offsets = array<i64: 0>}
  // CHECK-NEXT: moe.linear {{.*}} joined {moe.offsets = array<i64: 384>}
  // CHECK-NEXT: moe.activate {{.*}} {moe.offsets = array<i64: 0>}
  // CHECK-NEXT: moe.linear {{.*}} {moe.offsets = array<i64: 384>}
  // CHECK-NEXT: moe.add {{.*}} {moe.offsets = array<i64: 768>}
  // CHECK-NEXT: moe.norm {{.*}} {moe.offsets = array<i64: 768>}
  // CHECK-NEXT: moe.quantize {{.*}} {moe.offsets = array<i64: 0>}
  // CHECK-NEXT: moe.head %{{.*}} weight @w scale 1.000000e+00 :
  moe.program @dense {
    %h = moe.embed weight @w scale 1.0 : () -> !f32x64
    %n = moe.norm %h segment 64 : (!f32x64) -> !f32x64
    %g = moe.linear %n weight @g : (!f32x64) -> !f32x96
    %u = moe.linear %n weight @g : (!f32x64) -> !f32x96
    %a = moe.activate %g, %u : (!f32x96, !f32x96) -> !f32x96
    %d = moe.linear %a weight @d : (!f32x96) -> !f32x64
    %r = moe.add %h, %d scale 1.0 : (!f32x64, !f32x64) -> !f32x64
    %m = moe.norm %r segment 64 : (!f32x64) -> !f32x64
    %q = moe.quantize %m : (!f32x64) -> !quantizedx64g32
    moe.head %q weight @w scale 1.0 : (!quantizedx64g32) -> ()
  }

  // An addition whose left operand is used later overwrites the right one; if both are used later, the result gets another
  // place. What an instruction updates stays where it is and has no offset of its own.
  // CHECK-LABEL: moe.program @in_place
  // CHECK-NEXT: moe.embed {{.*}} {moe.offsets = array<i64: 0>}
  // CHECK-NEXT: moe.clamp %{{.*}} limit 1.000000e+00 : (!f32x64) -> !f32x64
  // CHECK-NEXT: moe.norm {{.*}} {moe.offsets = array<i64: 256>}
  // CHECK-NEXT: moe.add {{.*}} scale 1.000000e+00 {moe.offsets = array<i64: 512>}
  // CHECK-NEXT: moe.add {{.*}} scale 2.000000e+00 {moe.offsets = array<i64: 256>}
  // CHECK-NEXT: moe.add {{.*}} scale 3.000000e+00 {moe.offsets = array<i64: 0>}
  // CHECK-NEXT: moe.add {{.*}} scale 4.000000e+00 {moe.offsets = array<i64: 0>}
  moe.program @in_place {
    %e = moe.embed weight @g scale 1.0 : () -> !f32x64
    %h = moe.clamp %e limit 1.0 : (!f32x64) -> !f32x64
    %d = moe.norm %h segment 64 : (!f32x64) -> !f32x64
    %x = moe.add %h, %d scale 1.0 : (!f32x64, !f32x64) -> !f32x64
    %y = moe.add %h, %d scale 2.0 : (!f32x64, !f32x64) -> !f32x64
    %z = moe.add %h, %y scale 3.0 : (!f32x64, !f32x64) -> !f32x64
    %r = moe.add %z, %x scale 4.0 : (!f32x64, !f32x64) -> !f32x64
    moe.head %r weight @g scale 1.0 : (!f32x64) -> ()
  }

  // The experts need the result (256 bytes), the gathered rows (192), gate and up (384 each), one rank (256) and the quantized input of
  // down (96 codes, 3 scales and 3 sums, each part from a multiple of 64: 256), in this order. Largest first: gate at 0, up at 384; %h,
  // which is dead by then, at 0; the result, the rank and the input of down from 768 on; %q at 1536, the gathered rows at 1728. The
  // scores are live with %h only: at 256. %i and %p are live with all of these: at 1920. The scores of joined predictions lie apart.
  // CHECK-LABEL: moe.program @experts
  // CHECK-NEXT: moe.embed {{.*}} {moe.offsets = array<i64: 0>}
  // CHECK-NEXT: moe.linear {{.*}} {moe.offsets = array<i64: 256>}
  // CHECK-NEXT: moe.route {{.*}} {moe.offsets = array<i64: 1920, 1984>}
  // CHECK-NEXT: moe.predict {{.*}} ahead 1 {moe.offsets = array<i64: 256>}
  // CHECK-NEXT: moe.predict {{.*}} ahead 2 joined beginsReads {moe.offsets = array<i64: 320>}
  // CHECK-NEXT: moe.quantize {{.*}} {moe.offsets = array<i64: 1536>}
  // CHECK-NEXT: moe.experts {{.*}} {moe.offsets = array<i64: 768, 1728, 0, 384, 1024, 1280>}
  moe.program @experts {
    %h = moe.embed weight @g scale 1.0 : () -> !f32x64
    %s = moe.linear %h weight @r role router : (!f32x64) -> !f32x2
    %i, %p = moe.route %s moeLayer @e weightScale 1.0 : (!f32x2) -> (!i32x1, !f32x1)
    moe.predict %h weight @r moeLayer @e ahead 1 : (!f32x64) -> ()
    moe.predict %h weight @r moeLayer @e ahead 2 : (!f32x64) -> ()
    %q = moe.quantize %h : (!f32x64) -> !quantizedx64g32
    %x = moe.experts %q, %i, %p moeLayer @e : (!quantizedx64g32, !i32x1, !f32x1) -> !f32x64
    moe.head %x weight @g scale 1.0 : (!f32x64) -> ()
  }
}
