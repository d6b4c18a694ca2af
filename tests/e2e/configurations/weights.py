"""Weights of a checkpoint from a seed, the tensors' names and shapes: the same bytes on every machine, without torch.

A tensor's values are 256 quantiles of a normal distribution, chosen by the bytes of random.Random("SEED/NAME"); spread and
centre follow from the name, so that no norm is 1, no bias is 0 and logits reach about 10.
"""
import itertools
import json
import random
import re
import statistics
import struct

QUANTILES = [statistics.NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)]
MATRIX_GAIN, ROUTER_GAIN = 1.5, 3  # Times 1 / sqrt(inputs).
VECTOR_SPREAD, CHOICE_BIAS_SPREAD = 0.3, 0.1


def bytes_of(value, dtype):
    """The value, rounded to nearest even, little-endian."""
    if dtype == "F32":
        return struct.pack("<f", value)
    if dtype == "F16":
        return struct.pack("<e", value)
    bits = int.from_bytes(struct.pack("<f", value), "little")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).to_bytes(2, "little")


def centre_and_spread(name, shape):
    if re.search(r"(norm\w*|norm\d*\.weight|layer_scalar|per_expert_scale|router\.scale)$", name) or re.search(
            r"norm[\w.]*\.weight$", name):
        return 1, VECTOR_SPREAD
    if "correction_bias" in name or "expert_bias" in name:
        return 0, CHOICE_BIAS_SPREAD
    if len(shape) == 1 or name.endswith("bias"):
        return 0, VECTOR_SPREAD
    if "embed_tokens" in name:
        return 0, 1
    gain = ROUTER_GAIN if re.search(r"(gate|gate\.wg|router|router\.layer|router\.proj)\.weight$", name) else MATRIX_GAIN
    return 0, gain * shape[-1]**-0.5


def values(seed, name, dtype, shape):
    """The tensor's bytes."""
    centre, spread = centre_and_spread(name, shape)
    count = 1
    for size in shape:
        count *= size
    chosen = random.Random(f"{seed}/{name}").randbytes(count)
    table = [bytes_of(centre + spread * quantile, dtype) for quantile in QUANTILES]
    width = len(table[0])
    data = bytearray(count * width)
    for byte in range(width):
        data[byte::width] = chosen.translate(bytes(entry[byte] for entry in table))
    return data


def write_safetensors(path, seed, tensors):
    """tensors: [name, dtype, shape] each."""
    header, offset, parts = {}, 0, []
    for name, dtype, shape in tensors:
        parts.append(values(seed, name, dtype, shape))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(parts[-1])]}
        offset += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.writelines([struct.pack("<Q", len(text)), text, *parts])


def write_weights(folder, seed, tensors, shards=1):
    """model.safetensors, or numbered shards with their index."""
    if shards == 1:
        return write_safetensors(folder / "model.safetensors", seed, tensors)
    index = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = tensors[shard::shards]
        write_safetensors(folder / name, seed, part)
        index |= {tensor[0]: name for tensor in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def fold(tensors):
    """The same with number ranges in names, "layers.{0-2}.mlp", where all tensors of the product exist."""
    groups = {}
    for name, dtype, shape in tensors:
        numbers = tuple(map(int, re.findall(r"(?<=\.)\d+(?=\.)", name)))
        pattern = re.sub(r"(?<=\.)\d+(?=\.)", "{}", name)
        groups.setdefault((pattern, dtype, tuple(shape), len(numbers)), []).append(numbers)
    folded = []
    for (pattern, dtype, shape, _), found in groups.items():
        axes = [sorted(set(axis)) for axis in zip(*found)]
        runs = all(axis == list(range(axis[0], axis[-1] + 1)) for axis in axes)
        if runs and sorted(found) == sorted(itertools.product(*axes)):
            folded.append([pattern.format(*(f"{{{axis[0]}-{axis[-1]}}}" for axis in axes)), dtype, list(shape)])
        else:
            folded += [[pattern.format(*numbers), dtype, list(shape)] for numbers in found]
    return folded


def unfold(folded):
    tensors = []
    for name, dtype, shape in folded:
        axes = [range(int(first), int(last) + 1) for first, last in re.findall(r"\{(\d+)-(\d+)\}", name)]
        pattern = re.sub(r"\{\d+-\d+\}", "{}", name)
        tensors += [[pattern.format(*numbers), dtype, shape] for numbers in itertools.product(*axes)]
    return tensors
