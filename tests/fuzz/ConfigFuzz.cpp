// A config.json from a stranger, through to the description of the model, with and without fused
// experts, and to the codec of its weights. The same text serves as generation_config.json.
#include "compiler/import/Architecture.h"
#include "compiler/import/codecs/Codec.h"

#include <cmath>
#include <cstdlib>

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

void checkAttention(const moec::ModelDescription &model,
                    const moec::AttentionDescription &attention) {
  require(attention.kvHeads > 0 && attention.heads % attention.kvHeads == 0);
  require(attention.query.weight.rows == attention.heads * attention.headDim);
  require(!attention.sinks || attention.sinks->cols == attention.heads);
  if (!attention.rope)
    return;
  require(*attention.rope < model.ropes.size());
  require(model.ropes[*attention.rope].inverseFrequencies.size() * 2 <= attention.headDim);
}

void checkLatentAttention(const moec::LatentAttentionDescription &attention) {
  const uint32_t shared = attention.key.weight.rows, rank = attention.latent.weight.rows;
  require(attention.heads > 0 && shared > 0 && rank > 0);
  require(attention.query.weight.rows == attention.heads * (attention.keyUp.cols + shared));
  require(attention.keyUp.rows == attention.heads * rank && attention.valueUp.cols == rank);
  require(attention.queryDown.has_value() == attention.queryNorm.has_value());
  require(std::isfinite(attention.scale) && attention.scale > 0);
  if (!attention.indexer)
    return;
  const moec::IndexerDescription &indexer = *attention.indexer;
  require(indexer.heads > 0 && indexer.most > 0 && attention.queryDown.has_value());
  require(indexer.query.weight.rows == indexer.heads * indexer.key.weight.rows);
  require(indexer.weights.weight.rows == indexer.heads && !attention.sharesChoice);
}

void checkMoe(const moec::MoeDescription &moe) {
  require(moe.router.topK > 0 && moe.router.topK <= moe.experts.size());
  const moec::GluDescription &expert = moe.experts.front();
  const auto checkBias = [&](const std::optional<moec::WeightSource> &bias, uint32_t width) {
    require(!bias || (bias->rows == 1 && bias->cols == moe.experts.size() * uint64_t{width}));
  };
  checkBias(moe.gateBias, expert.gate.weight.rows);
  checkBias(moe.upBias, expert.up.weight.rows);
  checkBias(moe.downBias, expert.down.weight.rows);
  require(std::isfinite(expert.activation.alpha) && std::isfinite(expert.activation.limit));
}

void checkConvolved(const moec::ConvolvedDescription &convolved) {
  require(convolved.taps.rows == convolved.linear.weight.rows && convolved.taps.rows >= 16 &&
          convolved.taps.cols >= 2);
}

void checkDeltaNet(const moec::DeltaNetDescription &net) {
  require(net.keyHeads > 0 && net.heads > 0 && net.heads % net.keyHeads == 0);
  require(net.query.linear.weight.rows == net.key.linear.weight.rows);
  require(net.key.linear.weight.rows % net.keyHeads == 0);
  require(net.value.linear.weight.rows == net.heads * net.outputNorm.weight.cols);
  require(net.decay.weight.rows == net.decayBias.cols && net.logRate.cols == net.heads);
  require(net.decayBias.cols == net.heads ||
          net.decayBias.cols == net.heads * (net.key.linear.weight.rows / net.keyHeads));
  require(!net.decayBound || *net.decayBound < 0);
  for (const moec::ConvolvedDescription *convolved : {&net.query, &net.key, &net.value})
    checkConvolved(*convolved);
}

void checkStateSpace(const moec::StateSpaceDescription &space) {
  require(space.keyHeads > 0 && space.heads > 0 && space.heads % space.keyHeads == 0);
  require(space.query.linear.weight.rows == space.key.linear.weight.rows);
  require(space.key.linear.weight.rows % space.keyHeads == 0);
  require(space.value.linear.weight.rows % space.heads == 0);
  for (const moec::ConvolvedDescription *convolved : {&space.query, &space.key, &space.value})
    checkConvolved(*convolved);
}

void checkSelectiveScan(const moec::SelectiveScanDescription &scan) {
  require(scan.logRate.rows == scan.value.linear.weight.rows);
  require(scan.logRate.cols == scan.key.weight.rows &&
          scan.key.weight.rows == scan.query.weight.rows);
  checkConvolved(scan.value);
}

/// What the stages behind rely on in a description.
void checkDescription(const moec::ModelDescription &model) {
  require(model.vocabularySize > 0 && model.hiddenSize > 0 && !model.layers.empty());
  for (const int32_t token : model.eosTokens)
    require(token >= 0 && static_cast<uint32_t>(token) < model.vocabularySize);
  for (const moec::LayerDescription &layer : model.layers) {
    if (layer.latentAttention)
      checkLatentAttention(*layer.latentAttention);
    else if (layer.deltaNet)
      checkDeltaNet(*layer.deltaNet);
    else if (layer.shortConvolution)
      require(layer.shortConvolution->taps.rows == model.hiddenSize);
    else if (layer.stateSpace)
      checkStateSpace(*layer.stateSpace);
    else if (layer.selectiveScan)
      checkSelectiveScan(*layer.selectiveScan);
    else if (layer.hasMixer)
      checkAttention(model, layer.attention);
    require(!layer.dense || !layer.moe);
    require(layer.hasMixer || layer.dense || layer.moe);
    if (layer.moe)
      checkMoe(*layer.moe);
  }
  for (const float frequency : model.ropes[0].inverseFrequencies)
    require(std::isfinite(frequency));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  const moert::Result<moec::Config> config = moec::Config::parse("fuzz", text);
  if (!config.isOk())
    return 0;
  const auto codec = moec::readCodec(config->root());
  if (codec.isOk() && codec.value())
    require(!codec.value()->text().empty());
  const auto describe = [&](bool (*hasTensor)(std::string_view)) {
    const moert::Result<moec::ModelDescription> model =
        moec::describeModel({config->root(), config->root(), hasTensor});
    if (model.isOk())
      checkDescription(*model);
  };
  describe([](std::string_view) { return false; });
  describe([](std::string_view tensor) { return tensor.ends_with(".gate_up_proj"); });
  return 0;
}
