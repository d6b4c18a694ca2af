"""The little of GGUF that a comparison with llama.cpp needs: a Qwen2-MoE checkpoint written as a model file without a
tokenizer (both engines are given token ids), another one as its converter's list of tensors says, and where the bytes of a
model file are.

Standard library only: weights are copied unchanged, tensor by tensor; tensors that llama.cpp needs in float32 are widened.
"""
import array
import base64
import json
import re
import struct
from collections import namedtuple
from pathlib import Path

ALIGNMENT = 32
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9  # of values
TYPES = {"F32": (0, 4), "F16": (1, 2), "BF16": (30, 2)}  # of tensors, and bytes of an element
FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value that is no string or array

Tensor = namedtuple("Tensor", "dtype shape path offset bytes")
Sizes = namedtuple("Sizes", "experts rest")  # bytes; rest: of all other tensors

# Checkpoint -> model file; {} is the layer.
OUTSIDE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
INSIDE = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
          "mlp.gate.weight": "ffn_gate_inp.weight", "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
          "self_attn.o_proj.weight": "attn_output.weight"}
INSIDE.update({f"self_attn.{x}_proj.{kind}": f"attn_{x}.{kind}" for x in "qkv" for kind in ("weight", "bias")})
INSIDE.update({f"mlp.shared_expert.{x}_proj.weight": f"ffn_{x}_shexp.weight" for x in ("gate", "up", "down")})
EXPERTS = {f"mlp.experts.{{}}.{x}_proj.weight": f"ffn_{x}_exps.weight" for x in ("gate", "up", "down")}
WIDENED = re.compile(r"norm\.weight$|\.bias$|ffn_gate_inp(_shexp)?\.weight$")


class Unsupported(Exception):
    """A checkpoint that convert() does not know."""


def checkpoint_tensors(folder):
    tensors = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = Tensor(entry["dtype"], entry["shape"], path, 8 + length + begin, end - begin)
    return tensors


def sources(config, tensors):
    """The model file's tensors: name -> the checkpoint's tensors that follow one another in it."""
    made = {target: [tensors[name]] for name, target in OUTSIDE.items() if name in tensors}
    made.setdefault("output.weight", made["token_embd.weight"])  # llama.cpp's Qwen2-MoE has no tied head
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        made.update({f"blk.{layer}.{target}": [tensors[prefix + name]] for name, target in INSIDE.items()
                     if prefix + name in tensors})
        made.update({f"blk.{layer}.{target}": [tensors[prefix + name.format(e)] for e in range(config["num_experts"])]
                     for name, target in EXPERTS.items()})
    return made


def key_values(config):
    arch = "qwen2moe"
    values = [("general.architecture", STRING, arch), ("tokenizer.ggml.model", STRING, "no_vocab")]
    numbers = {"vocab_size": "vocab_size", "block_count": "num_hidden_layers", "context_length": "max_position_embeddings",
               "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
               "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
               "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
               "expert_feed_forward_length": "moe_intermediate_size",
               "expert_shared_feed_forward_length": "shared_expert_intermediate_size"}
    values += [(f"{arch}.{key}", UINT32, config[name]) for key, name in numbers.items()]
    values += [(f"{arch}.rope.freq_base", FLOAT32, config.get("rope_theta", 10000.0)),
               (f"{arch}.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"])]
    return values


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def encoded(key, kind, value):
    data = string(value) if kind == STRING else struct.pack("<I" if kind == UINT32 else "<f", value)
    return string(key) + struct.pack("<I", kind) + data


def widened(data, dtype):
    """Elements as float32."""
    if dtype == "F32":
        return data
    if dtype == "BF16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return bytes(wide)
    return array.array("f", struct.unpack(f"<{len(data) // 2}e", data)).tobytes()


def aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def convert(folder, output):
    """Writes a checkpoint as a model file; raises Unsupported for a checkpoint that it does not know."""
    config = json.loads((Path(folder) / "config.json").read_text())
    is_sparse = config.get("decoder_sparse_step", 1) == 1 and not config.get("mlp_only_layers")
    if config["model_type"] != "qwen2_moe" or config.get("rope_scaling") or not is_sparse:
        raise Unsupported(f"{folder}: expected a Qwen2-MoE checkpoint with experts in all layers, and unscaled positions")
    made, infos, at = sources(config, checkpoint_tensors(folder)), b"", 0
    for name, parts in made.items():
        dtype = "F32" if WIDENED.search(name) else parts[0].dtype
        shape = parts[0].shape if len(parts) == 1 else [len(parts), *parts[0].shape]
        if name.endswith("ffn_gate_inp_shexp.weight"):
            shape = shape[-1:]
        number, _ = TYPES[dtype]
        infos += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), number, at)
        at += aligned(sum(p.bytes // TYPES[p.dtype][1] for p in parts) * TYPES[dtype][1])
    values = [encoded(*each) for each in key_values(config)]
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(made), len(values)) + b"".join(values) + infos
    with open(output, "wb") as file:
        file.write(header.ljust(aligned(len(header)), b"\0"))
        for name, parts in made.items():
            for part in parts:
                with part.path.open("rb") as source:
                    source.seek(part.offset)
                    data = source.read(part.bytes)
                file.write(widened(data, part.dtype) if WIDENED.search(name) else data)
            file.write(bytes(-file.tell() % ALIGNMENT))


def assemble(header, parts, folder, output):
    """Writes a model file whose keys and list of tensors are the bytes of `header`. For each tensor, `parts` has its type and
    either its bytes, or the checkpoint's tensors that follow one another in it; rows or columns, if given, of each matrix."""
    tensors = checkpoint_tensors(folder)
    with open(output, "wb") as file:
        file.write(Path(header).read_bytes())
        for part in parts:
            data = base64.b64decode(part.get("base64", ""))
            for tensor in map(tensors.get, part.get("of", [])):
                with tensor.path.open("rb") as source:
                    source.seek(tensor.offset)
                    read = cut(source.read(tensor.bytes), tensor, part)
                data += widened(read, tensor.dtype) if part["type"] == "F32" else read
            file.write(data.ljust(aligned(len(data)), b"\0"))


def cut(data, tensor, part):
    """Rows of each matrix, or columns as rows; without a choice, all."""
    (begin, end), (_, size) = part.get("rows", part.get("columns", (0, 0))), TYPES[tensor.dtype]
    if end == 0:
        return data
    rows, width = tensor.shape[-2:]
    elements = [data[at:at + size] for at in range(0, len(data), size)]
    matrices = [elements[at:at + rows * width] for at in range(0, len(elements), rows * width)]
    if "rows" in part:
        return b"".join(b"".join(matrix[begin * width:end * width]) for matrix in matrices)
    return b"".join(b"".join(matrix[column::width]) for matrix in matrices for column in range(begin, end))


class Cursor:
    """Reads a file's header from its start."""

    def __init__(self, file):
        self.file = file

    def numbers(self, form):
        return struct.unpack("<" + form, self.file.read(struct.calcsize("<" + form)))

    def string(self):
        return self.file.read(self.numbers("Q")[0]).decode(errors="replace")

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.numbers("IQ")
            for _ in range(count):
                self.skip(element)
        else:
            self.file.read(FIXED[kind])


def sizes(path):
    """How many bytes of a model file are experts."""
    with open(path, "rb") as file:
        cursor = Cursor(file)
        magic, _, tensors, values = cursor.numbers("4sIQQ")
        if magic != b"GGUF":
            raise ValueError(f"{path} is no GGUF file")
        for _ in range(values):
            cursor.string()
            cursor.skip(*cursor.numbers("I"))
        begins = {}
        for _ in range(tensors):
            name = cursor.string()
            (dimensions,) = cursor.numbers("I")
            begins[name] = cursor.numbers(f"{dimensions}QIQ")[-1]
        header = aligned(file.tell())
    ends = sorted([*begins.values(), Path(path).stat().st_size - header])
    follows = dict(zip(ends, ends[1:]))
    total = {name: follows[begin] - begin for name, begin in begins.items()}
    experts = sum(size for name, size in total.items() if "_exps." in name)
    return Sizes(experts, sum(total.values()) - experts)
