// What moe-allot-cache needs and refuses of the module.
// RUN: moec-opt %s -split-input-file -verify-diagnostics --moe-allot-cache

// Formats come first.
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">} {
  // expected-error@+1 {{the experts have no slices: run moe-assign-bits first}}
  moe.moe_layer @experts layer 0 silu experts 4
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 96, cols = 64, type = bf16>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 64, cols = 96, type = bf16>]>]
}

// -----

module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 64, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">} {
  // expected-error@+1 {{the weight has no format: run moe-assign-bits first}}
  moe.weight @w matrix from <tensor = "w", rows = 96, cols = 64, type = bf16>
}

// -----

// The context is at most the model's positions, which it says.
// expected-error@+1 {{the module has no 'moe.model'}}
module {}
