"""Trains the bundled vision model, a Swin-MoE, on shapes.py's images: `python3 train.py` with torch and safetensors, some minutes of one thread.

Writes config.json and model.safetensors beside itself. The model computes every image alone, as `moert eval` does: the capacity of experts is
that of one image.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from shapes import CLASSES, SIDE, draw

PATCH, WINDOW, WIDTHS, HEADS = 4, 4, (32, 64), (2, 4)
DEPTHS, ROUTED = (2, 2), ((1,), (0, 1))
EXPERTS, CAPACITY, RATIO, BIAS_UNITS = 8, 2.0, 2, 16
IMAGES, EPOCHS, BATCH, RATE = 8_000, 10, 64, 3e-3
MEAN, DEVIATION = torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))


class Attention(nn.Module):
    def __init__(self, width, heads, side, shift):
        super().__init__()
        self.heads, self.side, self.shift = heads, side, shift
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.cpb_mlp = nn.Sequential(nn.Linear(2, BIAS_UNITS), nn.ReLU(), nn.Linear(BIAS_UNITS, heads, bias=False))
        place = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij"), -1).reshape(-1, 2)
        offset = (place[:, None] - place[None]).float() * 8 / (WINDOW - 1)
        self.offsets = torch.sign(offset) * torch.log2(offset.abs() + 1) / 3
        region = torch.zeros(side, side)
        if shift:
            for row, rows in enumerate((slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))):
                for column, columns in enumerate((slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))):
                    region[rows, columns] = 3 * row + column
        windows = self.windows(region[None, ..., None])[..., 0]
        self.mask = (windows[:, None] != windows[:, :, None]).float()[:, None] * -100

    def windows(self, grid):
        count = self.side // WINDOW
        parts = grid.reshape(-1, count, WINDOW, count, WINDOW, grid.shape[-1]).transpose(2, 3)
        return parts.reshape(-1, WINDOW * WINDOW, grid.shape[-1])

    def forward(self, x):
        images, tokens, width = x.shape
        grid = x.reshape(images, self.side, self.side, width).roll((-self.shift, -self.shift), (1, 2))
        parts = self.qkv(self.windows(grid)).reshape(images, -1, WINDOW * WINDOW, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(3, 0, 1, 4, 2, 5)
        scores = query * (width // self.heads) ** -0.5 @ key.transpose(-1, -2)
        scores = scores + self.cpb_mlp(self.offsets).permute(2, 0, 1) + self.mask
        out = self.proj((scores.softmax(-1) @ value).transpose(2, 3).reshape(-1, WINDOW * WINDOW, width))
        count = self.side // WINDOW
        out = out.reshape(images, count, count, WINDOW, WINDOW, width).transpose(2, 3).reshape(images, self.side, self.side, width)
        return out.roll((self.shift, self.shift), (1, 2)).reshape(images, tokens, width)


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, RATIO * width), nn.Linear(RATIO * width, width)

    def forward(self, x):
        return self.fc2(functional.gelu(self.fc1(x))), 0


class Experts(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.batched_fc1_w = nn.Parameter(torch.randn(EXPERTS, RATIO * width, width) * width**-0.5)
        self.batched_fc2_w = nn.Parameter(torch.randn(EXPERTS, RATIO * width, width) * (RATIO * width) ** -0.5)
        self.batched_fc1_bias = nn.Parameter(torch.zeros(EXPERTS, RATIO * width))
        self.batched_fc2_bias = nn.Parameter(torch.zeros(EXPERTS, width))


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wg = nn.Linear(width, EXPERTS, bias=False)


class Moe(nn.Module):
    """The best expert of each token, of which an image's most certain tokens are taken up to the capacity."""

    def __init__(self, width):
        super().__init__()
        self._moe_layer = nn.Module()
        self._moe_layer.gates = nn.ModuleList([Gate(width)])
        self._moe_layer.experts = Experts(width)

    def forward(self, x):
        images, tokens, width = x.shape
        chances = self._moe_layer.gates[0].wg(x).softmax(-1)
        chance, choice = chances.max(-1)
        same = choice[:, None] == choice[:, :, None]
        rank = (same & (chance[:, None] > chance[:, :, None])).sum(-1)
        taken = rank < int(CAPACITY * ((tokens + EXPERTS - 1) // EXPERTS))
        parts, rows = self._moe_layer.experts, x.reshape(-1, width)
        out = torch.zeros_like(rows)
        for expert in range(EXPERTS):
            at = ((choice == expert) & taken).reshape(-1).nonzero()[:, 0]
            hidden = functional.gelu(rows[at] @ parts.batched_fc1_w[expert].T + parts.batched_fc1_bias[expert])
            out = out.index_add(0, at, hidden @ parts.batched_fc2_w[expert] + parts.batched_fc2_bias[expert])
        counts = functional.one_hot(choice, EXPERTS).float().mean((0, 1))
        balance = EXPERTS * (counts * chances.mean((0, 1))).sum()
        return out.reshape(x.shape) * chance[..., None], balance


class Block(nn.Module):
    def __init__(self, stage, number, side):
        super().__init__()
        width = WIDTHS[stage]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, HEADS[stage], side, WINDOW // 2 if number % 2 == 1 and side > WINDOW else 0)
        self.mlp = Moe(width) if number in ROUTED[stage] else Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        change, balance = self.mlp(self.norm2(x))
        return x + change, balance


class Merge(nn.Module):
    def __init__(self, width, side):
        super().__init__()
        self.side = side
        self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        grid = x.reshape(x.shape[0], self.side, self.side, x.shape[-1])
        four = [grid[:, y::2, x::2] for x in (0, 1) for y in (0, 1)]
        return self.reduction(self.norm(torch.cat(four, -1).reshape(x.shape[0], -1, 4 * x.shape[-1])))


class Stage(nn.Module):
    def __init__(self, stage, side):
        super().__init__()
        self.blocks = nn.ModuleList(Block(stage, number, side) for number in range(DEPTHS[stage]))
        if stage + 1 < len(DEPTHS):
            self.downsample = Merge(WIDTHS[stage], side)


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.norm = nn.Conv2d(3, WIDTHS[0], PATCH, PATCH), nn.LayerNorm(WIDTHS[0])


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = Patches()
        self.layers = nn.ModuleList(Stage(stage, SIDE // PATCH >> stage) for stage in range(len(DEPTHS)))
        self.norm, self.head = nn.LayerNorm(WIDTHS[-1]), nn.Linear(WIDTHS[-1], len(CLASSES))

    def forward(self, images):
        x = self.patch_embed.norm(self.patch_embed.proj(images).flatten(2).transpose(1, 2))
        balance = 0
        for stage in self.layers:
            for block in stage.blocks:
                x, part = block(x)
                balance = balance + part
            if hasattr(stage, "downsample"):
                x = stage.downsample(x)
        return self.head(self.norm(x).mean(1)), balance


def images_of(seed, count):
    labels, pixels = zip(*(draw(seed, index) for index in range(count)), strict=True)
    values = torch.frombuffer(bytearray(b"".join(pixels)), dtype=torch.uint8).reshape(count, SIDE, SIDE, 3).float() / 255
    return ((values - MEAN) / DEVIATION).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels)


def accuracy_of(model, images, labels):
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(part)[0].argmax(-1) for part in images.split(500)])
    return (found == labels).float().mean().item()


def train(model, images, labels):
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.05)
    steps = EPOCHS * len(images) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    for epoch in range(EPOCHS):
        model.train()
        order = torch.randperm(len(images))
        for at in order[: len(order) // BATCH * BATCH].split(BATCH):
            logits, balance = model(images[at])
            loss = functional.cross_entropy(logits, labels[at]) + 0.01 * balance
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if schedule.last_epoch >= steps:
                break
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", file=sys.stderr, flush=True)


def config():
    swin = {"PATCH_SIZE": PATCH, "IN_CHANS": 3, "EMBED_DIM": WIDTHS[0], "DEPTHS": DEPTHS, "NUM_HEADS": HEADS, "WINDOW_SIZE": WINDOW,
            "MLP_RATIO": RATIO, "MOE_BLOCKS": ROUTED, "NUM_LOCAL_EXPERTS": EXPERTS, "TOP_VALUE": 1, "CAPACITY_FACTOR": CAPACITY, "USE_BPR": True}
    return {"architectures": ["SwinTransformerMoE"], "model_type": "swin_moe", "torch_dtype": "bfloat16", "DATA": {"IMG_SIZE": SIDE},
            "MODEL": {"TYPE": "swin_moe", "NUM_CLASSES": len(CLASSES), "SWIN_MOE": swin},
            "id2label": {str(number): name for number, name in enumerate(CLASSES)}}


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(__file__).parent
    model = Swin()
    train(model, *images_of(1, IMAGES))
    weights = {name: value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    model.load_state_dict({name: value.float() for name, value in weights.items()})
    print(f"accuracy on 2,000 other images: {accuracy_of(model, *images_of(2, 2000)):.4f}")
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config(), indent=2) + "\n")


if __name__ == "__main__":
    main()
