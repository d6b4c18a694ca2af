// Formats and buffers with the Hadamard transform, printed and read again: as text, as generic text and as bytecode.
// RUN: moec-opt %s | moec-opt | FileCheck %s
// RUN: moec-opt %s --mlir-print-op-generic | moec-opt | FileCheck %s
// RUN: moec-opt %s --emit-bytecode -o %t.bc
// RUN: moec-opt %t.bc | FileCheck %s

// CHECK-DAG: #int2g32a32oh = #moe.format<kind = int2, group = 32, activationGroup = 32, offsets = true, hadamard = true>
// CHECK-DAG: #int2g32a32rh = #moe.format<kind = int2, group = 32, activationGroup = 32, refines = true, hadamard = true>
// CHECK-DAG: #nl4g32a32bh = #moe.format<kind = nl4, group = 32, activationGroup = 32, byteScales = true, hadamard = true>
// CHECK-DAG: !hadamardx64g32 = !moe.buffer<hadamard, 64, group = 32>

module {
  moe.weight @embedding matrix from <tensor = "embed", rows = 96, cols = 64, type = bf16> as <kind = bf16>
  // CHECK: moe.moe_layer @experts layer 0
  // CHECK-SAME: slices {{\[\[}}#int2g32a32oh, #int2g32a32rh], [#nl4g32a32bh]]
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "a.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "b.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "c.{expert}", rows = 64, cols = 96, type = bf16>]>]
    slices [[#moe.format<kind = int2, group = 32, activationGroup = 32, offsets = true, hadamard = true>,
             #moe.format<kind = int2, group = 32, activationGroup = 32, refines = true, hadamard = true>],
            [#moe.format<kind = nl4, group = 32, activationGroup = 32, byteScales = true, hadamard = true>]]

  // CHECK-LABEL: moe.program @instructions
  moe.program @instructions {
    %h = moe.buffer : !moe.buffer<f32, 64>
    // CHECK: moe.buffer : !hadamardx64g32
    %t = moe.buffer : !moe.buffer<hadamard, 64, group = 32>
    %c = moe.buffer : !moe.buffer<f32, 64>
    %x = moe.buffer : !moe.buffer<hadamard, 64, group = 32>
    %e = moe.buffer : !moe.buffer<i32, 2>
    %w = moe.buffer : !moe.buffer<f32, 2>
    %g = moe.buffer : !moe.buffer<f32, 96>
    %u = moe.buffer : !moe.buffer<f32, 96>
    %y = moe.buffer : !moe.buffer<hadamard, 96, group = 32>
    %r = moe.buffer : !moe.buffer<f32, 128>
    // CHECK: moe.exec.quantize %{{.*}} to %{{.*}} : !f32x64, !hadamardx64g32
    moe.exec.quantize %h to %t : !moe.buffer<f32, 64>, !moe.buffer<hadamard, 64, group = 32>
    // CHECK: moe.exec.experts {{.*}} hidden %{{[^ ]*}} : !hadamardx64g32, !f32x64, !i32x2, !f32x2, !hadamardx64g32, !f32x96, !f32x96, !f32x128, !hadamardx96g32{{$}}
    moe.exec.experts %t to %c of @experts chosen %e, %w scratch gathered %x gate %g up %u ranks %r hidden %y
      : !moe.buffer<hadamard, 64, group = 32>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>,
        !moe.buffer<hadamard, 64, group = 32>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 128>,
        !moe.buffer<hadamard, 96, group = 32>
    moe.exec.head %h weight @embedding scale 1.0 : !moe.buffer<f32, 64>
  }
}
