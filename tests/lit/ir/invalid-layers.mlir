// Errors of ops on layers: shapes, kinds and roles of the symbols that they refer to.
// RUN: moec-opt %s -split-input-file -verify-diagnostics

// Symbols must exist.
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{found no moe.weight named @n}}
  %n = moe.norm %x by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
  return
}

// -----

// A symbol must be of the right kind.
moe.kv_slot @kv heads 2 key 16 value 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{found no moe.weight named @kv}}
  %n = moe.norm %x by <rms, epsilon = 1.0e-6 : f32, @kv> : tensor<?x64xf32>
  return
}

// -----

// A norm's weight is as wide as the row.
moe.weight @n vector from <tensor = "n", rows = 1, cols = 32, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @n is 1 x 32, expected 1 x 64}}
  %n = moe.norm %x by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
  return
}

// -----

// Norms and biases are vectors.
moe.weight @n matrix from <tensor = "n", rows = 1, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @n has the role matrix, expected vector}}
  %n = moe.norm %x by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
  return
}

// -----

// The number of rows is dynamic.
moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16>
func.func @f(%x: tensor<8x64xf32>) {
  // expected-error@+1 {{expected rows as tensor<?xN>, found 'tensor<8x64xf32>'}}
  %n = moe.norm %x by <rms, epsilon = 1.0e-6 : f32, @n> : tensor<8x64xf32>
  return
}

// -----

// The embedding is as wide as its rows.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 32, type = bf16>
func.func @f(%ids: tensor<?xi32>) {
  // expected-error@+1 {{weight @w is 96 x 32, expected 96 x 64}}
  %h = moe.embed %ids weight @w scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
  return
}

// -----

// Queries fill all heads.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @q is 64 x 64, expected 128 x 64}}
  %a = moe.attention %x query <@q> key <@k> value <@v> output <@o> slot @kv heads 8 scale 0.25 : tensor<?x64xf32>
  return
}

// -----

// Heads share key/value heads evenly.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{3 heads over 2 key/value heads, expected a multiple}}
  %a = moe.attention %x query <@q> key <@k> value <@v> output <@o> slot @kv heads 3 scale 0.25 : tensor<?x64xf32>
  return
}

// -----

// A norm of queries is per head or over all heads.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.weight @n vector from <tensor = "n", rows = 1, cols = 32, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @n has 32 elements, expected 16 (per head) or 64 (all heads)}}
  %a = moe.attention %x query <@q> key <@k> value <@v> output <@o> slot @kv heads 4 scale 0.25 query_norm <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
  return
}

// -----

// A head is at least as wide as its rotated part.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.rope @rope half factor 1.0 frequencies [1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{rotates 18 elements of a head of 16}}
  %a = moe.attention %x query <@q> key <@k> value <@v> output <@o> slot @kv heads 4 scale 0.25 rope @rope : tensor<?x64xf32>
  return
}

// -----

// A bias is as long as the outputs.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
moe.weight @b vector from <tensor = "b", rows = 1, cols = 32, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @b is 1 x 32, expected 1 x 64}}
  %a = moe.attention %x query <@q, bias = @b> key <@k> value <@v> output <@o> slot @kv heads 4 scale 0.25 : tensor<?x64xf32>
  return
}

// -----

// Values that are the products of keys need a norm, which makes them values.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{expected a norm of values that are the products of keys}}
  %a = moe.attention %x query <@q> key <@k> output <@o> slot @kv heads 4 scale 1.0 : tensor<?x64xf32>
  return
}

// -----

// Values that are the products of keys are as wide as these.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 32, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 8
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{stores values of 8 elements, expected those of a key, 16}}
  %a = moe.attention %x query <@q> key <@k> output <@o> slot @kv heads 4 scale 1.0 value_norm 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// A norm of values can be computed.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{expected an epsilon of the values' norm of at least 0}}
  %a = moe.attention %x query <@q> key <@k> value <@k> output <@o> slot @kv heads 4 scale 1.0 value_norm -1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// The weight of a scale is one number.
moe.weight @n vector from <tensor = "n", rows = 1, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @n is 1 x 64, expected 1 x 1}}
  %a = moe.scale %x by 1.0 weight @n : tensor<?x64xf32>
  return
}

// -----

// A soft cap is above 0.
moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{expected a soft cap above 0}}
  %l = moe.head %x linear <@w> scale 1.0 soft_cap 0.0 : tensor<?x64xf32> -> tensor<?x96xf32>
  return
}

// -----

// A slot of latent attention holds the shared key and the latent, which is the value too.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 8, cols = 64, type = bf16>
moe.weight @l matrix from <tensor = "l", rows = 24, cols = 64, type = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 24, type = bf16>
moe.weight @ku heads from <tensor = "ku", rows = 48, cols = 24, type = bf16>
moe.weight @vu heads from <tensor = "vu", rows = 32, cols = 24, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 32, type = bf16>
moe.kv_slot @kv heads 1 key 32 value 24
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{stores keys of 8 + 24 elements, expected a slot with heads 1 key 32 value 0}}
  %a = moe.latent_attention %x query <@q> key <@k> latent <@l> norm <rms, epsilon = 1.0e-6 : f32, @n> up @ku, @vu output <@o> slot @kv heads 2 scale 0.25 : tensor<?x64xf32>
  return
}

// -----

// Queries of latent attention fill all heads.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 8, cols = 64, type = bf16>
moe.weight @l matrix from <tensor = "l", rows = 24, cols = 64, type = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 24, type = bf16>
moe.weight @ku heads from <tensor = "ku", rows = 48, cols = 24, type = bf16>
moe.weight @vu heads from <tensor = "vu", rows = 32, cols = 24, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 32, type = bf16>
moe.kv_slot @kv heads 1 key 32 value 0
moe.weight @ku4 heads from <tensor = "ku", rows = 96, cols = 24, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @q is 64 x 64, expected 128 x 64}}
  %a = moe.latent_attention %x query <@q> key <@k> latent <@l> norm <rms, epsilon = 1.0e-6 : f32, @n> up @ku4, @vu output <@o> slot @kv heads 4 scale 0.25 : tensor<?x64xf32>
  return
}

// -----

// Heads have results of one width.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 8, cols = 64, type = bf16>
moe.weight @l matrix from <tensor = "l", rows = 24, cols = 64, type = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 24, type = bf16>
moe.weight @ku heads from <tensor = "ku", rows = 48, cols = 24, type = bf16>
moe.weight @vu heads from <tensor = "vu", rows = 32, cols = 24, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 32, type = bf16>
moe.kv_slot @kv heads 1 key 32 value 0
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{32 results of 3 heads, expected a multiple}}
  %a = moe.latent_attention %x query <@q> key <@k> latent <@l> norm <rms, epsilon = 1.0e-6 : f32, @n> up @ku, @vu output <@o> slot @kv heads 3 scale 0.25 : tensor<?x64xf32>
  return
}

// -----

// A product per head is identified by its role, so that no pass quantizes it.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 8, cols = 64, type = bf16>
moe.weight @l matrix from <tensor = "l", rows = 24, cols = 64, type = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 24, type = bf16>
moe.weight @ku matrix from <tensor = "ku", rows = 48, cols = 24, type = bf16>
moe.weight @vu heads from <tensor = "vu", rows = 32, cols = 24, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 32, type = bf16>
moe.kv_slot @kv heads 1 key 32 value 0
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @ku has the role matrix, expected heads}}
  %a = moe.latent_attention %x query <@q> key <@k> latent <@l> norm <rms, epsilon = 1.0e-6 : f32, @n> up @ku, @vu output <@o> slot @kv heads 2 scale 0.25 : tensor<?x64xf32>
  return
}

// -----

// The norm of a down-projection is as wide as its rows.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 8, cols = 64, type = bf16>
moe.weight @l matrix from <tensor = "l", rows = 24, cols = 64, type = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 24, type = bf16>
moe.weight @ku heads from <tensor = "ku", rows = 48, cols = 24, type = bf16>
moe.weight @vu heads from <tensor = "vu", rows = 32, cols = 24, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 32, type = bf16>
moe.kv_slot @kv heads 1 key 32 value 0
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @n is 1 x 24, expected 1 x 64}}
  %a = moe.latent_attention %x query <@q> key <@k> latent <@l> norm <rms, epsilon = 1.0e-6 : f32, @n> up @ku, @vu output <@o> slot @kv heads 2 scale 0.25 down <@q> <rms, epsilon = 1.0e-6 : f32, @n> : tensor<?x64xf32>
  return
}

// -----

// The shared key is at least as wide as its rotated part.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 8, cols = 64, type = bf16>
moe.weight @l matrix from <tensor = "l", rows = 24, cols = 64, type = bf16>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 24, type = bf16>
moe.weight @ku heads from <tensor = "ku", rows = 48, cols = 24, type = bf16>
moe.weight @vu heads from <tensor = "vu", rows = 32, cols = 24, type = bf16>
moe.weight @o matrix from <tensor = "o", rows = 64, cols = 32, type = bf16>
moe.kv_slot @kv heads 1 key 32 value 0
moe.rope @rope half factor 1.0 frequencies [1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32, 1.0 : f32]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{rotates 10 elements of a head of 8}}
  %a = moe.latent_attention %x query <@q> key <@k> latent <@l> norm <rms, epsilon = 1.0e-6 : f32, @n> up @ku, @vu output <@o> slot @kv heads 2 scale 0.25 rope @rope : tensor<?x64xf32>
  return
}

// -----

// A router scores every expert.
moe.weight @r router from <tensor = "r", rows = 3, cols = 64, type = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @r is 3 x 64, expected 2 x 64}}
  %i, %w = moe.route %x router <@r> to @e softmax_then_top_k renormalize true scale 1.0 : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// A router has the role router.
moe.weight @r matrix from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @r has the role matrix, expected router}}
  %i, %w = moe.route %x router <@r> to @e softmax_then_top_k renormalize true scale 1.0 : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// A token uses at most as many experts as the layer has.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{chooses 3 experts with 3 weights, expected the same number, at most 2}}
  %i, %w = moe.route %x router <@r> to @e softmax_then_top_k renormalize true scale 1.0 : tensor<?x64xf32> -> tensor<?x3xi32>, tensor<?x3xf32>
  return
}

// -----

// Every chosen expert has a weight.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x1xf32>) {
  // expected-error@+1 {{takes 2 experts with 1 weights, expected the same number, at most 2}}
  %y = moe.experts %x of @e chosen %i, %w : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x1xf32>
  return
}

// -----

// Experts take rows of their inputs' width.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x32xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{rows of 32 for experts of 64 inputs}}
  %y = moe.experts %x of @e chosen %i, %w : tensor<?x32xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// A network's down matrix has as many rows as the input row has elements.
moe.weight @g matrix from <tensor = "g", rows = 96, cols = 64, type = bf16>
moe.weight @d matrix from <tensor = "d", rows = 32, cols = 96, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @d is 32 x 96, expected 64 x 96}}
  %y = moe.dense %x network <silu, gate = <@g>, up = <@g>, down = <@d>> : tensor<?x64xf32>
  return
}

// -----

// A shared gate is one row.
moe.weight @g matrix from <tensor = "g", rows = 96, cols = 64, type = bf16>
moe.weight @d matrix from <tensor = "d", rows = 64, cols = 96, type = bf16>
moe.weight @s router from <tensor = "s", rows = 2, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @s is 2 x 64, expected 1 x 64}}
  %y = moe.shared_expert %x network <silu, gate = <@g>, up = <@g>, down = <@d>> gate <@s> : tensor<?x64xf32>
  return
}

// -----

// A shared gate has the role router too.
moe.weight @g matrix from <tensor = "g", rows = 96, cols = 64, type = bf16>
moe.weight @d matrix from <tensor = "d", rows = 64, cols = 96, type = bf16>
moe.weight @s matrix from <tensor = "s", rows = 1, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @s has the role matrix, expected router}}
  %y = moe.shared_expert %x network <silu, gate = <@g>, up = <@g>, down = <@d>> gate <@s> : tensor<?x64xf32>
  return
}

// -----

// The head has a row per token of the vocabulary.
moe.weight @h matrix from <tensor = "h", rows = 95, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @h is 95 x 64, expected 96 x 64}}
  %l = moe.head %x linear <@h> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
  return
}

// -----

// A layer is predicted by its own router, which has a row per expert.
moe.weight @r router from <tensor = "r", rows = 3, cols = 64, type = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @r is 3 x 64, expected 2 x 64}}
  moe.predict %x router <@r> of @e ahead 1 : tensor<?x64xf32>
  return
}

// -----

// The predicting router is never quantized.
moe.weight @r matrix from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @r has the role matrix, expected router}}
  moe.predict %x router <@r> of @e ahead 1 : tensor<?x64xf32>
  return
}

// -----

// The predicted layer must exist.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{found no moe.moe_layer named @e}}
  moe.predict %x router <@r> of @e ahead 1 : tensor<?x64xf32>
  return
}

// -----

// A prediction is at least one MoE layer ahead.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{predicts 0 MoE layers ahead, expected 1 to 3}}
  moe.predict %x router <@r> of @e ahead 0 : tensor<?x64xf32>
  return
}

// -----

// A prediction is at most three MoE layers ahead.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @e layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{predicts 4 MoE layers ahead, expected 1 to 3}}
  moe.predict %x router <@r> of @e ahead 4 : tensor<?x64xf32>
  return
}

// -----

// Layers without experts are not counted: from 0, layer 3 is the second.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @a layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.moe_layer @b layer 1 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.moe_layer @c layer 3 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{predicts @c, which is 2 MoE layers ahead of layer 0, not 3}}
  moe.predict %x router <@r> of @c ahead 3 {moe.layer = 0 : i32} : tensor<?x64xf32>
  return
}

// -----

// A layer does not predict itself.
moe.weight @r router from <tensor = "r", rows = 2, cols = 64, type = bf16>
moe.moe_layer @a layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{predicts @a, which is 0 MoE layers ahead of layer 0, not 1}}
  moe.predict %x router <@r> of @a ahead 1 {moe.layer = 0 : i32} : tensor<?x64xf32>
  return
}

// -----

// Biases of gate are those of all experts.
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.weight @b vector from <tensor = "b", rows = 1, cols = 96, type = bf16>
func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{weight @b is 1 x 96, expected 1 x 192}}
  %y = moe.experts %x of @e chosen %i, %w gate_bias @b : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// Biases of up are those of all experts.
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.weight @b vector from <tensor = "b", rows = 1, cols = 96, type = bf16>
func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{weight @b is 1 x 96, expected 1 x 192}}
  %y = moe.experts %x of @e chosen %i, %w up_bias @b : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// Biases of down are those of all experts.
moe.moe_layer @e layer 0 silu experts 2 matrices [#moe.expert_matrix<gate, [<tensor = "g", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<up, [<tensor = "u", rows = 96, cols = 64, type = bf16>]>, #moe.expert_matrix<down, [<tensor = "d", rows = 64, cols = 96, type = bf16>]>]
moe.weight @b vector from <tensor = "b", rows = 1, cols = 64, type = bf16>
func.func @f(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{weight @b is 1 x 64, expected 1 x 128}}
  %y = moe.experts %x of @e chosen %i, %w down_bias @b : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

// There is a sink for each head.
moe.weight @q matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
moe.weight @k matrix from <tensor = "k", rows = 32, cols = 64, type = bf16>
moe.weight @s vector from <tensor = "s", rows = 1, cols = 2, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @s is 1 x 2, expected 1 x 4}}
  %a = moe.attention %x query <@q> key <@k> value <@k> output <@q> slot @kv heads 4 scale 0.25 sinks @s : tensor<?x64xf32>
  return
}

// -----

// Experts are MXFP4 where the checkpoint has them so; nothing is rounded to it.
// expected-error@+1 {{expert 1: slices of mxfp4, but up is stored as bf16}}
moe.moe_layer @experts layer 0 silu experts 2
  matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = mxfp4>]>,
            #moe.expert_matrix<up, [<tensor = "u.0", rows = 96, cols = 64, type = mxfp4>,
                                    <tensor = "u.1", rows = 96, cols = 64, type = bf16>]>,
            #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = mxfp4>]>]
  slices [[#moe.format<kind = mxfp4, group = 32>], [#moe.format<kind = mxfp4, group = 32>]]
