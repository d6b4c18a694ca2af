#!/usr/bin/env python3
"""Speed of the first layers of published models with random weights, beside the rate of reading memory.

    tests/bench/dimensions.py [NAME ...]

Prints a table for docs/measurements/dimensions.md. Each model is compiled at 4 bits and decodes with all experts in
memory and with a quarter of them. `reading` is the time that reading a token's weights takes at the machine's rate, as
kernel_bench measures it beside each model, divided by the token's time: attention, recurrences, routers and the
sampling of a whole vocabulary are in the token's time only.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from test_dimensions import GENERATOR, RUN, config_of  # noqa: E402

BUILD = ROOT / "build/release"
RESIDENT_BITS = 8.5  # 8 bits and a scale of 16 for each 32 of them.


def output(*command):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout


def reading_rate():
    """Bytes a second by all threads."""
    said = output(BUILD / "tests/kernel_bench", "--formats", "int8/32", "--shapes", "512x512", "--rounds", 3, "--memory", 512)
    return max(float(rate) for rate in re.findall(r"reading ([0-9.]+) ", said)) * 1e9


def token_bytes(model, directory):
    """Bytes of the weights that one token reads: residents without the embedding's other rows, and its experts."""
    planned = json.loads(output(BUILD / "bin/moec", "plan", directory, "--memory", "100%", "--json"))
    said = json.loads(output(BUILD / "bin/moec", "inspect", model, "--json"))
    resident = next(section["bytes"] for section in said["sections"] if section["name"] == "resident")
    chosen = planned["top_k"] / planned["experts"]
    unread = planned["parameters"] - planned["active_parameters"] - (1 - chosen) * planned["expert_parameters"]
    return resident - unread * RESIDENT_BITS / 8 + chosen * said["expert_payload_bytes"]


def measure(name, directory):
    (directory / "config.json").write_text(json.dumps(config_of(name, RUN[name])))
    subprocess.run([GENERATOR, directory], check=True)
    model = directory / "model.moe"
    output(BUILD / "bin/moec", "compile", directory, "--bits", 4, "--no-calibration", "-o", model)
    (directory / "model.safetensors").unlink()
    rate = reading_rate()
    row = [name, str(RUN[name])]
    for memory in ("100%", "25%"):
        bench = json.loads(output(BUILD / "bin/moert", "bench", model, "--memory", memory, "--prompt-tokens", 64, "--tokens", 64,
                                  "--warm-up", 1, "--json"))
        tokens = bench["decode_tokens_per_s"]["median"]
        row.append(f"{tokens:.1f}")
        if memory == "100%":
            row.append(f"{token_bytes(model, directory) * tokens / rate:.0%}")
    return row


def main():
    print(machine.processor())
    print("| model | layers | tokens/s, all in memory | reading | tokens/s, 25% |\n|---|---|---|---|---|")
    for name in sys.argv[1:] or RUN:
        with tempfile.TemporaryDirectory() as directory:
            print("| " + " | ".join(measure(name, Path(directory))) + " |", flush=True)


if __name__ == "__main__":
    main()
