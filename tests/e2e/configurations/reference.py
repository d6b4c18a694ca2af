"""What the reference implementation computes for a drawn configuration. Needs torch and transformers.

make() writes the checkpoint as a user would have it, loads this folder again with transformers and takes its logits in float32. A draw
that transformers refuses, or whose router decides by less than float32's rounding, is not a case.
"""
import json
import logging
import os
import shutil
import warnings
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from . import weights
from .families import LAST_TOKEN, PROMPT
from .reference_case import MIN_GAP, MOST_TRIES, NotACase  # pylint: disable=unused-import

MOST_ERROR = 2e-5  # Float32 against float64, relative to the largest logit.
MASKED = -1e30  # Scores below are those of positions after a token's own.


def quiet():
    os.environ["TQDM_DISABLE"] = "1"
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity(logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)


class Gaps:
    """The smallest relative distance between what torch.topk took and what it left, while active."""

    def __enter__(self):
        self.smallest, self.topk, self.method = float("inf"), torch.topk, torch.Tensor.topk
        torch.topk, torch.Tensor.topk = self.watched, lambda tensor, *args, **kwargs: self.watched(tensor, *args, **kwargs)
        return self

    def __exit__(self, *_):
        torch.topk, torch.Tensor.topk = self.topk, self.method

    def watched(self, tensor, k, dim=-1, *args, **kwargs):
        if k < tensor.shape[-1]:
            ordered = tensor.detach().double().sort(dim=-1, descending=True).values
            last, following = ordered[..., k - 1], ordered[..., k]
            ok = torch.isfinite(following) & (following > MASKED)
            gap = ((last - following) / torch.maximum(last.abs(), following.abs()).clamp_min(1e-30))[ok]
            self.smallest = min([self.smallest, *gap.flatten().tolist()])
        return self.topk(tensor, k, dim, *args, **kwargs)


def stored_tensors(config, scratch, dtype, published):
    """[name, dtype, shape] of each tensor of the model as transformers saves it."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(scratch, save_original_format=published)
    if not (scratch / "model.safetensors").is_file():
        raise NotACase("the model is too large for one file")
    with open(scratch / "model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    keep = ("correction_bias",)  # Stored in F32 in 16-bit files.
    return [[name, "F32" if name.endswith(keep) else dtype, entry["shape"]] for name, entry in header.items()]


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                       experts_implementation="eager", output_loading_info=True)
    wrong = {kind: sorted(map(str, names))[:3] for kind, names in info.items() if names}
    if wrong:
        raise NotACase(f"does not load cleanly: {wrong}")
    return model.eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def is_steady(model, ids, logits):
    """Whether float64 gives the same, so that no decision hangs on rounding."""
    exact = logits_of(model.double(), ids)
    return (exact - logits).abs().max() <= MOST_ERROR * exact.abs().max()


def write_config(case, folder):
    (folder / "config.json").write_text(json.dumps(case["config"], indent=2) + "\n")


def make(case, folder, seed):
    """Writes the checkpoint into the folder, which must not exist: {"ids", "logits", "tensors", "seed"}."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    scratch = folder / "scratch"
    write_config(case, folder)
    try:
        config = AutoConfig.from_pretrained(folder)
        if case["saved"]:
            config.save_pretrained(folder)
        tensors = stored_tensors(config, scratch, case["dtype"], case["published"])
    except NotACase:
        raise
    except Exception as error:  # pylint: disable=broad-exception-caught
        raise NotACase(f"transformers: {type(error).__name__}: {str(error).splitlines()[:3]}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for attempt in range(MOST_TRIES):
        ids = torch.randint(3, LAST_TOKEN + 1, (PROMPT,), generator=torch.Generator().manual_seed(1000 * seed + attempt)).tolist()
        weight_seed = f"{seed}.{attempt}"
        weights.write_weights(folder, weight_seed, tensors, case["shards"])
        try:
            model = load(folder)
            with Gaps() as gaps:
                logits = logits_of(model, ids)
            is_clear = gaps.smallest > MIN_GAP and torch.isfinite(logits).all() and is_steady(model, ids, logits)
        except NotACase:
            raise
        except Exception as error:  # pylint: disable=broad-exception-caught
            raise NotACase(f"transformers: {type(error).__name__}: {str(error).splitlines()[:3]}") from error
        if is_clear:
            return {"ids": ids, "logits": logits.float().tolist(), "tensors": tensors, "seed": weight_seed}
    raise NotACase(f"no weights with clear decisions in {MOST_TRIES} tries: gap {gaps.smallest:.2g}")
