// Swin-MoE: a Swin transformer (Liu et al. 2021, arXiv 2103.14030) for images, in which some blocks
// have routed experts (Tutel, Hwang et al. 2022, arXiv 2206.03382). Four stages of blocks, between
// them four patches become one. A block's attention stays in windows, which in every other block
// begin half a window later, except where one window covers the grid. Config keys are those of the
// published yaml files. Reference: microsoft/Swin-Transformer, models/swin_transformer_moe.py;
// microsoft/tutel, gates/, impls/fast_dispatch.py.
#include "compiler/import/architectures/SwinMoe.h"

#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>
#include <cmath>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

constexpr auto kNone = KeyEffect::kNone;
constexpr auto kDefaultOnly = KeyEffect::kDefaultOnly;

/// The first two have all keys of the model; those of text models mean nothing here.
constexpr ConfigKey kRows[] = {
    {"DATA", "object", "{}"},
    {"MODEL", "object", "{}"},
    {"dtype", "any", "null", kNone},
    {"torch_dtype", "any", "null", kNone},
    {"hidden_act", "any", "null", kNone},
    {"rope_parameters", "any", "null", kNone},
    {"rope_scaling", "any", "null", kNone},
    {"rope_theta", "any", "null", kNone},
    {"partial_rotary_factor", "any", "null", kNone},
    {"original_max_position_embeddings", "any", "null", kNone},
};
const ConfigKeys kSwinMoeKeys = kRows;

namespace {

constexpr ConfigKey kDataRows[] = {{"IMG_SIZE", "int", "224"}};
constexpr ConfigKey kModelRows[] = {{"NUM_CLASSES", "int", "1000"}, {"SWIN_MOE", "object", "{}"}};
constexpr ConfigKey kSwinRows[] = {
    {"PATCH_SIZE", "int", "4"},
    {"IN_CHANS", "int", "3"},
    {"EMBED_DIM", "int", "96"},
    {"DEPTHS", "list", "[2, 2, 6, 2]"},
    {"NUM_HEADS", "list", "[3, 6, 12, 24]"},
    {"WINDOW_SIZE", "int", "7"},
    {"MLP_RATIO", "real", "4.0"},
    {"QKV_BIAS", "flag", "true"},
    {"QK_SCALE", "real?", "null"},
    {"APE", "flag", "false", kDefaultOnly},
    {"PATCH_NORM", "flag", "true"},
    {"MLP_FC2_BIAS", "flag", "true"},
    {"INIT_STD", "any", "0.02", kNone},
    {"PRETRAINED_WINDOW_SIZES", "any", "0", kDefaultOnly}, // 0 in every stage.
    {"MOE_BLOCKS", "list", "[[-1], [-1], [-1], [-1]]"},
    {"NUM_LOCAL_EXPERTS", "int", "1"},
    {"TOP_VALUE", "int", "1"},
    {"CAPACITY_FACTOR", "real", "1.25"},
    {"COSINE_ROUTER", "flag", "false"},
    {"NORMALIZE_GATE", "flag", "false"},
    {"USE_BPR", "flag", "true"},
    {"IS_GSHARD_LOSS", "any", "false", kNone},
    {"GATE_NOISE", "any", "1.0", kNone},
    {"COSINE_ROUTER_DIM", "int", "256"},
    {"COSINE_ROUTER_INIT_T", "any", "0.5", kNone},
    {"MOE_DROP", "any", "0.0", kNone},
    {"AUX_LOSS_WEIGHT", "any", "0.01", kNone},
};

constexpr uint32_t kMaxSide = 4096, kMaxStages = 16;
/// The most images of a batch.
constexpr uint32_t kMaxImages = 1 << 20;
constexpr float kEpsilon = 1e-5f;

struct SwinObjects {
  ConfigObject data, model, swin;
};

Result<ConfigObject> nested(const ConfigObject &config, std::string_view key,
                            const ConfigTable &table) {
  MOERT_ASSIGN_OR_RETURN(const ConfigObject object, config.object(key));
  return object.withTable(table);
}

Result<SwinObjects> readObjects(const ConfigObject &config) {
  // The objects refer to them.
  static const ConfigTable kDataTable(kDataRows), kModelTable(kModelRows), kSwinTable(kSwinRows);
  MOERT_ASSIGN_OR_RETURN(ConfigObject data, nested(config, "DATA", kDataTable));
  MOERT_ASSIGN_OR_RETURN(ConfigObject model, nested(config, "MODEL", kModelTable));
  MOERT_ASSIGN_OR_RETURN(ConfigObject swin, nested(model, "SWIN_MOE", kSwinTable));
  return SwinObjects{std::move(data), std::move(model), std::move(swin)};
}

struct SwinConfig {
  uint32_t side = 0, patch = 0, channels = 0, classes = 0, width = 0;
  std::vector<SwinStage> stages;
  std::vector<uint32_t> depths, heads;
  std::vector<std::vector<double>> routed; // The blocks with experts, by stage.
  double ratio = 0;                        // A network's width relative to its input's.
  std::optional<double> scale;             // Factor on scores; absent: the head's width ^ -0.5.
  bool hasInputBias = false, hasPatchNorm = false, hasOutputBias = false, isCosine = false;
  RouterDescription router;
  std::optional<CapacityDescription> capacity; // Absent: experts take all tokens.
  uint32_t routerWidth = 0, experts = 0;       // Experts of a config without weights.
};

Status readRouter(const ConfigObject &swin, SwinConfig &config) {
  MOERT_ASSIGN_OR_RETURN(config.experts, swin.integer("NUM_LOCAL_EXPERTS", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(config.router.topK, swin.integer("TOP_VALUE", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(config.isCosine, swin.boolean("COSINE_ROUTER"));
  MOERT_ASSIGN_OR_RETURN(config.routerWidth, swin.integer("COSINE_ROUTER_DIM", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(const bool normalizes, swin.boolean("NORMALIZE_GATE"));
  MOERT_ASSIGN_OR_RETURN(const bool byPriority, swin.boolean("USE_BPR"));
  MOERT_ASSIGN_OR_RETURN(const double factor, swin.real("CAPACITY_FACTOR", -1e6, 1e6));
  const bool divides = normalizes && config.router.topK > 1; // As the reference does.
  config.router.renormalize = divides && factor == 0;
  if (factor == 0) // All tokens are taken.
    return {};
  moert::CapacityRule &rule = config.capacity.emplace().rule;
  rule.kind = moert::CapacityKind::kEvenSplit;
  rule.capacity = static_cast<float>(std::abs(factor));
  rule.byPriority = byPriority;
  rule.normalizesBefore = divides;
  return {};
}

Status readBlocks(const ConfigObject &swin, SwinConfig &config) {
  MOERT_ASSIGN_OR_RETURN(config.depths, swin.integers("DEPTHS", 1, kMaxLayers));
  MOERT_ASSIGN_OR_RETURN(config.heads, swin.integers("NUM_HEADS", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(config.routed, swin.realLists("MOE_BLOCKS", -1, kMaxLayers));
  const size_t stages = config.stages.size();
  if (config.heads.size() != stages)
    return swin.mismatch("NUM_HEADS", strCat("one entry for each of ", stages, " stages"));
  if (config.routed.size() != stages)
    return swin.mismatch("MOE_BLOCKS", strCat("one list for each of ", stages, " stages"));
  if (config.width > kMaxWidth >> stages)
    return swin.mismatch("EMBED_DIM", strCat("at most ", kMaxWidth >> stages));
  for (size_t stage = 0; stage < stages; ++stage)
    if ((config.width << stage) % config.heads[stage] != 0)
      return swin.mismatch("NUM_HEADS", strCat("a divisor of the width ", config.width << stage,
                                               " of stage ", stage));
  return {};
}

Result<SwinConfig> readSwin(const ConfigObject &root) {
  MOERT_ASSIGN_OR_RETURN(const SwinObjects objects, readObjects(root));
  const ConfigObject &swin = objects.swin;
  SwinConfig config;
  MOERT_ASSIGN_OR_RETURN(config.stages, readSwinStages(root));
  MOERT_ASSIGN_OR_RETURN(config.side, objects.data.integer("IMG_SIZE", 1, kMaxSide));
  MOERT_ASSIGN_OR_RETURN(config.classes, objects.model.integer("NUM_CLASSES", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(config.patch, swin.integer("PATCH_SIZE", 1, kMaxSide));
  MOERT_ASSIGN_OR_RETURN(config.channels, swin.integer("IN_CHANS", 1, kMaxSide));
  MOERT_ASSIGN_OR_RETURN(config.width, swin.integer("EMBED_DIM", 1, kMaxWidth));
  MOERT_RETURN_IF_ERROR(readBlocks(swin, config));
  MOERT_ASSIGN_OR_RETURN(config.ratio, swin.real("MLP_RATIO", 0.01, 64));
  if (swin.has("QK_SCALE")) {
    MOERT_ASSIGN_OR_RETURN(config.scale, swin.real("QK_SCALE", kLeastMultiplier, kMostMultiplier));
  }
  MOERT_ASSIGN_OR_RETURN(config.hasInputBias, swin.boolean("QKV_BIAS"));
  MOERT_ASSIGN_OR_RETURN(config.hasPatchNorm, swin.boolean("PATCH_NORM"));
  MOERT_ASSIGN_OR_RETURN(config.hasOutputBias, swin.boolean("MLP_FC2_BIAS"));
  MOERT_RETURN_IF_ERROR(readRouter(swin, config));
  return config;
}

LinearDescription biasedLinear(const std::string &prefix, uint32_t outputs, uint32_t inputs) {
  LinearDescription linear = linearLayer(prefix, outputs, inputs);
  addBias(linear, prefix);
  return linear;
}

NormDescription layerNorm(const std::string &prefix, uint32_t width) {
  return {NormKind::kLayer, kEpsilon, vectorSource(prefix + "weight", width),
          vectorSource(prefix + "bias", width)};
}

/// One block of a stage.
struct Block {
  const SwinConfig &config;
  size_t stage;
  uint32_t number; // In its stage.
  std::string prefix;

  uint32_t width() const { return config.width << stage; }
  uint32_t networkWidth() const { return static_cast<uint32_t>(width() * config.ratio); }
};

WindowAttentionDescription describeAttention(const Block &block) {
  const std::string prefix = block.prefix + "attn.";
  const SwinStage &stage = block.config.stages[block.stage];
  const uint32_t width = block.width(), span = 2 * stage.window - 1;
  WindowAttentionDescription attention;
  attention.heads = block.config.heads[block.stage];
  const uint32_t headDim = width / attention.heads;
  attention.side = stage.side;
  attention.window = stage.window;
  attention.shift = stage.shifts && block.number % 2 == 1 ? stage.window / 2 : 0;
  // Division and square root are correctly rounded on every machine.
  attention.scale =
      static_cast<float>(block.config.scale.value_or(1 / std::sqrt(static_cast<double>(headDim))));
  uint32_t firstRow = 0;
  for (LinearDescription *linear : {&attention.query, &attention.key, &attention.value}) {
    *linear = linearLayer(prefix + "qkv.", width, width);
    linear->weight.firstRow = firstRow;
    if (block.config.hasInputBias) {
      addBias(*linear, prefix + "qkv.");
      linear->bias->cols = width;
      linear->bias->firstRow = firstRow;
    }
    firstRow += width;
  }
  attention.output = biasedLinear(prefix + "proj.", width, width);
  attention.bias = vectorSource(prefix + "position_bias", attention.heads * span * span);
  return attention;
}

/// Sets the router's matrices; returns the number of its experts.
Result<uint32_t> describeRouter(const ArchitectureInput &input, const Block &block,
                                RouterDescription &router) {
  const std::string prefix = block.prefix + "mlp._moe_layer.gates.0.";
  const uint32_t inputs = block.config.isCosine ? block.config.routerWidth : block.width();
  const std::string name = prefix + (block.config.isCosine ? "directions" : "wg.weight");
  uint32_t experts = block.config.experts;
  if (input.shapeOf && input.hasTensor(name)) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, input.shapeOf(name));
    experts = static_cast<uint32_t>(std::min<uint64_t>(shape.empty() ? 0 : shape[0], kMaxExperts));
  }
  router = block.config.router;
  router.linear.weight = matrixSource(name, experts, inputs);
  if (block.config.isCosine)
    router.projection = biasedLinear(prefix + "cosine_projector.", inputs, block.width());
  return experts;
}

Result<MoeDescription> describeExperts(const ArchitectureInput &input, const Block &block) {
  const std::string prefix = block.prefix + "mlp._moe_layer.experts.batched_";
  const uint32_t width = block.width(), hidden = block.networkWidth();
  MoeDescription moe;
  MOERT_ASSIGN_OR_RETURN(const uint32_t experts, describeRouter(input, block, moe.router));
  moe.capacity = block.config.capacity;
  if (experts < moe.router.topK)
    return moert::invalidInput(input.config.fileName(), ": key 'MODEL.SWIN_MOE.TOP_VALUE': found ",
                               moe.router.topK, ", expected at most the ", experts,
                               " experts of the router ", block.prefix);
  for (uint32_t expert = 0; expert < experts; ++expert) {
    GluDescription &network = moe.experts.emplace_back();
    network.activation.kind = moert::Activation::kGelu;
    network.up.weight = matrixSource(prefix + "fc1_w", hidden, width);
    network.down.weight = matrixSource(prefix + "fc2_w", width, hidden);
    network.down.weight.transposed = true;
    network.up.weight.index = network.down.weight.index = expert;
  }
  moe.upBias = vectorSource(prefix + "fc1_bias", experts * hidden);
  moe.downBias = vectorSource(prefix + "fc2_bias", experts * width);
  moe.upBias->stackedVectors = moe.downBias->stackedVectors = experts;
  return moe;
}

GluDescription describeNetwork(const Block &block) {
  const uint32_t width = block.width(), hidden = block.networkWidth();
  GluDescription network;
  network.activation.kind = moert::Activation::kGelu;
  network.up = biasedLinear(block.prefix + "mlp.fc1.", hidden, width);
  network.down = linearLayer(block.prefix + "mlp.fc2.", width, hidden);
  if (block.config.hasOutputBias)
    addBias(network.down, block.prefix + "mlp.fc2.");
  return network;
}

Result<LayerDescription> describeBlock(const ArchitectureInput &input, const Block &block) {
  LayerDescription layer;
  layer.attentionNorm = layerNorm(block.prefix + "norm1.", block.width());
  layer.windowAttention = describeAttention(block);
  layer.networkNorm = layerNorm(block.prefix + "norm2.", block.width());
  const std::vector<double> &routed = block.config.routed[block.stage];
  if (std::find(routed.begin(), routed.end(), block.number) == routed.end()) {
    layer.dense = describeNetwork(block);
    return layer;
  }
  MOERT_ASSIGN_OR_RETURN(layer.moe, describeExperts(input, block));
  return layer;
}

MergeDescription describeMerge(const SwinConfig &config, size_t stage, const std::string &prefix) {
  const uint32_t width = config.width << stage;
  return {config.stages[stage].side, layerNorm(prefix + "norm.", 4 * width),
          linearLayer(prefix + "reduction.", 2 * width, 4 * width)};
}

/// What the reference stores and computes again.
void addOtherParts(const std::string &block, ModelDescription &model) {
  for (const char *name : {"attn.relative_coords_table", "attn.relative_position_index",
                           "attn_mask", "mlp._moe_layer._num_global_experts"})
    model.otherParts.push_back(block + name);
}

Status describeStages(const ArchitectureInput &input, const SwinConfig &config,
                      ModelDescription &model) {
  for (size_t stage = 0; stage < config.stages.size(); ++stage) {
    const std::string prefix = strCat("layers.", stage, ".");
    for (uint32_t number = 0; number < config.depths[stage]; ++number) {
      const Block block = {config, stage, number, strCat(prefix, "blocks.", number, ".")};
      MOERT_ASSIGN_OR_RETURN(model.layers.emplace_back(), describeBlock(input, block));
      addOtherParts(block.prefix, model);
    }
    if (stage + 1 < config.stages.size())
      model.layers.back().merge = describeMerge(config, stage, prefix + "downsample.");
  }
  if (std::none_of(model.layers.begin(), model.layers.end(),
                   [](const LayerDescription &layer) { return layer.moe.has_value(); }))
    return moert::invalidInput(input.config.fileName(),
                               ": key 'MODEL.SWIN_MOE.MOE_BLOCKS': found no block that exists, "
                               "expected at least one block with experts");
  return {};
}

} // namespace

Result<std::vector<SwinStage>> readSwinStages(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const SwinObjects objects, readObjects(config));
  const ConfigObject &swin = objects.swin;
  MOERT_ASSIGN_OR_RETURN(const uint32_t pixels, objects.data.integer("IMG_SIZE", 1, kMaxSide));
  MOERT_ASSIGN_OR_RETURN(const uint32_t patch, swin.integer("PATCH_SIZE", 1, kMaxSide));
  MOERT_ASSIGN_OR_RETURN(const uint32_t window, swin.integer("WINDOW_SIZE", 2, kMaxSide));
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> depths,
                         swin.integers("DEPTHS", 1, kMaxLayers));
  if (depths.empty() || depths.size() > kMaxStages)
    return swin.mismatch("DEPTHS", strCat("1 to ", kMaxStages, " stages"));
  const uint32_t divisor = patch << (depths.size() - 1);
  if (pixels % divisor != 0)
    return objects.data.mismatch("IMG_SIZE",
                                 strCat("a multiple of ", divisor, ": patches of ", patch,
                                        " pixels, merged ", depths.size() - 1, " times"));
  std::vector<SwinStage> stages;
  for (uint32_t side = pixels / patch; stages.size() < depths.size(); side /= 2) {
    const uint32_t own = std::min(window, side);
    if (side % own != 0 || own < 2)
      return swin.mismatch("WINDOW_SIZE",
                           strCat("a divisor of the grid of ", side, " x ", side, " of stage ",
                                  stages.size(), ", which has at least 2 x 2 patches"));
    stages.push_back({side, own, side > window});
  }
  return stages;
}

Result<ModelDescription> describeSwinMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const SwinConfig config, readSwin(input.config));
  ModelDescription model;
  model.vocabularySize = config.classes;
  model.hiddenSize = config.width << (config.stages.size() - 1);
  model.maxPositions = kMaxImages;
  PatchesDescription &patches = model.patches.emplace();
  patches.channels = config.channels;
  patches.side = config.side;
  patches.patch = config.patch;
  patches.linear = biasedLinear("patch_embed.proj.", config.width,
                                config.channels * config.patch * config.patch);
  if (config.hasPatchNorm)
    patches.norm = layerNorm("patch_embed.norm.", config.width);
  MOERT_RETURN_IF_ERROR(describeStages(input, config, model));
  model.finalNorm = layerNorm("norm.", model.hiddenSize);
  model.head = biasedLinear("head.", model.vocabularySize, model.hiddenSize);
  return model;
}

} // namespace moec
