# lit over the dialect and the passes: FileCheck on what moec-opt prints, -verify-diagnostics on what it refuses.
import os

import lit.formats

config.name = "moe"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.excludes = ["Inputs"]

# Programs by absolute path, independent of the caller's PATH.
for tool, directory in (
    ("moec-opt", config.moe_tools_dir),
    ("FileCheck", config.llvm_tools_dir),
    ("not", config.llvm_tools_dir),
    ("split-file", config.llvm_tools_dir),
):
    config.substitutions.append((r"\b" + tool + r"\b(?!\.)", os.path.join(directory, tool)))
config.substitutions.append((r"(?<![\w/])moec(?![\w.-])", os.path.join(config.moe_tools_dir, "moec")))
