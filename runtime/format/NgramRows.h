// Which rows of a table the last tokens name: the n-grams of Qwen3.8 (transformers,
// models/qwen4_exp), by 64-bit products and remainders.
//
// The heads of all orders of n-grams, 2 to `tokens` tokens, have the next primes from leastRows on
// as their numbers of rows, after those of the `number` tables before; their rows follow each other
// in the table. The n-gram of an order has the value XOR of token(s) * multiplier(s) over its
// tokens, s from 0 (the last one) on, in 64 bits; its row of a head is that value, as a signed
// integer, modulo the head's rows. Tokens before the first, or up to an end token, are end tokens.
#pragma once

#include "runtime/format/SequenceInstructions.h"

#include <cstdint>
#include <vector>

namespace moert {

/// Heads of all tables up to a number, and tokens of an n-gram.
constexpr uint32_t kMaxNgramHeads = 256, kMaxNgramTokens = 16;
constexpr uint32_t kMaxNgramRows = 1u << 31;

struct NgramRows {
  std::vector<uint64_t> multipliers; // Factor of the token s back.
  std::vector<uint64_t> sizes, firstRows;

  /// At most kMaxNgramHeads heads of tables up to this one, kMaxNgramTokens tokens.
  NgramRows(const EmbedNgramsInstruction &of, uint64_t vocabulary);

  /// Rows of all heads.
  uint64_t total() const { return firstRows.back() + sizes.back(); }
};

} // namespace moert
