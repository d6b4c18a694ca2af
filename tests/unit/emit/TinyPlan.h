// A checkpoint of random numbers on the disk and a plan to emit it, both with the tiny artifact's
// shapes.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// The tensors of a checkpoint, as f32: name to values.
using Tensors = std::map<std::string, std::vector<float>>;

/// A plan for the tiny artifact with experts of one slice each; every weight is a separate tensor,
/// named after its part ("layer1.expert2.down").
moec::EmitPlan tinyPlan();

Tensors randomTensors(const moec::EmitPlan &plan, uint32_t seed);

/// Writes config.json and model.safetensors.
void writeCheckpoint(const std::string &directory, const moec::EmitPlan &plan,
                     const Tensors &tensors);

std::string contentOf(const std::string &path);
