#include "compiler/import/architectures/LlamaDecoder.h"

#include "compiler/import/JsonScan.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// Bounds the size of a description; the largest published model has 15,000.
constexpr uint64_t kMaxTotalExperts = 1 << 17;

Result<moert::GluActivation> readActivation(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const std::string name, config.string("hidden_act"));
  if (name == "silu" || name == "swish") // Two names for the same function.
    return moert::GluActivation();
  return config.mismatch("hidden_act", "\"silu\" or \"swish\", the supported activations");
}

Status readHeads(const ConfigObject &config, DecoderConfig &decoder) {
  MOERT_ASSIGN_OR_RETURN(decoder.heads, config.integer("num_attention_heads", 1, kMaxHeads));
  decoder.kvHeads = decoder.heads;
  if (config.has("num_key_value_heads")) {
    MOERT_ASSIGN_OR_RETURN(decoder.kvHeads, config.integer("num_key_value_heads", 1, kMaxHeads));
  }
  if (decoder.heads % decoder.kvHeads != 0)
    return config.mismatch("num_key_value_heads",
                           strCat("a divisor of num_attention_heads, ", decoder.heads));
  if (config.has("head_dim")) {
    MOERT_ASSIGN_OR_RETURN(decoder.headDim, config.integer("head_dim", 2, kMaxHeadDim));
  } else if (decoder.hiddenSize % decoder.heads == 0) {
    decoder.headDim = decoder.hiddenSize / decoder.heads;
  } else {
    return config.mismatch(
        "num_attention_heads",
        strCat("a divisor of hidden_size, ", decoder.hiddenSize, ", as there is no head_dim"));
  }
  if (decoder.headDim % 2 != 0 || decoder.headDim > kMaxHeadDim)
    return config.mismatch("head_dim", strCat("an even width of a head up to ", kMaxHeadDim,
                                              "; it is ", decoder.headDim));
  MOERT_ASSIGN_OR_RETURN(decoder.inputBiases, config.boolean("attention_bias"));
  decoder.outputBias = decoder.inputBiases;
  return Status();
}

AttentionDescription describeAttention(const DecoderConfig &decoder, const std::string &prefix) {
  const uint32_t queries = decoder.heads * decoder.headDim;
  const uint32_t keys = decoder.kvHeads * decoder.headDim;
  AttentionDescription attention;
  attention.heads = decoder.heads;
  attention.kvHeads = decoder.kvHeads;
  attention.headDim = attention.valueHeadDim = decoder.headDim;
  // Division and square root are correctly rounded on every machine.
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(decoder.headDim)));
  attention.query = linearLayer(prefix + "q_proj.", queries, decoder.hiddenSize);
  attention.key = linearLayer(prefix + "k_proj.", keys, decoder.hiddenSize);
  attention.value = linearLayer(prefix + "v_proj.", keys, decoder.hiddenSize);
  attention.output = linearLayer(prefix + "o_proj.", decoder.hiddenSize, queries);
  if (decoder.inputBiases) {
    addBias(attention.query, prefix + "q_proj.");
    addBias(attention.key, prefix + "k_proj.");
    addBias(attention.value, prefix + "v_proj.");
  }
  if (decoder.outputBias)
    addBias(attention.output, prefix + "o_proj.");
  attention.rope = 0;
  return attention;
}

Status describeLayers(const DecoderConfig &decoder, const FillLayer &fillLayer,
                      const ConfigObject &config, ModelDescription &model) {
  uint64_t experts = 0;
  for (uint32_t layer = 0; layer < decoder.layerCount; ++layer) {
    const std::string prefix = strCat(decoder.prefix, "layers.", layer, ".");
    LayerDescription &description = model.layers.emplace_back();
    description.attentionNorm =
        rmsNorm(decoder, prefix + "input_layernorm.weight", decoder.hiddenSize);
    description.attention = describeAttention(decoder, prefix + "self_attn.");
    description.networkNorm =
        rmsNorm(decoder, prefix + "post_attention_layernorm.weight", decoder.hiddenSize);
    MOERT_RETURN_IF_ERROR(fillLayer(layer, prefix, description));
    experts += description.moe ? description.moe->experts.size() : 0;
    if (experts > kMaxTotalExperts)
      return config.mismatch("num_hidden_layers", strCat("at most ", kMaxTotalExperts,
                                                         " experts in all layers together"));
  }
  if (experts == 0)
    return config.mismatch("num_hidden_layers", "at least one layer with routed experts");
  return Status();
}

} // namespace

Status readSpecialTokens(const ArchitectureInput &input, ModelDescription &model) {
  const uint32_t last = model.vocabularySize - 1;
  const auto holderOf = [&](std::string_view key, bool isGenerationFirst) -> const ConfigObject & {
    const bool generates = input.generationConfig && input.generationConfig->has(key);
    const bool isGiven = input.config.isGiven(key) && input.config.has(key);
    return generates && (isGenerationFirst || !isGiven) ? *input.generationConfig : input.config;
  };
  const auto isAbsent = [&](const ConfigObject &holder, std::string_view key) {
    return &holder == &input.config && !holder.isGiven(key) &&
           !holder.integerOrList(key, 0, last).isOk();
  };
  const ConfigObject &endHolder = holderOf("eos_token_id", true);
  if (!isAbsent(endHolder, "eos_token_id")) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> ends,
                           endHolder.integerOrList("eos_token_id", 0, last));
    model.eosTokens.assign(ends.begin(), ends.end());
  }
  const Result<std::vector<uint32_t>> others = input.config.integerOrList("eos_token_id", 0, last);
  if (&endHolder != &input.config && input.config.isGiven("eos_token_id") && others.isOk()) {
    for (const uint32_t end : *others)
      if (const auto token = static_cast<int32_t>(end);
          std::find(model.eosTokens.begin(), model.eosTokens.end(), token) == model.eosTokens.end())
        model.eosTokens.push_back(token);
  }
  const ConfigObject &beginHolder = holderOf("bos_token_id", false);
  if (!beginHolder.has("bos_token_id") || isAbsent(beginHolder, "bos_token_id"))
    return Status();
  MOERT_ASSIGN_OR_RETURN(const uint32_t begin, beginHolder.integer("bos_token_id", 0, last));
  model.bosToken = static_cast<int32_t>(begin);
  return Status();
}

Status describeHead(const ArchitectureInput &input, const DecoderConfig &decoder,
                    ModelDescription &model) {
  model.head =
      linearLayer(decoder.headPrefix + "lm_head.", decoder.vocabularySize, decoder.hiddenSize);
  if (!decoder.tiedHead)
    return Status();
  const std::string &embedding = model.embedding.tensor, &head = model.head.weight.tensor;
  model.tiedHead = true;
  if (input.hasTensor(head) && !input.hasTensor(embedding)) {
    model.embedding = model.head.weight;
    return Status();
  }
  if (input.hasTensor(head)) {
    MOERT_ASSIGN_OR_RETURN(model.tiedHead, input.areEqual(model.embedding, model.head.weight));
    if (model.tiedHead)
      model.otherParts = {head};
  }
  if (model.tiedHead)
    model.head.weight = model.embedding;
  else if (input.warn)
    input.warn(strCat("warning: ", input.config.fileName(),
                      ": tie_word_embeddings is true, but the checkpoint holds ", quoted(head),
                      " and ", quoted(embedding),
                      ", which differ: the head is not tied, as in transformers 5"));
  return Status();
}

Status checkDataTypes(const ConfigObject &config) {
  for (const std::string_view key : {"torch_dtype", "dtype"}) {
    if (!config.has(key))
      continue;
    MOERT_ASSIGN_OR_RETURN(const std::string type, config.string(key));
    constexpr std::array<std::string_view, 3> kKnown = {"bfloat16", "float16", "float32"};
    if (std::find(kKnown.begin(), kKnown.end(), type) == kKnown.end())
      return config.mismatch(key, "bfloat16, float16 or float32");
  }
  return Status();
}

NormDescription rmsNorm(const DecoderConfig &decoder, std::string tensor, uint32_t width) {
  NormDescription norm;
  norm.epsilon = decoder.epsilon;
  norm.weight = vectorSource(std::move(tensor), width);
  norm.weight.addsOne = decoder.normsAddOne;
  return norm;
}

NormDescription layerNorm(const std::string &module, uint32_t width, float epsilon) {
  return {NormKind::kLayer, epsilon, vectorSource(module + "weight", width),
          vectorSource(module + "bias", width)};
}

void addHeadNorms(const DecoderConfig &decoder, const std::string &query, const std::string &key,
                  NormExtent extent, AttentionDescription &attention) {
  const bool isPerHead = extent == NormExtent::kHead;
  attention.queryNorm = rmsNorm(decoder, query + ".weight",
                                isPerHead ? decoder.headDim : attention.query.weight.rows);
  attention.keyNorm =
      rmsNorm(decoder, key + ".weight", isPerHead ? decoder.headDim : attention.key.weight.rows);
}

WeightSource matrixSource(std::string tensor, uint32_t rows, uint32_t cols) {
  WeightSource source;
  source.tensor = std::move(tensor);
  source.rows = rows;
  source.cols = cols;
  return source;
}

WeightSource vectorSource(std::string tensor, uint32_t size) {
  return matrixSource(std::move(tensor), 1, size);
}

LinearDescription linearLayer(const std::string &prefix, uint32_t outputs, uint32_t inputs) {
  return {matrixSource(prefix + "weight", outputs, inputs), std::nullopt};
}

void addBias(LinearDescription &linear, const std::string &prefix) {
  linear.bias = vectorSource(prefix + "bias", linear.weight.rows);
}

GluDescription gluNetwork(const std::string &prefix, const GluKind &kind) {
  GluDescription network;
  network.activation = kind.activation;
  if (network.hasGate())
    network.gate = linearLayer(strCat(prefix, kind.names.gate, "."), kind.width, kind.hidden);
  network.up = linearLayer(strCat(prefix, kind.names.up, "."), kind.width, kind.hidden);
  network.down = linearLayer(strCat(prefix, kind.names.down, "."), kind.hidden, kind.width);
  return network;
}

std::vector<GluDescription> fusedExperts(const std::string &gateUp, const std::string &down,
                                         const GluKind &kind, uint32_t count) {
  std::vector<GluDescription> experts(count);
  for (uint32_t expert = 0; expert < count; ++expert) {
    GluDescription &network = experts[expert];
    network.activation = kind.activation;
    network.up.weight = matrixSource(gateUp, kind.width, kind.hidden);
    if (network.hasGate()) {
      network.gate.weight = network.up.weight;
      network.up.weight.firstRow = kind.width;
    }
    network.down.weight = matrixSource(down, kind.hidden, kind.width);
    for (LinearDescription *linear : {&network.gate, &network.up, &network.down})
      if (!linear->weight.tensor.empty())
        linear->weight.index = expert;
  }
  return experts;
}

Result<std::vector<GluDescription>> describeExperts(const ArchitectureInput &input,
                                                    const std::string &prefix, const GluKind &kind,
                                                    uint32_t count) {
  const bool hasGate = moert::hasGate(kind.activation.kind);
  const std::string fusedGateUp = prefix + (hasGate ? "gate_up_proj" : "up_proj"),
                    fusedDown = prefix + "down_proj";
  const bool isFused = input.hasTensor(fusedGateUp);
  if (isFused && input.hasTensor(strCat(prefix, "0.", kind.names.up, ".weight")))
    return invalidInput(
        "found tensor ", quoted(fusedGateUp),
        " as well as tensors of single experts, expected only one of the two layouts");
  if (isFused)
    return fusedExperts(fusedGateUp, fusedDown, kind, count);
  std::vector<GluDescription> experts;
  for (uint32_t expert = 0; expert < count; ++expert)
    experts.push_back(gluNetwork(strCat(prefix, expert, "."), kind));
  return experts;
}

Result<uint32_t> readTopK(const ConfigObject &config, std::string_view key, uint32_t experts,
                          std::string_view expertsKey) {
  const Result<uint32_t> topK = config.integer(key, 1, experts);
  if (topK.isOk())
    return topK;
  return config.mismatch(key, strCat("an integer from 1 to ", experts, ", at most ", expertsKey));
}

Result<std::vector<std::string>> readLayerTypes(const ConfigObject &config, uint32_t layers,
                                                std::initializer_list<std::string_view> known,
                                                std::string_view key) {
  std::vector<std::string> types;
  if (!config.has(key))
    return types;
  MOERT_ASSIGN_OR_RETURN(types, config.strings(key));
  if (types.size() != layers)
    return config.mismatch(key, strCat("one entry for each of ", layers, " layers"));
  for (const std::string &type : types) {
    if (std::find(known.begin(), known.end(), type) != known.end())
      continue;
    std::string text;
    for (const std::string_view name : known)
      text += strCat(text.empty() ? "" : " or ", name);
    return config.mismatch(key, text);
  }
  return types;
}

Result<uint32_t> sharedWidth(const ConfigObject &config, std::string_view key, uint32_t count,
                             uint32_t width) {
  if (uint64_t{count} * width > kMaxWidth)
    return config.mismatch(key, strCat("at most ", kMaxWidth / width));
  return count * width;
}

RouterDescription softmaxRouter(const DecoderConfig &decoder, const RoutedConfig &routed,
                                const std::string &prefix) {
  RouterDescription router;
  router.linear = linearLayer(prefix, routed.experts, decoder.hiddenSize);
  router.topK = routed.topK;
  router.renormalize = routed.renormalize;
  return router;
}

Result<MoeDescription> routedNetwork(const ArchitectureInput &input, const DecoderConfig &decoder,
                                     const RoutedConfig &routed, const std::string &module,
                                     const GluNames &names) {
  MoeDescription moe;
  moe.router = softmaxRouter(decoder, routed, module + "gate.");
  const GluKind kind = {names, decoder.hiddenSize, routed.width, decoder.activation};
  MOERT_ASSIGN_OR_RETURN(moe.experts,
                         describeExperts(input, module + "experts.", kind, routed.experts));
  return moe;
}

Result<std::vector<bool>> readRoutedLayers(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t step,
                         config.integer("decoder_sparse_step", 1, kMaxLayerNumber));
  std::vector<bool> isRouted(layers);
  for (uint32_t layer = 0; layer < layers; ++layer)
    isRouted[layer] = (layer + 1) % step == 0;
  if (!config.has("mlp_only_layers"))
    return isRouted;
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> dense,
                         config.integers("mlp_only_layers", 0, kMaxLayerNumber));
  for (const uint32_t layer : dense)
    if (layer < layers)
      isRouted[layer] = false;
  return isRouted;
}

Result<float> readMultiplier(const ConfigObject &config, std::string_view key) {
  MOERT_ASSIGN_OR_RETURN(const double value, config.real(key, kLeastMultiplier, kMostMultiplier));
  return static_cast<float>(value);
}

Status setPartialRotation(const ConfigObject &config, DecoderConfig &decoder,
                          std::optional<double> fallback) {
  MOERT_ASSIGN_OR_RETURN(const double factor, readPartialRotaryFactor(config, fallback));
  decoder.rope.isPartial = true;
  decoder.rope.dim = static_cast<uint32_t>(decoder.headDim * factor); // As the reference rounds.
  if (decoder.rope.dim < 2 || decoder.rope.dim % 2 != 0)
    return config.mismatch("partial_rotary_factor",
                           strCat("a factor that rotates an even number of the ", decoder.headDim,
                                  " elements of a head"));
  return Status();
}

Result<DecoderConfig> readDecoderConfig(const ConfigObject &config, std::string_view epsilonKey) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderWithoutHeads(config, epsilonKey));
  MOERT_RETURN_IF_ERROR(readHeads(config, decoder));
  decoder.rope.dim = decoder.headDim;
  return decoder;
}

Result<DecoderConfig> readDecoderWithoutHeads(const ConfigObject &config,
                                              std::string_view epsilonKey) {
  MOERT_RETURN_IF_ERROR(checkDataTypes(config));
  DecoderConfig decoder;
  MOERT_ASSIGN_OR_RETURN(decoder.activation, readActivation(config));
  MOERT_ASSIGN_OR_RETURN(decoder.vocabularySize, config.integer("vocab_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(decoder.hiddenSize, config.integer("hidden_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(decoder.layerCount, config.integer("num_hidden_layers", 1, kMaxLayers));
  MOERT_ASSIGN_OR_RETURN(decoder.maxPositions,
                         config.integer("max_position_embeddings", 1, kMaxPositions));
  MOERT_ASSIGN_OR_RETURN(const double epsilon, config.real(epsilonKey, 0, 1));
  decoder.epsilon = static_cast<float>(epsilon);
  MOERT_ASSIGN_OR_RETURN(decoder.tiedHead, config.boolean("tie_word_embeddings"));
  return decoder;
}

Result<ModelDescription> describeDecoder(const ArchitectureInput &input,
                                         const DecoderConfig &decoder, const FillLayer &fillLayer) {
  ModelDescription model;
  model.vocabularySize = decoder.vocabularySize;
  model.hiddenSize = decoder.hiddenSize;
  model.maxPositions = decoder.maxPositions;
  model.embedding = matrixSource(decoder.prefix + decoder.embedding + ".weight",
                                 decoder.vocabularySize, decoder.hiddenSize);
  model.ropes = decoder.ropes;
  if (model.ropes.empty()) {
    MOERT_ASSIGN_OR_RETURN(RopeDescription rope, readRope(input.config, decoder.rope));
    model.ropes.push_back(std::move(rope));
  }
  MOERT_RETURN_IF_ERROR(readSpecialTokens(input, model));
  MOERT_RETURN_IF_ERROR(describeLayers(decoder, fillLayer, input.config, model));
  model.finalNorm = rmsNorm(decoder, decoder.prefix + "norm.weight", decoder.hiddenSize);
  MOERT_RETURN_IF_ERROR(describeHead(input, decoder, model));
  return model;
}

} // namespace moec
