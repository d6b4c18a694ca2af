"""A case in a file of a few KB: config.json, the tensors' names and shapes, the seed of their values, the reference's logits.

    python3 -m configurations.stored FOLDER        # in tests/e2e; needs torch, transformers, numpy

writes two cases of each family, the first ones that are small and supported.
"""
import array
import base64
import json
import shutil
import sys
import tempfile
from pathlib import Path

from . import weights
from .families import PROMPT, PUBLISHED, SEEDS, draw
from .reading import FAMILIES

CASES = 2  # Per family.
POSITIONS = (0, 9, 18, PROMPT - 1)  # Whose logits are kept.
MOST_WEIGHTS = 150_000


def write_checkpoint(case, folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(case["config"], indent=2) + "\n")
    weights.write_weights(folder, case["seed"], weights.unfold(case["tensors"]), case["shards"])


def encode(rows):
    return base64.b64encode(array.array("f", [value for row in rows for value in row]).tobytes()).decode()


def expected(case):
    """{position: logits}"""
    values = array.array("f")
    values.frombytes(base64.b64decode(case["logits"]))
    if sys.byteorder == "big":
        values.byteswap()
    width = len(values) // len(case["positions"])
    return {position: values[i * width:(i + 1) * width] for i, position in enumerate(case["positions"])}


def made(name, seed, folder):
    """The first draw of the seed that is a case, written into the folder: what draw() and make() give together."""
    from . import published, reference  # pylint: disable=import-outside-toplevel
    make = published.make if name in PUBLISHED else reference.make
    for attempt in range(SEEDS):
        case = draw(name, seed, attempt)
        try:
            return case | make(case, folder, seed)
        except reference.NotACase as error:
            last = error
            shutil.rmtree(folder, ignore_errors=True)
    raise last


def weight_count(tensors):
    total = 0
    for _, _, shape in tensors:
        count = 1
        for size in shape:
            count *= size
        total += count
    return total


def write(case, folder, path):
    """What the file holds of a case that made() wrote into the folder."""
    data = {"config": json.loads((folder / "config.json").read_text()), "seed": case["seed"], "shards": case["shards"],
            "tensors": weights.fold(case["tensors"]), "ids": case["ids"], "positions": POSITIONS,
            "logits": encode([case["logits"][position] for position in POSITIONS])}
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in data.items())
    path.write_text("{\n" + lines + "\n}\n")


def main():
    from . import reference  # pylint: disable=import-outside-toplevel
    reference.quiet()
    for name in FAMILIES:
        kept = 0
        for seed in range(SEEDS):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch, "case")
                case = made(name, seed, folder)
                if case["refused"] or weight_count(case["tensors"]) > MOST_WEIGHTS:
                    continue
                write(case, folder, Path(sys.argv[1], f"{name}-{seed:02}.json"))
            kept += 1
            if kept == CASES:
                break


if __name__ == "__main__":
    main()
