"""Checkpoints whose greedy answer is a fixed text: a Mixtral of one layer that passes each token on to the next one of the text."""
import json
import shutil
import struct

from support import SCRATCH, artifact

BYTES, WIDTH = 256, 288
ONE = 0x3F80  # In bfloat16.


def _byte_names():
    """The characters by which byte-level tokenizers name the bytes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in plain else next(others)) for byte in range(256)}


def _matrix(rows, columns, ones=()):
    values = [0] * (rows * columns)
    for row, column in ones:
        values[row * columns + column] = ONE
    return (rows, columns), struct.pack(f"<{len(values)}H", *values)


def _vector():
    return (WIDTH,), struct.pack(f"<{WIDTH}H", *[ONE] * WIDTH)


def _weights(successors):
    layer = "model.layers.0."
    experts = {f"{layer}block_sparse_moe.experts.{expert}.{name}.weight": _matrix(*shape)
               for expert in range(2) for name, shape in (("w1", (16, WIDTH)), ("w3", (16, WIDTH)), ("w2", (WIDTH, 16)))}
    return {"model.embed_tokens.weight": _matrix(WIDTH, WIDTH, ((token, token) for token in range(WIDTH))),
            layer + "input_layernorm.weight": _vector(), layer + "post_attention_layernorm.weight": _vector(),
            layer + "self_attn.q_proj.weight": _matrix(32, WIDTH), layer + "self_attn.k_proj.weight": _matrix(16, WIDTH),
            layer + "self_attn.v_proj.weight": _matrix(16, WIDTH), layer + "self_attn.o_proj.weight": _matrix(WIDTH, 32),
            layer + "block_sparse_moe.gate.weight": _matrix(2, WIDTH), **experts, "model.norm.weight": _vector(),
            "lm_head.weight": _matrix(WIDTH, WIDTH, ((after, token) for token, after in enumerate(successors)))}


def scripted(name, template, pieces, special=(), after=None, **tokenizer_config):
    """An artifact whose answer is `pieces`, a token each, from any prompt that does not end with one of them. A byte, or a text of
    several, which is a token of its own; those in `special` are special tokens. `after` has other pieces for prompts that end with a
    byte. `tokenizer_config` has further members of that file."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    added = ["<|end_of_script|>", *dict.fromkeys(p for p in [*special, *pieces, *sum((after or {}).values(), [])] if isinstance(p, str))]
    ids = {text: BYTES + i for i, text in enumerate(added)}
    def token_of(piece):
        return piece if isinstance(piece, int) else ids[piece]
    successors = [token_of(pieces[0])] * WIDTH
    for said in (pieces, *([byte, *others] for byte, others in (after or {}).items())):
        chain = [*map(token_of, said), BYTES]
        for token, following in zip(chain, chain[1:]):
            successors[token] = following
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": WIDTH, "num_hidden_layers": 1,
              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 16,
              "num_local_experts": 2, "num_experts_per_tok": 1, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "hidden_act": "silu",
              "vocab_size": WIDTH, "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
              "sliding_window": None, "eos_token_id": BYTES}
    bytewise = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
                 "added_tokens": [{"id": ids[text], "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                                   "normalized": False, "special": text in special or ids[text] == BYTES} for text in added],
                 "pre_tokenizer": bytewise, "decoder": bytewise,
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                           "vocab": {text: byte for byte, text in _byte_names().items()}, "merges": []}}
    for file, content in (("config", config), ("tokenizer", tokenizer),
                          ("tokenizer_config", {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template, **tokenizer_config})):
        (folder / f"{file}.json").write_text(json.dumps(content))
    header, data = {}, b""
    for key, (shape, packed) in _weights(successors).items():
        header[key] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return artifact(folder, "--bits", "source", "--resident-bits", "source")
