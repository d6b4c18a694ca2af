"""A random Qwen2-MoE model as a GGUF file whose experts have every type of blocks that records keep: layer i has one
type in gate and up and another in down."""
import random
import struct
import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "tests/bench"))
import gguf

# Name in records -> ggml's number, elements, bytes, where its f16 are and what they hold here.
TYPES = {"q4_0": (2, 32, 18, {0: 0.01}), "q4_1": (3, 32, 20, {0: 0.01, 2: -0.07}), "q5_0": (6, 32, 22, {0: 0.005}),
         "q5_1": (7, 32, 24, {0: 0.005, 2: -0.07}), "q8_0": (8, 32, 34, {0: 0.0006}), "q2_k": (10, 256, 84, {80: 0.004, 82: 0.005}),
         "q3_k": (11, 256, 110, {108: 0.0008}), "q4_k": (12, 256, 144, {0: 0.0003, 2: 0.002}),
         "q5_k": (13, 256, 176, {0: 0.00015, 2: 0.002}), "q6_k": (14, 256, 210, {208: 0.00004}),
         "iq4_nl": (20, 32, 18, {0: 0.0006}), "iq4_xs": (23, 256, 136, {0: 0.00004})}
HIDDEN = WIDTH = 256
EXPERTS = 4
CONFIG = {"vocab_size": 64, "num_hidden_layers": len(TYPES) // 2, "max_position_embeddings": 128, "hidden_size": HIDDEN,
          "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": EXPERTS,
          "num_experts_per_tok": 2, "moe_intermediate_size": WIDTH, "shared_expert_intermediate_size": 32,
          "rms_norm_eps": 1e-6}


def blocks(kind, elements, dice):
    _, per_block, size, halves = TYPES[kind]
    data = bytearray(dice.randbytes(elements // per_block * size))
    for at, value in halves.items():
        scale = struct.pack("<e", value)
        count = elements // per_block
        data[at::size], data[at + 1::size] = scale[:1] * count, scale[1:] * count
    return bytes(data)


def floats(elements, dice, mean=0.0):
    return struct.pack(f"<{elements}f", *(dice.gauss(mean, 0.06) for _ in range(elements)))


def tensors(dice):
    """(name, ne, ggml's number of the type, bytes)."""
    def plain(name, *ne, mean=0.0):
        elements = 1
        for n in ne:
            elements *= n
        return name, ne, 0, floats(elements, dice, mean)

    yield plain("token_embd.weight", HIDDEN, 64)
    yield plain("output.weight", HIDDEN, 64)
    yield plain("output_norm.weight", HIDDEN, mean=1)
    kinds = list(TYPES)
    for layer in range(CONFIG["num_hidden_layers"]):
        block = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            yield plain(f"{block}{norm}.weight", HIDDEN, mean=1)
        for name, outputs in (("q", HIDDEN), ("k", 128), ("v", 128), ("output", HIDDEN)):
            yield plain(f"{block}attn_{name}.weight", HIDDEN, outputs)
            if name != "output":
                yield plain(f"{block}attn_{name}.bias", outputs)
        yield plain(block + "ffn_gate_inp.weight", HIDDEN, EXPERTS)
        yield plain(block + "ffn_gate_inp_shexp.weight", HIDDEN)
        for name, ne in (("gate", (HIDDEN, 32)), ("up", (HIDDEN, 32)), ("down", (32, HIDDEN))):
            yield plain(f"{block}ffn_{name}_shexp.weight", *ne)
        for name in ("gate", "up", "down"):
            kind = kinds[2 * layer + (name == "down")]
            yield (f"{block}ffn_{name}_exps.weight", (HIDDEN, WIDTH, EXPERTS), TYPES[kind][0],
                   blocks(kind, HIDDEN * WIDTH * EXPERTS, dice))


def write(path):
    infos, data = b"", b""
    made = list(tensors(random.Random(1)))
    for name, ne, number, content in made:
        infos += gguf.string(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, number, len(data))
        data += content + bytes(-len(content) % gguf.ALIGNMENT)
    values = [gguf.encoded(*each) for each in gguf.key_values(CONFIG)]
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(made), len(values)) + b"".join(values) + infos
    path.write_bytes(header.ljust(gguf.aligned(len(header)), b"\0") + data)
