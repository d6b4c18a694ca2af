"""Reads spaces/: the keys of every family, and values for them.

A file is a family. [base] is the published form of config.json with tiny dimensions, [outer] what is around it in a nested one. [twists]
are changes of keys: `key: VALUE | VALUE | ...` one for each value, `{"key": VALUE, ...}` one that changes several keys, `"-"` removes a key,
`@NAME` those of spaces/_NAME.txt. [refused] has twists that the family refuses by name, each after a pattern of its message.
"""
import json
from pathlib import Path

ABSENT = "-"
SPACES = Path(__file__).with_name("spaces")


def twists_of(lines):
    twists = []
    for line in lines:
        if line.startswith("@"):
            for name in line.split():
                twists += twists_of((SPACES / f"_{name[1:]}.txt").read_text().splitlines())
        elif line.startswith("{"):
            twists.append(json.loads(line))
        else:
            key, values = line.split(": ", 1)
            twists += [{key: json.loads(value)} for value in values.split(" | ")]
    return twists


def pairs_of(lines):
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}


def read(path):
    """{"outer" or None, "base", "twists", "refused": [(twist, word)]}"""
    sections = {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            lines = sections[line.strip("[]")] = []
        else:
            lines.append(line)
    refused = [(json.loads(twist), word) for word, twist in (line.split(": ", 1) for line in sections.get("refused", ()))]
    return {"outer": pairs_of(sections["outer"]) if "outer" in sections else None, "base": pairs_of(sections["base"]),
            "twists": twists_of(sections["twists"]), "refused": refused}


FAMILIES = {path.stem: read(path) for path in sorted(SPACES.glob("[!_]*.txt"))}
