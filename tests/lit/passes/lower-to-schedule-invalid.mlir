// Modules that cannot be lowered.
// RUN: moec-opt %s -split-input-file -verify-diagnostics --moe-lower-to-schedule

// Needs formats.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16>
func.func @f(%ids: tensor<?xi32>) {
  // expected-error@+1 {{uses weight @w, which has no format: run moe-assign-bits first}}
  %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
  return
}

// -----

// Only instructions write rows.
moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16> as <kind = f32>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{reads rows that no instruction writes}}
  %n = moe.norm %x by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
  return
}

// -----

// Only layers have instructions.
func.func @f(%ids: tensor<?xi32>) {
  // expected-error@+1 {{has no instructions to lower it to}}
  %c = builtin.unrealized_conversion_cast to i32
  return
}

// -----

// A declaration has no body to lower.
// expected-error@+1 {{expected one block, found a declaration or branches}}
func.func private @f(tensor<?xi32>)

// -----

// All experts of a layer take the same input.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2
  matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
  slices [[#moe.format<kind = bf16>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
func.func @f(%ids: tensor<?xi32>) {
  %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
  %i, %w = moe.route %h router <@r> to @e softmax_then_top_k renormalize true scale 1.0 : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  // expected-error@+1 {{has experts of bf16 and of int4 with different inputs; expected all float, or all quantized with one activation group}}
  %x = moe.experts %h of @e chosen %i, %w : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// So all or none of them have the Hadamard transform.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = bf16>
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16> as <kind = bf16>
moe.moe_layer @e layer 0 silu experts 2
  matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
  slices [[#moe.format<kind = int8, group = 32, activationGroup = 32, hadamard = true>], [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
func.func @f(%ids: tensor<?xi32>) {
  %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
  %i, %w = moe.route %h router <@r> to @e softmax_then_top_k renormalize true scale 1.0 : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  // expected-error@+1 {{has experts of int8 and of int4 with different inputs; expected all float, or all quantized with one activation group, all with the Hadamard transform or all without}}
  %x = moe.experts %h of @e chosen %i, %w : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// Offsets that were planned for other instructions are refused.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16> as <kind = int8, group = 32, activationGroup = 32>
// expected-error@+1 {{has buffers that were planned for other instructions: run moe-plan-memory again}}
func.func @f(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
  %0 = moe.buffer at 0 : !moe.buffer<f32, 64>
  %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
  %l = moe.head %h linear <@w> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
  return %l : tensor<?x96xf32>
}
