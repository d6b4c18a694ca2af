// Errors of programs and instructions.
// RUN: moec-opt %s -split-input-file -verify-diagnostics

// A program ends with the head.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
// expected-error@+1 {{expected moe.exec.head at the end}}
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A program has one head only.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{expected at the end of the program only}}
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Buffers are declared first.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{expected before the first instruction}}
  %b = moe.buffer : !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A program holds instructions only.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{is not an instruction}}
  %0 = builtin.unrealized_conversion_cast %h : !moe.buffer<f32, 64> to i32
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Instructions belong to programs.
func.func @f(%h: !moe.buffer<f32, 64>) {
  // expected-error@+1 {{expects parent op 'moe.program'}}
  moe.exec.add %h, %h to %h scale 1.0 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  return
}

// -----

// Offsets are multiples of 64.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  // expected-error@+1 {{at 32, expected a multiple of 64}}
  %h = moe.buffer at 32 : !moe.buffer<f32, 64>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Offsets are below the limit of an arena.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  // expected-error@+1 {{at 9223372036854775744, expected at most 1099511627776}}
  %h = moe.buffer at 9223372036854775744 : !moe.buffer<f32, 64>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// In a function a buffer only declares an offset.
func.func @f() -> !moe.buffer<f32, 64> {
  // expected-error@+1 {{is used outside of a program, where it only declares an offset}}
  %h = moe.buffer at 0 : !moe.buffer<f32, 64>
  return %h : !moe.buffer<f32, 64>
}

// -----

// A program has no arguments.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
// expected-error@+1 {{expected no arguments: buffers are declared by moe.buffer}}
moe.program @p {
^bb0(%h: !moe.buffer<f32, 64>):
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A program has one block.
// expected-error@+1 {{failed to verify constraint: region with 1 blocks}}
"moe.program"() <{sym_name = "p"}> ({}) : () -> ()

// -----

// A planned program reads only what was written.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
moe.program @p {
  %h = moe.buffer at 0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{src is buffer 0, which holds no value here: it was never written or was overwritten}}
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A planned program does not read overwritten values: %n shares 64 of %h's 256 bytes.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
moe.program @p {
  %h = moe.buffer at 0 : !moe.buffer<f32, 64>
  %n = moe.buffer at 192 : !moe.buffer<f32, 64>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  moe.exec.embed %n weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{src is buffer 0, which holds no value here: it was never written or was overwritten}}
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// An instruction overwrites its input only where that is allowed: a norm may not, at another offset.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
moe.program @p {
  %h = moe.buffer at 0 : !moe.buffer<f32, 64>
  %n = moe.buffer at 192 : !moe.buffer<f32, 64>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{src and dst share bytes of the arena}}
  moe.exec.norm %h to %n weight @n rms epsilon 1.0e-6 segment 64 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A product never overwrites its input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @sq matrix from <tensor = "sq", rows = 64, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer at 0 : !moe.buffer<f32, 64>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{src and dst share bytes of the arena}}
  moe.exec.linear %h to %h weight @sq : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Results of one instruction do not share bytes.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = f32>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.program @p {
  %h = moe.buffer at 0 : !moe.buffer<f32, 64>
  %s = moe.buffer at 256 : !moe.buffer<f32, 2>
  %i = moe.buffer at 320 : !moe.buffer<i32, 1>
  %t = moe.buffer at 320 : !moe.buffer<f32, 1>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  moe.exec.linear %h to %s weight @r : !moe.buffer<f32, 64>, !moe.buffer<f32, 2>
  // expected-error@+1 {{experts and weights share bytes of the arena}}
  moe.exec.route %s to %i, %t of @e softmax_then_top_k renormalize true scale 1.0 : !moe.buffer<f32, 2>, !moe.buffer<i32, 1>, !moe.buffer<f32, 1>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Quantizing goes from f32 to the same width.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %q = moe.buffer : !moe.buffer<quantized, 32, group = 32>
  // expected-error@+1 {{src has width 64, expected 32}}
  moe.exec.quantize %h to %q : !moe.buffer<f32, 64>, !moe.buffer<quantized, 32, group = 32>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Elementwise operands have the same width.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %k = moe.buffer : !moe.buffer<f32, 32>
  // expected-error@+1 {{b has width 32, expected 64}}
  moe.exec.add %h, %k to %h scale 1.0 : !moe.buffer<f32, 64>, !moe.buffer<f32, 32>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// An activation is elementwise too.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %k = moe.buffer : !moe.buffer<f32, 32>
  // expected-error@+1 {{up has width 32, expected 64}}
  moe.exec.activate %h, %k to %h silu : !moe.buffer<f32, 64>, !moe.buffer<f32, 32>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A gate is one number.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %k = moe.buffer : !moe.buffer<f32, 32>
  // expected-error@+1 {{gate has width 32, expected 1}}
  moe.exec.gate_rows %h by %k to %h : !moe.buffer<f32, 64>, !moe.buffer<f32, 32>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Embedding rows are as wide as the weight.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %k = moe.buffer : !moe.buffer<f32, 32>
  // expected-error@+1 {{dst has width 32, expected 64}}
  moe.exec.embed %k weight @w scale 1.0 : !moe.buffer<f32, 32>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Weights must have formats.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @nf matrix from <tensor = "nf", rows = 96, cols = 64, type = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{weight @nf has no format}}
  moe.exec.embed %h weight @nf scale 1.0 : !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Runs of a norm divide the row.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{segment 48, expected a divisor of the width 64}}
  moe.exec.norm %h to %h weight @n rms epsilon 1.0e-6 segment 48 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A quantized weight needs a quantized input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @wq matrix from <tensor = "wq", rows = 64, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %d = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{src is f32, expected quantized}}
  moe.exec.linear %h to %d weight @wq : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// The input has the format's activation group.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @wq matrix from <tensor = "wq", rows = 64, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %d = moe.buffer : !moe.buffer<f32, 64>
  %q = moe.buffer : !moe.buffer<quantized, 64, group = 64>
  // expected-error@+1 {{src has group 64, expected 32}}
  moe.exec.linear %q to %d weight @wq : !moe.buffer<quantized, 64, group = 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A float weight needs a float input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %d = moe.buffer : !moe.buffer<f32, 96>
  %q = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  // expected-error@+1 {{src is quantized, expected f32}}
  moe.exec.linear %q to %d weight @w : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// All heads of a rotation are in the buffer.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.rope @rope half factor 1.0 frequencies [1.0 : f32]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{buffer has width 64, expected 32}}
  moe.exec.rope %h heads 2 of 16 by @rope : !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Keys fill the slot.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{key has width 64, expected 32}}
  moe.exec.store_kv %h, %h slot @kv : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Attention's result has the values' width.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.kv_slot @kv heads 2 key 16 value 8
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %d = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{dst has width 64, expected 32}}
  moe.exec.attend %h to %d slot @kv heads 4 window 0 scale 0.25 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Heads share key/value heads evenly.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %d = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{3 heads, expected a multiple of the slot's 2}}
  moe.exec.attend %h to %d slot @kv heads 3 window 0 scale 0.25 : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A router has a score for every expert.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %i = moe.buffer : !moe.buffer<i32, 1>
  %t = moe.buffer : !moe.buffer<f32, 1>
  // expected-error@+1 {{scores has width 64, expected 2}}
  moe.exec.route %h to %i, %t of @e softmax_then_top_k renormalize true scale 1.0 : !moe.buffer<f32, 64>, !moe.buffer<i32, 1>, !moe.buffer<f32, 1>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// The buffer of expert numbers has one element per chosen expert.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %s = moe.buffer : !moe.buffer<f32, 2>
  %i = moe.buffer : !moe.buffer<i32, 1>
  %t = moe.buffer : !moe.buffer<f32, 2>
  // expected-error@+1 {{weights has width 2, expected 1}}
  moe.exec.route %s to %i, %t of @e softmax_then_top_k renormalize true scale 1.0 : !moe.buffer<f32, 2>, !moe.buffer<i32, 1>, !moe.buffer<f32, 2>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A token uses at most as many experts as the layer has.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %s = moe.buffer : !moe.buffer<f32, 2>
  %i = moe.buffer : !moe.buffer<i32, 3>
  %t = moe.buffer : !moe.buffer<f32, 3>
  // expected-error@+1 {{top 3 of 2 experts}}
  moe.exec.route %s to %i, %t of @e softmax_then_top_k renormalize true scale 1.0 : !moe.buffer<f32, 2>, !moe.buffer<i32, 3>, !moe.buffer<f32, 3>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Experts must have slices.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %q = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %d = moe.buffer : !moe.buffer<f32, 64>
  %i = moe.buffer : !moe.buffer<i32, 2>
  %s = moe.buffer : !moe.buffer<f32, 2>
  %x = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %g = moe.buffer : !moe.buffer<f32, 96>
  %u = moe.buffer : !moe.buffer<f32, 96>
  %r = moe.buffer : !moe.buffer<f32, 128>
  %y = moe.buffer : !moe.buffer<quantized, 96, group = 32>
  // expected-error@+1 {{the experts have no slices}}
  moe.exec.experts %q to %d of @e chosen %i, %s scratch gathered %x gate %g up %u ranks %r hidden %y : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>, !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 128>, !moe.buffer<quantized, 96, group = 32>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Ranks have a row per chosen expert.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int8, group = 32, activationGroup = 32>], [#moe.format<kind = int8, group = 32, activationGroup = 32>]]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %q = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %d = moe.buffer : !moe.buffer<f32, 64>
  %i = moe.buffer : !moe.buffer<i32, 2>
  %s = moe.buffer : !moe.buffer<f32, 2>
  %x = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %g = moe.buffer : !moe.buffer<f32, 96>
  %u = moe.buffer : !moe.buffer<f32, 96>
  %r = moe.buffer : !moe.buffer<f32, 128>
  %y = moe.buffer : !moe.buffer<quantized, 96, group = 32>
  // expected-error@+1 {{ranks has width 64, expected 128}}
  moe.exec.experts %q to %d of @e chosen %i, %s scratch gathered %x gate %g up %u ranks %h hidden %y : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>, !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 64>, !moe.buffer<quantized, 96, group = 32>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Quantized experts quantize down's input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int8, group = 32, activationGroup = 32>], [#moe.format<kind = int8, group = 32, activationGroup = 32>]]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %q = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %d = moe.buffer : !moe.buffer<f32, 64>
  %i = moe.buffer : !moe.buffer<i32, 2>
  %s = moe.buffer : !moe.buffer<f32, 2>
  %x = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %g = moe.buffer : !moe.buffer<f32, 96>
  %u = moe.buffer : !moe.buffer<f32, 96>
  %r = moe.buffer : !moe.buffer<f32, 128>
  %y = moe.buffer : !moe.buffer<quantized, 96, group = 32>
  // expected-error@+1 {{hidden is buffer -1, expected one where the experts (here int8) are quantized and none otherwise}}
  moe.exec.experts %q to %d of @e chosen %i, %s scratch gathered %x gate %g up %u ranks %r : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>, !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 128>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Quantized experts take quantized rows.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int8, group = 32, activationGroup = 32>], [#moe.format<kind = int8, group = 32, activationGroup = 32>]]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %q = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %d = moe.buffer : !moe.buffer<f32, 64>
  %i = moe.buffer : !moe.buffer<i32, 2>
  %s = moe.buffer : !moe.buffer<f32, 2>
  %x = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %g = moe.buffer : !moe.buffer<f32, 96>
  %u = moe.buffer : !moe.buffer<f32, 96>
  %r = moe.buffer : !moe.buffer<f32, 128>
  %y = moe.buffer : !moe.buffer<quantized, 96, group = 32>
  // expected-error@+1 {{src is f32, expected quantized}}
  moe.exec.experts %h to %d of @e chosen %i, %s scratch gathered %x gate %g up %u ranks %r hidden %y : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>, !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 128>, !moe.buffer<quantized, 96, group = 32>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// Experts with the Hadamard transform take transformed rows.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int8, group = 32, activationGroup = 32, hadamard = true>], [#moe.format<kind = int8, group = 32, activationGroup = 32, hadamard = true>]]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %q = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %d = moe.buffer : !moe.buffer<f32, 64>
  %i = moe.buffer : !moe.buffer<i32, 2>
  %s = moe.buffer : !moe.buffer<f32, 2>
  %x = moe.buffer : !moe.buffer<quantized, 64, group = 32>
  %g = moe.buffer : !moe.buffer<f32, 96>
  %u = moe.buffer : !moe.buffer<f32, 96>
  %r = moe.buffer : !moe.buffer<f32, 128>
  %y = moe.buffer : !moe.buffer<quantized, 96, group = 32>
  // expected-error@+1 {{src is quantized, expected hadamard}}
  moe.exec.experts %q to %d of @e chosen %i, %s scratch gathered %x gate %g up %u ranks %r hidden %y : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>, !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 128>, !moe.buffer<quantized, 96, group = 32>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// The head's input matches its weight.
moe.weight @wq matrix from <tensor = "wq", rows = 64, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{src is f32, expected quantized}}
  moe.exec.head %h weight @wq scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A prediction has a score for each expert.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %s = moe.buffer : !moe.buffer<f32, 3>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{scores has width 3, expected 2}}
  moe.exec.predict %h to %s weight @r of @e ahead 1 : !moe.buffer<f32, 64>, !moe.buffer<f32, 3>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A router has as many inputs as the row has elements.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 32, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %s = moe.buffer : !moe.buffer<f32, 2>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{src has width 64, expected 32}}
  moe.exec.predict %h to %s weight @r of @e ahead 1 : !moe.buffer<f32, 64>, !moe.buffer<f32, 2>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// The router must have a format.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  %s = moe.buffer : !moe.buffer<f32, 2>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{weight @r has no format}}
  moe.exec.predict %h to %s weight @r of @e ahead 1 : !moe.buffer<f32, 64>, !moe.buffer<f32, 2>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// The scores must not overlap the input row.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
moe.program @p {
  %h = moe.buffer at 0 : !moe.buffer<f32, 64>
  %s = moe.buffer at 64 : !moe.buffer<f32, 2>
  moe.exec.embed %h weight @w scale 1.0 : !moe.buffer<f32, 64>
  // expected-error@+1 {{src and scores share bytes of the arena}}
  moe.exec.predict %h to %s weight @r of @e ahead 1 : !moe.buffer<f32, 64>, !moe.buffer<f32, 2>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// An instruction refers to symbols that exist.
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{found no moe.weight named @w}}
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}

// -----

// A symbol is of the kind that the instruction's declaration names.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.buffer : !moe.buffer<f32, 64>
  // expected-error@+1 {{found no moe.rope named @w}}
  moe.exec.rope %h heads 4 of 16 by @w : !moe.buffer<f32, 64>
  moe.exec.head %h weight @w scale 1.0 : !moe.buffer<f32, 64>
}
