// What moe-make-plans requires of the module, and refuses.
// RUN: moec-opt %s -split-input-file -verify-diagnostics --moe-make-plans

// Needs formats.
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

// Needs 'moe.model' for the limit of the context.
// expected-error@+1 {{the module has no 'moe.model'}}
module {}

// -----

// 2^22 x 2^22 in f32 are 2^46 bytes; three of them are 3 * 2^30 pages of 64 KiB, and two experts have more than 2^32.
module attributes {moe.model = #moe.model<type = "tiny", vocabulary = 96, hidden = 4194304, layers = 1, maxPositions = 512, eos = [2], checkpoint = "c">} {
  // expected-error@+1 {{has 2 experts in 6442450944 pages of 65536 bytes, expected at most 2^32 pages in a layer}}
  moe.moe_layer @experts layer 0 silu experts 2
    matrices [#moe.expert_matrix<gate, [<tensor = "g.{expert}", rows = 4194304, cols = 4194304, type = f32>]>,
              #moe.expert_matrix<up, [<tensor = "u.{expert}", rows = 4194304, cols = 4194304, type = f32>]>,
              #moe.expert_matrix<down, [<tensor = "d.{expert}", rows = 4194304, cols = 4194304, type = f32>]>]
    slices [[#moe.format<kind = f32>], [#moe.format<kind = f32>]]
}
