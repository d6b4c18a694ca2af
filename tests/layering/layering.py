#!/usr/bin/env python3
"""Holds the include lines of every tracked C++ file against the layers of the project.

    layering.py [ROOT]

A rule names a folder and either the only project folders that it may include (ONLY) or what it must never include
(NEVER). All rules that fit a file apply. Prints one line per violation; exits 1 if there is any.
"""
import re
import subprocess
import sys
from pathlib import Path

# What needs LLVM, reads YAML or parses command lines: none of it may enter the runtime.
MLIR = ("mlir/", "mlir-c/", "llvm/", "llvm-c/")
HEAVY = MLIR + ("yaml-cpp/", "CLI/")

# The project's own folders; an include that starts with none of them belongs to a library.
PROJECT = ("runtime/", "compiler/", "passes/", "profiles/", "tools/", "tests/", "moert/")

# The rooms of compiler/ that stand above passes/ and profiles/, each above the ones before it; what is below them
# includes neither them nor passes nor profiles.
ROOMS = ("compiler/inspection/", "compiler/pipeline/", "compiler/planning/", "compiler/report/", "compiler/commands/", "compiler/accuracy/")
BELOW_ROOMS = ("import", "ir", "quantize", "plan", "profile", "emit", "pool", "calibrate", "search", "picture")

ONLY = {
    "runtime/base/": ("runtime/base/",),
    "runtime/policy/": ("runtime/policy/", "runtime/base/"),
    "runtime/memory/": ("runtime/memory/", "runtime/policy/", "runtime/base/"),
    "runtime/io/": ("runtime/io/", "runtime/base/"),
    "runtime/format/": ("runtime/format/", "runtime/policy/", "runtime/base/"),
    "runtime/exec/": ("runtime/exec/", "runtime/format/", "runtime/base/"),
    "runtime/experts/": ("runtime/experts/", "runtime/io/", "runtime/format/", "runtime/memory/", "runtime/policy/",
                         "runtime/base/"),
    # A model opens its tokenizer with it.
    "runtime/engine/": ("runtime/engine/", "runtime/exec/", "runtime/experts/", "runtime/io/", "runtime/format/",
                        "runtime/memory/", "runtime/policy/", "runtime/base/", "runtime/text/tokenizer/"),
    # What is installed stands alone.
    "runtime/include/": ("moert/",),
    "runtime/images/": ("runtime/images/", "runtime/format/", "runtime/base/"),
    "runtime/text/tokenizer/": ("runtime/text/tokenizer/", "runtime/base/"),
    "runtime/text/answer/": ("runtime/text/answer/", "runtime/text/tokenizer/", "runtime/base/"),
    "runtime/text/chat/": ("runtime/text/chat/", "runtime/base/"),
    "runtime/text/grammar/": ("runtime/text/", "runtime/base/"),
    "runtime/text/sampling/": ("runtime/text/sampling/", "runtime/format/", "runtime/base/"),
    "runtime/": ("runtime/", "moert/"),
    "compiler/plan/": ("compiler/plan/", "runtime/base/", "runtime/memory/", "runtime/policy/"),
    "compiler/session/": ("compiler/session/", "runtime/base/"),
    "compiler/": ("compiler/", "passes/", "profiles/", "runtime/", "moert/"),
    "passes/": ("passes/", "compiler/", "profiles/", "runtime/"),
    "profiles/": ("profiles/", "compiler/plan/", "runtime/base/"),
    "tools/console/": ("tools/console/", "runtime/base/"),
    "tools/moert/": ("tools/moert/", "tools/console/", "runtime/", "moert/"),
    "tools/": ("tools/", "compiler/", "passes/", "profiles/", "runtime/", "moert/"),
}

NEVER = {
    "runtime/": HEAVY,
    **{f"compiler/{part}/": ("passes/", "profiles/") + ROOMS for part in BELOW_ROOMS},
    **{room: ROOMS[place + 1:] for place, room in enumerate(ROOMS)},
    "passes/": ROOMS,
    "profiles/": MLIR + ("CLI/",),
    "tools/moert/": MLIR + ("yaml-cpp/",),
}
for part in ("plan", "import", "quantize"):
    NEVER[f"compiler/{part}/"] += HEAVY

# Neither what an artifact is made from nor what a run computes may depend on libm's version: DeterministicMath.h.
LIBM = re.compile(r"\bstd::(exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|sin|cos|tan|tanh|erf|lgamma)f?\(")
WITHOUT_LIBM = ("runtime/", "compiler/plan/", "compiler/import/", "compiler/quantize/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def source_files(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "*.h", "*.hpp", "*.cpp", "*.inc", "*.cu"],
                            check=True, capture_output=True, text=True).stdout
    return [f for f in listed.splitlines() if (root / f).is_file()]


def includes(root, path):
    for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == '"', match[2]


def libm_calls(root, path):
    if path.startswith(WITHOUT_LIBM):
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            for match in LIBM.finditer(line):
                yield f"{path}:{number}: {match[0]}...): results differ by libm's version; take DeterministicMath.h"


def project_path(root, path, quoted, name):
    """The include as a path from the top of the tree, or None for a library's header."""
    if name.startswith(PROJECT):
        return name
    beside = Path(path).parent / name
    return beside.as_posix() if quoted and (root / beside).is_file() else None


def faults(path, name, project):
    for folder, allowed in ONLY.items():
        if path.startswith(folder) and project and not project.startswith(allowed):
            yield f"{folder} may include only {', '.join(allowed)}"
    for folder, banned in NEVER.items():
        target = project or name
        if path.startswith(folder) and target.startswith(banned):
            yield f"{folder} must never include {', '.join(b for b in banned if target.startswith(b))}"


def violations(root):
    root = Path(root)
    for path in source_files(root):
        yield from libm_calls(root, path)
        for number, quoted, name in includes(root, path):
            if ".." in Path(name).parts:
                yield f"{path}:{number}: includes {name}: name it from the top of the tree"
                continue
            for fault in faults(path, name, project_path(root, path, quoted, name)):
                yield f"{path}:{number}: includes {name}, but {fault}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2])
    found = list(violations(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
