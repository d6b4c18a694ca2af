#include "compiler/import/ClassNames.h"

#include "compiler/import/TensorCheck.h"
#include "runtime/base/Status.h"

#include <array>

namespace moec {

namespace {

/// A part of a tensor's name.
struct Renaming {
  std::string_view modelType;
  std::string_view published, ofClass;
};

constexpr std::string_view kMixtralModule = ".block_sparse_moe.", kClassModule = ".mlp.";

/// Experts that are fused in two tensors are no renaming: describeExperts() reads both layouts.
constexpr std::array kRenamings = {
    Renaming{"ernie4_5_moe", ".mlp.moe_statics.", ".mlp.gate.moe_statics."},
    Renaming{"granitemoe", ".input_linear.weight", ".experts.gate_up_proj"},
    Renaming{"granitemoe", ".output_linear.weight", ".experts.down_proj"},
    Renaming{"granitemoe", ".router.layer.weight", ".router.weight"},
    Renaming{"laguna", ".mlp.experts.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"},
    Renaming{"laguna", ".mlp.shared_expert.", ".mlp.shared_experts."},
    Renaming{"minimax_m2", kMixtralModule, kClassModule},
    Renaming{"mixtral", kMixtralModule, kClassModule},
    Renaming{"phimoe", ".block_sparse_moe.gate.", ".mlp.router."},
    Renaming{"phimoe", kMixtralModule, kClassModule},
};

} // namespace

std::string storedName(std::string_view modelType, std::string_view name,
                       const std::function<bool(std::string_view)> &isStored) {
  if (isStored(name))
    return std::string(name);
  for (const Renaming &renaming : kRenamings) {
    const size_t position = name.find(renaming.published);
    if (renaming.modelType != modelType || position == std::string_view::npos)
      continue;
    std::string renamed = moert::strCat(name.substr(0, position), renaming.ofClass,
                                        name.substr(position + renaming.published.size()));
    if (isStored(renamed))
      return renamed;
  }
  return std::string(name);
}

void useStoredNames(ModelDescription &model,
                    const std::function<bool(std::string_view)> &isStored) {
  changeEachWeight(model, [&](WeightSource &source) {
    source.tensor = storedName(model.modelType, source.tensor, isStored);
  });
}

} // namespace moec
