"""Random valid configurations of every family.

A configuration is a family's base with some twists that change different keys (spaces/), and a form in which it is stored. Seeds
0, 1, ... go through the shuffled twists, so that SEEDS of them use each twist but the rotations, of which all families together use
each one.

Not here: what a configuration means. The reference implementation reads the same folder (reference.py, published.py).
"""
import copy
import random

from .reading import ABSENT, FAMILIES

PROMPT = 32  # Tokens, from 3 to LAST_TOKEN: larger ones may stand for images.
LAST_TOKEN = 112
SEEDS = 30  # Per family.
ROTATION_KEYS = {"rope_scaling", "rope_parameters", "rope_theta", "partial_rotary_factor", "rotary_dim"}
PUBLISHED = ("deepseek", "minicpm")  # Without a class in transformers.
ORIGINAL = ("bailing_hybrid", "kimi_linear")  # Read in the published form only, in which transformers saves too unless told otherwise. kimi_linear has no
# dense layer here: transformers 5.24 saves it under the name of a layer of experts.


def change(config, twist):
    for key, value in twist.items():
        if value == ABSENT:
            config.pop(key, None)
        else:
            config[key] = copy.deepcopy(value)


def is_refusable(family_name, twist):
    return next((word for refused, word in FAMILIES[family_name]["refused"] if refused == twist), None)


def draw(name, seed, attempt=0):
    """What build() gives, and "refused": the pattern of the refusal that a twist leads to, or None. A draw that is no case is
    replaced by that of the next attempt."""
    rng = random.Random(f"{name}/{seed}/{attempt}")
    chosen, changed, refused = [], set(), None
    for twist in proposed(name, seed, attempt, rng):
        word = is_refusable(name, twist)
        if changed & twist.keys() or (word and refused):
            continue
        chosen.append(twist)
        changed |= twist.keys()
        refused = refused or word
    return build(name, chosen, rng) | {"refused": refused}


def proposed(name, seed, attempt, rng):
    """One rotation, and of all other twists those whose turn it is, and another one."""
    turned, others = [], []
    for twist in FAMILIES[name]["twists"]:
        (turned if ROTATION_KEYS & twist.keys() else others).append(twist)
    shuffled = random.Random(name)
    shuffled.shuffle(turned)
    shuffled.shuffle(others)
    count = -(-len(others) // SEEDS)
    first = (seed + attempt * 7) * count
    return [turned[(seed + attempt * 11) % len(turned)], *(others[(first + i) % len(others)] for i in range(count)), rng.choice(others)]


def nested(outer, text):
    """The config of the text within that of the whole model, which has the flag of the head too."""
    config = {**copy.deepcopy(outer), "text_config": text}
    if "tie_word_embeddings" in text:
        config["tie_word_embeddings"] = text["tie_word_embeddings"]
    return config


def alone(outer, text):
    return {**text, "architectures": [outer["architectures"][0].replace("ForConditionalGeneration", "ForCausalLM")]}


def build(name, twists, rng):
    """{"config", "twists", "published", "saved", "dtype", "shards"}: a configuration and the form in which it is stored."""
    entry = FAMILIES[name]
    config = copy.deepcopy(entry["base"])
    for twist in twists:
        change(config, twist)
    if entry["outer"]:
        config = nested(entry["outer"], config) if rng.random() < 0.6 else alone(entry["outer"], config)
    if rng.random() < 0.5:
        config = dict(sorted(config.items()))
    dtype = rng.choice(["BF16", "BF16", "F16", "F32"])
    config[rng.choice(["torch_dtype", "dtype"])] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[dtype]
    return {"config": config, "twists": twists, "published": rng.random() < 0.6 or name in ORIGINAL, "saved": rng.random() < 0.25,
            "dtype": dtype, "shards": rng.choice([1, 1, 1, 3])}
