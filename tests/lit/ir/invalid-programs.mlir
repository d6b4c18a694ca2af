// Errors of programs and instructions. The format's rules for each instruction are tested with the format.
// RUN: moec-opt %s -split-input-file -verify-diagnostics

// A program ends with the head.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
// expected-error@+1 {{expected moe.head at the end}}
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
}

// -----

// A program has one head only.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{expected at the end of the program only}}
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A program holds instructions only.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{is not an instruction}}
  %0 = builtin.unrealized_conversion_cast %h : !moe.row<f32, 64> to i32
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// Instructions belong to programs.
builtin.module {
  // expected-error@+1 {{expects parent op 'moe.program'}}
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
}

// -----

// A program has no arguments.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
// expected-error@+1 {{expected no arguments: rows begin with moe.embed}}
moe.program @p {
^bb0(%h: !moe.row<f32, 64>):
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A program has one block.
// expected-error@+1 {{failed to verify constraint: region with 1 blocks}}
"moe.program"() <{sym_name = "p"}> ({}) : () -> ()

// -----

// An instruction refers to symbols that exist.
moe.program @p {
  // expected-error@+1 {{found no moe.weight named @w}}
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A symbol is of the kind that the declaration names.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{found no moe.rope_table named @w}}
  %r = moe.rope %h heads 4 headDim 16 rope @w : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// An updated row is not read later: no instruction copies it.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{updates a row that moe.head reads later}}
  %c = moe.clamp %h limit 1.0 : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// The rules are the format's: a product's result is as wide as its matrix has rows.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{dst has width 64, expected 96}}
  %n = moe.linear %h weight @w : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A norm has a vector.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{weight is a 96 x 64 matrix of bf16, expected 1 x 64 of f32}}
  %n = moe.norm %h weight @w segment 64 : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A weight without a format is f32 until assign-bits has run.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  %q = moe.quantize %h : (!moe.row<f32, 64>) -> !moe.row<quantized, 64, group = 32>
  // expected-error@+1 {{src is quantized, expected f32}}
  %l = moe.linear %q weight @w : (!moe.row<quantized, 64, group = 32>) -> !moe.row<f32, 96>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A quantized weight needs a quantized input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{src is f32, expected quantized}}
  %n = moe.linear %h weight @q : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// The input has the group of the format.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  %c = moe.quantize %h : (!moe.row<f32, 64>) -> !moe.row<quantized, 64, group = 64>
  // expected-error@+1 {{src has group 64, expected 32}}
  %n = moe.linear %c weight @q : (!moe.row<quantized, 64, group = 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// Keys fill their slot.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{key has width 64, expected 32}}
  moe.store_kv %h, %h slot @kv : (!moe.row<f32, 64>, !moe.row<f32, 64>) -> ()
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A number that an instruction needs is not left out.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{0 heads, expected a multiple of the slot's 2}}
  %a = moe.attend %h slot @kv scale 0.25 : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A token uses at most as many experts as the layer has.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  %s = moe.linear %h weight @r role router : (!moe.row<f32, 64>) -> !moe.row<f32, 2>
  // expected-error@+1 {{top 3 of 2 experts}}
  %i, %t = moe.route %s moeLayer @e weightScale 1.0 : (!moe.row<f32, 2>) -> (!moe.row<i32, 3>, !moe.row<f32, 3>)
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// Quantized experts take quantized rows.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>] slices [[#moe.format<kind = int8, group = 32, activationGroup = 32>], [#moe.format<kind = int8, group = 32, activationGroup = 32>]]
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  %s = moe.linear %h weight @r role router : (!moe.row<f32, 64>) -> !moe.row<f32, 2>
  %i, %t = moe.route %s moeLayer @e weightScale 1.0 : (!moe.row<f32, 2>) -> (!moe.row<i32, 1>, !moe.row<f32, 1>)
  // expected-error@+1 {{src is f32, expected quantized}}
  %x = moe.experts %h, %i, %t moeLayer @e : (!moe.row<f32, 64>, !moe.row<i32, 1>, !moe.row<f32, 1>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A state slot has the rows that an instruction keeps.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @t taps from <tensor = "t", rows = 64, cols = 4, type = bf16>
moe.state_slot @s rows 2 width 64
moe.program @p {
  %h = moe.embed weight @w scale 1.0 : () -> !moe.row<f32, 64>
  // expected-error@+1 {{the state slot is 2 x 64, expected 3 x 64}}
  %c = moe.convolve %h weight @t slot @s : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A planned program does not read overwritten rows: %n shares 64 of the 256 bytes of %h.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 0>} : () -> !moe.row<f32, 64>
  %n = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 192>} : () -> !moe.row<f32, 64>
  // expected-error@+1 {{src is buffer 0, which holds no value here: it was never written or was overwritten}}
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// An instruction overwrites its input only in place.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 0>} : () -> !moe.row<f32, 64>
  // expected-error@+1 {{src and dst share bytes of the arena}}
  %n = moe.norm %h segment 64 {moe.offsets = array<i64: 192>} : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %n weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A product never overwrites its input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 0>} : () -> !moe.row<f32, 64>
  // expected-error@+1 {{src and dst share bytes of the arena}}
  %n = moe.linear %h weight @q {moe.offsets = array<i64: 0>} : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %n weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// The scratch of a prediction does not overlap its input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.program @p {
  %h = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 0>} : () -> !moe.row<f32, 64>
  // expected-error@+1 {{src and scores share bytes of the arena}}
  moe.predict %h weight @r moeLayer @e ahead 1 {moe.offsets = array<i64: 64>} : (!moe.row<f32, 64>) -> ()
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// Every row of a planned program has an offset.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 0>} : () -> !moe.row<f32, 64>
  // expected-error@+1 {{has 0 offsets, expected 1: run moe-bufferize again}}
  %n = moe.norm %h segment 64 : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// Offsets are multiples of 64.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
// expected-error@+1 {{buffer 0: offset 32, expected a multiple of 64}}
moe.program @p {
  %h = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 32>} : () -> !moe.row<f32, 64>
  moe.head %h weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}

// -----

// A row that is updated has no offset of its own.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.program @p {
  %h = moe.embed weight @w scale 1.0 {moe.offsets = array<i64: 0>} : () -> !moe.row<f32, 64>
  // expected-error@+1 {{has 1 offsets, expected 0: run moe-bufferize again}}
  %c = moe.clamp %h limit 1.0 {moe.offsets = array<i64: 0>} : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
  moe.head %c weight @w scale 1.0 : (!moe.row<f32, 64>) -> ()
}
