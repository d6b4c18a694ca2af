"""DeepSeek-MoE and MiniCPM-MoE in float64, after the modeling files published beside their weights. Needs numpy.

transformers has no class for them. The interface is that of reference.py.
"""
import json
import math
import random
from pathlib import Path

import numpy

from . import weights
from .families import LAST_TOKEN, PROMPT
from .reference_case import MIN_GAP, MOST_TRIES, NotACase

# What the configuration classes have for an absent key.
DEEPSEEK_DEFAULTS = {"num_key_value_heads": 32, "n_shared_experts": None, "moe_layer_freq": 1, "first_k_dense_replace": 0,
                     "norm_topk_prob": False, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None,
                     "tie_word_embeddings": False, "scoring_func": "softmax", "max_position_embeddings": 2048,
                     "moe_intermediate_size": 1407, "attention_bias": False}
MINICPM_DEFAULTS = {"num_key_value_heads": None, "num_experts_per_tok": 2, "scale_emb": 1, "scale_depth": 1, "dim_model_base": 1,
                    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": True,
                    "max_position_embeddings": 2048}


def read(path):
    """The tensors of a safetensors file in float64."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = numpy.frombuffer(data[begin:end], {"F16": "<f2", "F32": "<f4"}[entry["dtype"]])
        tensors[name] = values.astype(numpy.float64).reshape(entry["shape"])
    return tensors


class Decoder:
    """One family's decoder over the tensors of a folder. `gap` is the smallest relative distance of a router's decision."""

    def __init__(self, config, tensors):
        self.config, self.tensors, self.gap = config, tensors, float("inf")
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"] or self.heads
        self.head_dim = config["hidden_size"] // self.heads

    def norm(self, x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * self.tensors[name + ".weight"]

    def linear(self, x, name):
        y = x @ self.tensors[name + ".weight"].T
        return y + self.tensors[name + ".bias"] if name + ".bias" in self.tensors else y

    def rotate(self, x):
        scaling = self.config["rope_scaling"]
        frequencies = self.config["rope_theta"] ** -(numpy.arange(0, self.head_dim, 2) / self.head_dim)
        if scaling:
            assert scaling["type"] == "linear"
            frequencies = frequencies / scaling["factor"]
        angles = numpy.arange(len(x))[:, None] * numpy.concatenate([frequencies, frequencies])
        halves = numpy.concatenate([-x[..., self.head_dim // 2:], x[..., :self.head_dim // 2]], -1)
        return x * numpy.cos(angles)[:, None] + halves * numpy.sin(angles)[:, None]

    def attention(self, x, prefix):
        count = len(x)
        query, key, value = (self.linear(x, f"{prefix}{name}_proj").reshape(count, -1, self.head_dim) for name in "qkv")
        group = self.heads // self.kv_heads
        query, key, value = self.rotate(query), self.rotate(key).repeat(group, 1), value.repeat(group, 1)
        scores = numpy.einsum("qhd,khd->hqk", query, key) / math.sqrt(self.head_dim)
        scores = numpy.where(numpy.tri(count, dtype=bool), scores, -numpy.inf)
        return self.linear(numpy.einsum("hqk,khd->qhd", softmax(scores), value).reshape(count, -1), prefix + "o_proj")

    def glu(self, x, prefix, names):
        gate, up, down = names
        hidden = self.linear(x, prefix + gate)
        return self.linear(hidden / (1 + numpy.exp(-hidden)) * self.linear(x, prefix + up), prefix + down)

    def experts(self, x, prefix, names, top_k, normalizes):
        scores = softmax(self.linear(x, prefix + "gate"))
        order = numpy.argsort(-scores, -1)
        if top_k < scores.shape[-1]:
            ordered = numpy.take_along_axis(scores, order, -1)
            self.gap = min(self.gap, (1 - ordered[:, top_k] / ordered[:, top_k - 1]).min())
        output = numpy.zeros_like(x)
        for token, chosen in enumerate(order[:, :top_k]):
            factors = scores[token, chosen]
            if normalizes:
                factors = factors / factors.sum()
            for expert, factor in zip(chosen, factors):
                output[token] += factor * self.glu(x[token:token + 1], f"{prefix}experts.{expert}.", names)[0]
        return output

    def logits(self, ids, network, embedding_scale=1.0, residual_scale=1.0, logits_scale=1.0):
        x = self.tensors["model.embed_tokens.weight"][ids] * embedding_scale
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            x = x + residual_scale * self.attention(self.norm(x, prefix + "input_layernorm"), prefix + "self_attn.")
            x = x + residual_scale * network(self.norm(x, prefix + "post_attention_layernorm"), layer, prefix + "mlp.")
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return self.linear(self.norm(x, "model.norm") * logits_scale, head)


def softmax(x):
    x = numpy.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


PROJECTIONS, MIXTRAL_NAMES = ("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2")


def is_routed(config, layer):
    return layer >= config["first_k_dense_replace"] and layer % config["moe_layer_freq"] == 0


def deepseek_logits(config, tensors, ids):
    decoder, top_k = Decoder(config, tensors), config["num_experts_per_tok"]

    def network(x, layer, prefix):
        if not is_routed(config, layer):
            return decoder.glu(x, prefix, PROJECTIONS)
        output = decoder.experts(x, prefix, PROJECTIONS, top_k, config["norm_topk_prob"] and top_k > 1)
        return output + decoder.glu(x, prefix + "shared_experts.", PROJECTIONS) if config["n_shared_experts"] else output

    return decoder.logits(ids, network), decoder.gap


def minicpm_logits(config, tensors, ids):
    decoder = Decoder(config, tensors)

    def network(x, _layer, prefix):
        return decoder.experts(x, prefix, MIXTRAL_NAMES, config["num_experts_per_tok"], True)

    logits = decoder.logits(ids, network, config["scale_emb"], config["scale_depth"] / math.sqrt(config["num_hidden_layers"]),
                            config["dim_model_base"] / config["hidden_size"])
    return logits, decoder.gap


def tensors_of(config, dtype):
    hidden, head_dim = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    keys = (config["num_key_value_heads"] or config["num_attention_heads"]) * head_dim
    tensors = []

    def matrix(name, rows, columns=None):
        tensors.append([name + ".weight", dtype, [rows] if columns is None else [rows, columns]])

    def glu(prefix, width, names=PROJECTIONS):
        matrix(prefix + names[0], width, hidden)
        matrix(prefix + names[1], width, hidden)
        matrix(prefix + names[2], hidden, width)

    matrix("model.embed_tokens", config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, rows in (("q", hidden), ("k", keys), ("v", keys), ("o", hidden)):
            matrix(f"{prefix}self_attn.{name}_proj", rows, hidden)
            if config.get("attention_bias"):
                tensors.append([f"{prefix}self_attn.{name}_proj.bias", dtype, [rows]])
        matrix(prefix + "input_layernorm", hidden)
        matrix(prefix + "post_attention_layernorm", hidden)
        mlp, is_mini = prefix + "mlp.", config["model_type"] == "minicpm"
        if not is_mini and not is_routed(config, layer):
            glu(mlp, config["intermediate_size"])
            continue
        experts = config["num_experts" if is_mini else "n_routed_experts"]
        matrix(mlp + "gate", experts, hidden)
        for expert in range(experts):
            glu(f"{mlp}experts.{expert}.", config["intermediate_size" if is_mini else "moe_intermediate_size"],
                MIXTRAL_NAMES if is_mini else PROJECTIONS)
        if not is_mini and config["n_shared_experts"]:
            glu(mlp + "shared_experts.", config["n_shared_experts"] * config["moe_intermediate_size"])
    matrix("model.norm", hidden)
    if not config["tie_word_embeddings"]:
        matrix("lm_head", config["vocab_size"], hidden)
    return tensors


def make(case, folder, seed):
    folder = Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(case["config"], indent=2) + "\n")
    is_mini = case["config"]["model_type"] == "minicpm"
    config = {**(MINICPM_DEFAULTS if is_mini else DEEPSEEK_DEFAULTS), **case["config"]}
    tensors = tensors_of(config, case["dtype"])
    for attempt in range(MOST_TRIES):
        ids = [random.Random(f"{seed}.{attempt}.{i}").randrange(3, LAST_TOKEN + 1) for i in range(PROMPT)]
        weights.write_weights(folder, f"{seed}.{attempt}", tensors, case["shards"])
        stored = {}
        for path in folder.glob("*.safetensors"):
            stored |= read(path)
        logits, gap = (minicpm_logits if is_mini else deepseek_logits)(config, stored, ids)
        if gap > MIN_GAP:
            return {"ids": ids, "logits": logits.astype(numpy.float32).tolist(), "tensors": tensors, "seed": f"{seed}.{attempt}"}
    raise NotACase(f"no weights with clear decisions in {MOST_TRIES} tries: gap {gap:.2g}")
