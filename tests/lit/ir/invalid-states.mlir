// RUN: moec-opt %s --split-input-file --verify-diagnostics

// A state slot holds the taps but one.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 2 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{state slot @q_tail is 2 x 32, expected 3 x 32}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// Its rows are as wide as the product.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 32
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{state slot @v_tail is 3 x 32, expected 3 x 64}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// The state has a matrix per head.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 32 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{state slot @state is 32 x 16, expected 64 x 16}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// State slots exist.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{found no moe.state_slot named @state}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// Taps have their own role, so that no pass quantizes them.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt matrix from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @vt has the role matrix, expected taps}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// A convolution has a tap for the token itself and one for a token before.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 1, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{convolves 32 elements with 1 taps, expected at least 16 with 2}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// Taps are those of the product.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 16, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @q is 32 x 64, expected 16 x 64}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// Heads share key heads evenly.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{4 heads over 3 key heads, expected a multiple}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 3 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// Decays are never quantized.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b matrix from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @b has the role matrix, expected router}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// There is a rate per head.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 3, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @a is 1 x 3, expected 1 x 4}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// The norm is that of a head.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 8, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @n is 1 x 8, expected 1 x 16}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@v> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// The gate is as wide as the values.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @b router from <tensor = "b", rows = 4, cols = 64, type = bf16>
moe.weight @qt taps from <tensor = "qt", rows = 32, cols = 4, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.weight @a vector from <tensor = "a", rows = 1, cols = 4, type = f32>
moe.weight @n vector from <tensor = "n", rows = 1, cols = 16, type = bf16>
moe.state_slot @q_tail rows 3 width 32
moe.state_slot @k_tail rows 3 width 32
moe.state_slot @v_tail rows 3 width 64
moe.state_slot @state rows 64 width 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @q is 32 x 64, expected 64 x 64}}
  %y = moe.delta_net %x query <<@q>, @qt, @q_tail> key <<@q>, @qt, @k_tail> value <<@v>, @vt, @v_tail> gate <@q> decay <@b> rate @a bias @a write <@b> norm <rms, epsilon = 1.0e-5 : f32, @n> output <@v> state @state keys 2 heads 4 epsilon 1.0e-6 : tensor<?x64xf32>
  return
}

// -----

// A state slot has elements.
// expected-error@+1 {{expected at least one row of at least one element}}
moe.state_slot @s rows 0 width 4

// -----

// Taps are stored as f32.
// expected-error@+1 {{taps stored as bf16, expected f32}}
moe.weight @t taps from <tensor = "t", rows = 32, cols = 4, type = bf16> as <kind = bf16>

// -----

// A short convolution's gates are as wide as what they gate.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.weight @vt taps from <tensor = "vt", rows = 64, cols = 4, type = bf16>
moe.state_slot @tail rows 3 width 64
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @q is 32 x 64, expected 64 x 64}}
  %y = moe.short_convolution %x before <@v> value <<@v>, @vt, @tail> after <@q> output <@v> : tensor<?x64xf32>
  return
}

// -----

// An attention's gate is as wide as its result.
moe.weight @q matrix from <tensor = "q", rows = 32, cols = 64, type = bf16>
moe.weight @v matrix from <tensor = "v", rows = 64, cols = 64, type = bf16>
moe.kv_slot @kv heads 2 key 16 value 16
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{weight @q is 32 x 64, expected 64 x 64}}
  %a = moe.attention %x query <@v> key <@q> value <@q> output <@v> slot @kv heads 4 scale 0.25 gate <@q> : tensor<?x64xf32>
  return
}
