#!/usr/bin/env python3
"""Records the keys of the reference's config classes, with types, defaults and other names, for the tests of the families' tables.

usage: record.py >transformers.json     (needs transformers 5.24.0; no weights, no network)

Per class: `keys` (name: type and default), `aliases` (other name: name), `rope` (rope_parameters of a config without keys), `nestedIn`
(the class that holds this one as text_config), `read` (names that its modeling file takes from the config, keys or not).
Keys of PreTrainedConfig, which all classes have, are a class of their own.
"""
import dataclasses
import inspect
import json
import math
import re
import sys

import transformers
from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VERSION = "5.24.0"
# model_type of the reference, and that under which the compiler has it.
MODEL_TYPES = {
    name: name for name in (
        "bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 dots1 ernie4_5_moe flex_olmo gemma4_text glm4_moe glm4_moe_lite glm5_next_text glm_moe_dsa gpt_oss granitemoe granitemoehybrid "
        "hunyuan_v1_moe jamba kimi_linear laguna lfm2_moe llama4_text minimax_m2 mistral4 mixtral nemotron_h olmoe phimoe qwen2_moe qwen3_5_moe_text qwen3_moe qwen3_next qwen3_omni_moe_text qwen3_vl_moe_text qwen4_exp_text").split()
}
OUTER = ("gemma4", "glm5_next", "llama4", "mistral3", "qwen3_5_moe", "qwen3_omni_moe", "qwen3_vl_moe", "qwen4_exp")

OF_ANY_TEXT = {"mistral3": "mistral4"}  # Outer classes that take any text model, and the one that the compiler has.


def plain(value):
    """The value as JSON holds it; null for a range without an end."""
    if isinstance(value, tuple):
        return None if math.inf in value else list(value)
    return value


def type_text(field):
    """"int | None", whatever the class wrote."""
    text = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    if not isinstance(field.type, type):
        text = str(field.type)
    return text.replace("typing.", "").replace("transformers.modeling_rope_utils.", "").replace("NoneType", "None")


def keys_of(cls, without=()):
    keys = {}
    for field in dataclasses.fields(cls):
        if field.name in without:
            continue
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        keys[field.name] = {"type": type_text(field), "default": plain(default)}
    return keys


def read_by(cls):
    """Names that the modeling file beside the class takes from a config."""
    path = inspect.getsourcefile(cls).replace("configuration_", "modeling_")
    with open(path) as file:
        text = file.read()
    names = re.findall(r'\bconfig\.([a-z]\w*)\b(?!\()', text) + re.findall(r'getattr\((?:self\.)?config, "([a-z]\w*)"', text)
    return sorted(name for name in set(names) if not isinstance(getattr(cls, name, None), property))


def main():
    if transformers.__version__ != VERSION:
        sys.exit(f"record.py: found transformers {transformers.__version__}, expected {VERSION}")
    base = keys_of(PreTrainedConfig)
    classes = {"": {"class": "PreTrainedConfig", "keys": base}}
    for model_type in (*MODEL_TYPES, *OUTER):
        cls = CONFIG_MAPPING[model_type]
        entry = {"class": cls.__name__, "keys": keys_of(cls, base)}
        if cls.attribute_map:
            entry["aliases"] = dict(sorted(cls.attribute_map.items()))
        if model_type in OUTER:
            holder = cls.sub_configs.get("thinker_config", cls)
            entry["textType"] = OF_ANY_TEXT.get(model_type) or holder.sub_configs["text_config"].model_type
        else:
            entry["rope"] = getattr(cls(), "rope_parameters", None) or {"rope_type": "default"}
            entry["theta"] = getattr(cls, "rope_theta", None) or getattr(cls, "default_theta", 10000.0)
            entry["read"] = read_by(cls)
        classes[model_type] = entry
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in classes.items()]
    print('{"transformers": "%s", "classes": {\n%s\n}}' % (VERSION, ",\n".join(lines)))


main()
