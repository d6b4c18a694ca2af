// A whole artifact of 2 layers and 8 experts that passes every rule, as data and as a file in
// memory; tests break one thing in it at a time.
#pragma once

#include "runtime/format/Artifact.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Indices of the tiny artifact's resident weights.
struct TinyWeights {
  static constexpr int32_t kEmbedding = 0, kNorm = 1, kQuery = 2, kKey = 3, kValue = 4, kOutput = 5,
                           kRouter = 6, kQueryBias = 7, kSharedGate = 8, kHeadNorm = 9;
};

/// Indices of the tiny programs' buffers.
struct TinyBuffers {
  static constexpr int32_t kResidual = 0, kNormed = 1, kCodes = 2, kQuery = 3, kKey = 4, kValue = 5,
                           kAttended = 6, kScores = 7, kExperts = 8, kWeights = 9, kMixed = 10,
                           kGathered = 11, kGate = 12, kUp = 13, kHidden = 14, kRanks = 15,
                           kSharedGate = 16;
};

/// Indices of the buffers that useHadamard() adds.
struct HadamardBuffers {
  static constexpr int32_t kCodes = 17, kGathered = 18, kHidden = 19;
};

/// Laid out with a tokenizer of kTinyTokenizerBytes; checksums are those of tinyFile().
moert::Artifact tinyArtifact();
constexpr uint64_t kTinyTokenizerBytes = 100;

/// The same with every optional field of plans, and with the sections that plans are made from.
moert::Artifact tinyPlannedArtifact();
constexpr uint64_t kTinyPathsBytes = 200, kTinyTraceBytes = 5000;

/// The same with experts of MXFP4, and one of bf16.
moert::Artifact tinyMxfp4Artifact();
/// The same with layer 1's gate and up in q8_0, and down in q4_0.
moert::Artifact tinyBlocksArtifact();

/// The same with byte scales in one slice, and in the first of several.
moert::Artifact tinyByteScalesArtifact();

/// The same with the Hadamard transform in the experts of layer 1: two have offsets, one has byte
/// scales, and one has neither, and a narrower down.
moert::Artifact tinyHadamardArtifact();

/// Gives the experts of layer 1 the transform, and the programs HadamardBuffers for their inputs.
void useHadamard(moert::Artifact &artifact);

/// The same in larger pages with low copies: expert 0 of layer 1 is int2 beside int8, expert 1 int2
/// beside slices of 2 and 1 bits, expert 2 slices of 2 and 2 bits beside int8.
moert::Artifact tinyCopiesArtifact();

/// The same with keys and values of f16 and of int8.
moert::Artifact tinyNarrowKvArtifact();

/// With experts of layer 1 whose down has another width than gate and up: 4/6 bits in three slices
/// and in one, 4/4 in two, 4/2 in two.
moert::Artifact tinyWiderDownArtifact();

/// The MXFP4 one with int2 beside expert 0 of each layer, and int4 beside the bf16 one.
moert::Artifact tinyFloatCopiesArtifact();

/// Measurements for it: two calibration texts, one of which has scored windows too.
moert::Measured tinyMeasured();
/// The same on the items of one file of two.
moert::Measured tinyMeasuredOnItems();

/// What it may have for conversations: two templates, two special tokens, all sampling defaults.
moert::Chat tinyChat();
moert::SamplingDefaults tinySampling();

/// The file of an artifact: every section filled with a pattern, checksums set in `artifact`. Does
/// not validate, so that broken artifacts become files too.
std::vector<std::byte> fileOf(moert::Artifact &artifact);

/// Recomputes the checksums of the first page and the manifest after a change to a file's bytes, so
/// that the rules checked after them are reached.
void repairChecksums(std::vector<std::byte> &file);

/// A program's first instruction of a type.
template <typename T> T &firstOf(moert::Program &program) {
  for (moert::Instruction &instruction : program.instructions)
    if (T *found = std::get_if<T>(&instruction))
      return *found;
  throw std::string("the program has no such instruction");
}
