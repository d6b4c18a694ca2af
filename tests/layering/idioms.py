#!/usr/bin/env python3
"""Finds wordings and replaced terms that may not come back, by the patterns of tools/idioms.txt, in every tracked text file.

    idioms.py [--patterns FILE] [ROOT]

Prints one line per hit, with what to write instead, and a line per pattern or exception that is wrong or of no use; exits 1 if
there is any.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
TEXT = ("*.h", "*.cpp", "*.cu", "*.inc", "*.td", "*.fbs", "*.mlir", "*.py", "*.md", "*.cmake", "*CMakeLists.txt", "*.yaml", "tools/*",
        "tests/bench/*", "tests/e2e/run")
# Texts that others wrote, or that quote what is looked for.
NOT_OURS = ("tests/data/", "tests/fuzz/corpus/", "tests/compat/", "tools/idioms.txt", "tests/layering/test_check.py", "THIRD_PARTY")


class Patterns:
    """Lines `REGEX => what to write instead`, and `allow PATH: REGEX` for lines of a file that are right nevertheless."""

    def __init__(self, path):
        self.patterns, self.allowed, self.faults = [], [], []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            place = f"{path.name}:{number}"
            allow = re.match(r"allow (\S+): (.+)", line)
            regex, arrow, instead = line.rpartition(" => ")
            try:
                if allow:
                    self.allowed.append([place, allow[1], re.compile(allow[2]), False])
                elif arrow:
                    self.patterns.append((re.compile(regex.rstrip()), instead.strip()))
                else:
                    self.faults.append(f"{place}: expected 'REGEX => what to write instead' or 'allow PATH: REGEX'")
            except re.error as error:
                self.faults.append(f"{place}: {error}")

    def is_allowed(self, path, line):
        fitting = [entry for entry in self.allowed if entry[1] == path and entry[2].search(line)]
        for entry in fitting:
            entry[3] = True
        return bool(fitting)

    def unused(self):
        return [f"{place}: nothing in {path} needs this exception" for place, path, _, used in self.allowed if not used]


def text_files(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files", *TEXT], check=True, capture_output=True, text=True).stdout
    return [path for path in listed.splitlines() if not path.startswith(NOT_OURS) and (root / path).is_file()]


def hits(root, patterns):
    for path in text_files(root):
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            for regex, instead in patterns.patterns:
                match = regex.search(line)
                if match and not patterns.is_allowed(path, line):
                    yield f"{path}:{number}: '{match[0].strip()}': {instead}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", type=Path, default=HERE.parents[2] / "tools/idioms.txt")
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parents[2])
    args = parser.parse_args()
    patterns = Patterns(args.patterns)
    found = patterns.faults + list(hits(args.root, patterns))
    # Exceptions are of this tree; another one (tests) need not have their files.
    if args.root.resolve() == HERE.parents[2]:
        found += patterns.unused()
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
