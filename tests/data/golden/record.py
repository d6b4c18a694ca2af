#!/usr/bin/env python3
"""Records what the reference implementation computes for a checkpoint: CASE/golden/golden.safetensors.

    tests/data/golden/record.py CASE [--tokens N] [--seed N] [--check]

CASE is a checkpoint directory that transformers loads; README.md beside this file lists the tensors. Router choices are taken
from the modules that return a token's expert indices beside their weights, as the routers of transformers 5 do; best first, although
some of them ask top-k for any order.
--check compares with the file that is there and writes nothing. Needs torch, transformers and safetensors from PyPI; the tests
do not.
"""
import argparse
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

PROMPTS, GREEDY_TOKENS = 3, 32


class Routes:
    """The choices and weights of every router, in the order in which the routers run."""

    def __init__(self, model):
        self.chosen, self.weights = [], []
        # Laguna's block multiplies what its router returns.
        self.factor = getattr(model.config, "moe_routed_scaling_factor", 1)
        for name, module in model.named_modules():
            if name.endswith(("gate", "router")):
                module.register_forward_hook(self.keep)

    def keep(self, _module, _inputs, output):
        if not isinstance(output, tuple):
            return
        indices = [part for part in output if torch.is_tensor(part) and part.dtype == torch.int64 and part.dim() == 2]
        if not indices:
            return
        weights = [part for part in output if torch.is_tensor(part) and part.is_floating_point() and part.shape == indices[0].shape]
        if not weights:
            sys.exit("record: a router returns experts without a weight for each of them; record it by hand")
        self.chosen.append(indices[0])
        self.weights.append(weights[-1])

    def take(self):
        if not self.chosen:
            sys.exit("record: no router returned a token's experts; record them by hand")
        if len({indices.shape for indices in self.chosen}) > 1:
            sys.exit("record: layers choose different numbers of experts, which one tensor cannot hold")
        taken = torch.stack(self.chosen).to(torch.int32), torch.stack(self.weights).float() * self.factor
        self.chosen.clear()
        self.weights.clear()
        return taken


def sort_choices():
    topk = torch.topk
    torch.topk = lambda *args, sorted=True, **options: topk(*args, sorted=True, **options)


def run(model, routes, ids):
    with torch.no_grad():
        output = model(input_ids=ids[None], use_cache=False, output_hidden_states=True)
    experts, weights = routes.take()
    # transformers replaces the last layer's output by the final norm's; the norm's input is what the layer left.
    # Several residual streams are in it one after the other.
    hidden = torch.stack([state.flatten(2) for state in (*output.hidden_states[1:-1], model.before_final_norm)])
    return output.logits[0], hidden[:, 0], experts, weights


def find_final_norm(model):
    """Or what merges several residual streams before it."""
    for last in ("model.hc_head", "model.norm", "model.embedding_norm"):
        for name, module in model.named_modules():
            if name.endswith(last):
                return module
    sys.exit("record: found no final norm, expected model.norm or model.embedding_norm")


def record(case, prompts_of):
    """prompts_of gives three prompts and one of a token, by the size of the vocabulary."""
    sort_choices()
    model = AutoModelForCausalLM.from_pretrained(case, dtype=torch.float32, attn_implementation="eager",
                                                 experts_implementation="eager").eval()
    routes = Routes(model)
    find_final_norm(model).register_forward_pre_hook(
        lambda _module, inputs: setattr(model, "before_final_norm", inputs[0]))
    prompts, short = prompts_of(model.config.get_text_config().vocab_size)
    runs = [run(model, routes, prompt) for prompt in prompts]
    logits, hidden, experts, weights = zip(*runs)
    one = run(model, routes, short[0])
    continued, greedy_logits = prompts[0], []
    for _ in range(GREEDY_TOKENS):
        greedy_logits.append(run(model, routes, continued)[0][-1])
        continued = torch.cat([continued, greedy_logits[-1].argmax()[None]])
    golden = {"input_ids": prompts.to(torch.int32), "logits": torch.stack(logits), "hidden": torch.stack(hidden, 1),
              "experts": torch.stack(experts, 1), "weights": torch.stack(weights, 1),
              "greedy_ids": continued[-GREEDY_TOKENS:].to(torch.int32), "greedy_logits": torch.stack(greedy_logits),
              "prompt1_input_ids": short.to(torch.int32), "prompt1_logits": one[0][None],
              "prompt1_hidden": one[1][:, None], "prompt1_experts": one[2][:, None], "prompt1_weights": one[3][:, None]}
    return {name: tensor.detach().contiguous() for name, tensor in golden.items()}


def drawn(vocabulary, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(vocabulary, shape, generator=generator) for shape in ((PROMPTS, tokens), (1, 1))]


def differences(found, expected):
    for name, tensor in expected.items():
        if name not in found or found[name].shape != tensor.shape:
            yield f"{name}: shape {tuple(found[name].shape) if name in found else None}, the file has {tuple(tensor.shape)}"
        elif tensor.is_floating_point():
            error, scale = (found[name] - tensor).abs().max().item(), tensor.abs().max().item()
            if error > 1e-4 * scale:
                yield f"{name}: differs by {error:.3g}, the largest value is {scale:.3g}"
        elif not torch.equal(found[name], tensor):
            yield f"{name}: {(found[name] != tensor).sum().item()} of {tensor.numel()} differ"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=Path)
    parser.add_argument("--tokens", type=int, default=24, help="per prompt (default 24)")
    parser.add_argument("--seed", type=int, default=1, help="of the prompts (default 1)")
    parser.add_argument("--check", action="store_true", help="compare with the file that is there, with its prompts")
    options = parser.parse_args()
    path = options.case / "golden/golden.safetensors"
    if options.check:
        expected = load_file(path)
        golden = record(options.case, lambda _vocabulary: (expected["input_ids"].long(), expected["prompt1_input_ids"].long()))
        wrong = list(differences(golden, expected))
        print("\n".join(wrong) or f"{path}: equal")
        return 1 if wrong else 0
    golden = record(options.case, lambda vocabulary: drawn(vocabulary, options.tokens, options.seed))
    path.parent.mkdir(exist_ok=True)
    save_file(golden, path)
    print(f"{path}: {', '.join(golden)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
