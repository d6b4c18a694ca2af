"""tools/check and the layering rules: a deliberately wrong tree is refused, each time for the one reason it is wrong."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLEAN = "// What this file is for.\nint answer();\n"


class Tree:
    """A git tree in a temporary folder, with the project's layout rules."""

    def __init__(self, folder):
        self.root = Path(folder)
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.write(".clang-format", (ROOT / ".clang-format").read_text())

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        subprocess.run(["git", "-C", str(self.root), "add", path], check=True)

    def check(self, *flags, **environment):
        """The exit status, the failed checks and the whole output of tools/check."""
        done = subprocess.run([str(ROOT / "tools/check"), "--root", str(self.root), *flags], capture_output=True, text=True,
                              env=os.environ | environment)
        failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAIL")]
        return done.returncode, failed, done.stdout + done.stderr


class TreeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)
        self.tree.write("runtime/base/Clean.cpp", CLEAN)

    def refused(self, check, mention):
        status, failed, output = self.tree.check()
        self.assertEqual(status, 1, output)
        self.assertEqual(failed, [check], output)
        self.assertIn(mention, output)


class CheckTest(TreeTest):
    def test_a_clean_tree_passes_every_check(self):
        status, failed, output = self.tree.check()
        self.assertEqual((status, failed), (0, []), output)
        self.assertEqual(output.count("ok "), 9)

    def test_a_badly_laid_out_file_is_refused_by_name(self):
        self.tree.write("runtime/base/Bad.cpp", "int  answer( ){return 42;}\n")
        self.refused("format", "runtime/base/Bad.cpp:1")

    def test_a_check_that_does_not_run_fails(self):
        for checks, program, ending in ((["format"], "clang-format", "kill -SEGV $$"), (["spelling"], "codespell", "exit 70"),
                                        (["layering", "links", "idioms"], "python3", "exit 1")):
            with self.subTest(program), tempfile.TemporaryDirectory() as folder:
                broken = Path(folder) / program
                broken.write_text(f"#!/bin/sh\n{ending}\n")
                broken.chmod(0o755)
                status, failed, output = self.tree.check(PATH=f"{folder}:{os.environ['PATH']}")
                self.assertEqual((status, failed), (1, checks), output)

    def test_a_fault_in_a_changed_file_of_a_build_is_refused(self):
        fault = "#include <string>\n\nint twice(std::string text) {\n  return 2 * static_cast<int>(text.size());\n}\n"
        subprocess.run(["git", "-C", str(self.tree.root), "-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"], check=True)
        self.tree.write(".clang-tidy", (ROOT / ".clang-tidy").read_text())
        self.tree.write("runtime/base/Copy.cpp", fault)
        self.assertEqual(self.tree.check()[:2], (0, []))
        source = str(self.tree.root / "runtime/base/Copy.cpp")
        self.tree.write("build/release/compile_commands.json",
                        json.dumps([{"directory": str(self.tree.root), "file": source, "command": f"c++ -std=c++20 -c {source}"}]))
        self.refused("tidy", "runtime/base/Copy.cpp:3")

    def test_a_misspelt_word_is_refused_with_its_line(self):
        self.tree.write("README.md", "This is t" + "eh project.\n")
        self.refused("spelling", "README.md:1")

    def test_an_identifier_is_not_spelt(self):
        self.tree.write("runtime/base/Names.h", "// A name that is no word.\nint atLeast();\n")
        self.assertEqual(self.tree.check()[:2], (0, []))

    def test_a_path_of_one_machine_is_refused(self):
        self.tree.write("tools/demo", "cat /" + "home/somebody/model.moe\n")
        self.refused("paths", "tools/demo:1")

    def test_a_relative_path_or_an_address_is_no_machine_path(self):
        self.tree.write("tools/demo", "cat build/home/x https://example.org/home/x ~/home/x ./root/x\n")
        self.assertEqual(self.tree.check()[:2], (0, []))

    def test_a_file_too_long_for_one_sitting_is_refused(self):
        self.tree.write("runtime/base/Long.cpp", CLEAN + "// A line.\n" * 600)
        self.refused("length", "602 lines")

    def test_a_long_file_that_says_why_passes(self):
        self.tree.write("runtime/base/Long.cpp", "// Long because it is a table.\n" + "// A line.\n" * 600)
        self.assertEqual(self.tree.check()[:2], (0, []))

    def test_a_test_that_draws_unseeded_numbers_is_refused(self):
        for name, line in (("a.cpp", "std::random_device device;"), ("a.cpp", "std::mt19937 random{};"), ("a.cpp", "int x = rand();"),
                           ("a.cpp", "srand(time(NULL));"), ("a.py", "os.urandom(8)"), ("a.py", "random.Random().random()"),
                           ("a.py", "x = random.randrange(8)"), ("a.py", "np.random.default_rng()"), ("a.py", "random.SystemRandom()")):
            with self.subTest(line=line):
                self.tree.write(f"tests/{name}", line + "\n")
                self.refused("seeds", f"tests/{name}:1")
                self.tree.write(f"tests/{name}", "\n")

    def test_a_seed_may_be_a_number_or_come_from_outside(self):
        self.tree.write("tests/a.cpp", "std::mt19937 random(seed), other(26);\n// std::mt19937 random;\nint brand();\n")
        self.tree.write("tests/a.py", "x = random.Random(26).random()\nnumpy.random.default_rng(1).random()\n")
        self.assertEqual(self.tree.check()[:2], (0, []))

    def test_an_untracked_file_is_left_alone(self):
        (self.tree.root / "scratch.cpp").write_text("int  x( ){}\n")
        self.assertEqual(self.tree.check()[:2], (0, []))

    def test_an_unknown_argument_is_a_usage_error(self):
        done = subprocess.run([str(ROOT / "tools/check"), "--rooot"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


PAGE = """# A page

## One, two: `three` & [four](docs/other.md)

## Again
## Again

[itself](#again-1) [a file](docs/other.md) [its heading](docs/other.md#a-heading) ![a picture](plan.svg) [a folder](docs/)
[elsewhere](https://example.org/missing.md) `[code](missing.md)` [the first](#one-two-three--four)

    [an example](missing.md)

```
[more](missing.md)
```
"""


class LinkTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.tree.write("docs/other.md", "# A heading\n")
        self.tree.write("plan.svg", "<svg/>\n")

    def test_links_to_files_folders_and_headings_pass(self):
        self.tree.write("README.md", PAGE)
        status, failed, output = self.tree.check()
        self.assertEqual((status, failed), (0, []), output)

    def test_a_link_without_a_file_or_heading_is_refused_with_its_line(self):
        for link, mention in (("[x](docs/missing.md)", "docs/missing.md: there is no such file"),
                              ("![x](missing.svg)", "missing.svg: there is no such file"),
                              ("[x](docs/other.md#b)", "other.md has no such heading"), ("[x](#b)", "README.md has no such heading"),
                              ("[x]: missing.md", "missing.md: there is no such file"), ("[x](/README.md)", "is relative")):
            with self.subTest(link):
                self.tree.write("README.md", f"# A page\n\n{link}\n")
                self.refused("links", "README.md:3: ")
                self.refused("links", mention)

    def test_a_page_in_a_folder_links_from_there(self):
        self.tree.write("docs/more.md", "[x](other.md) [y](../plan.svg)\n")
        self.assertEqual(self.tree.check()[:2], (0, []))
        self.tree.write("docs/more.md", "[x](docs/other.md)\n")
        self.refused("links", "docs/more.md:1: docs/other.md")


class IdiomTest(unittest.TestCase):
    """Each pattern of tools/idioms.txt finds a wording, and none finds plain English."""

    FOUND = [
        ("// A run that is gone on with.", "resume"), ("// What a step is told by", "found from"), ("// Of every layer, the first.", "subject"),
        ("// It is a share of the experts.", "fraction"), ("// What comes of the tokens.", "result"), ("// What stands behind it.", "follows"),
        ("// The text behind the prompt.", "after"), ("// The artifact stays as it is.", "unchanged"), ("// No stop text at all.", "leave it out"),
        ("// The plan says what to read.", "returns"), ("// What moec inspect says of it.", "reports"), ("uint64_t guessBytes;", "prefetch"),
        ("bool isDoomed;", "cancelled"), ("uint64_t adopted;", "useful"), ("uint64_t refuted;", "wasted"), ("uint64_t awaited;", "stalled"),
        ("bool isSettled;", "synchronous"), ("kCyclic,", "decayed"), ("uint64_t transitPages;", "staging"), ("double wager;", "safety"),
        ("uint32_t looks = lookCount;", "acceptance test"), ("Status playLayer();", "execute"), ("double presentRate;", "resident"),
        ("double firstBar;", "threshold"), ("double hitShare;", "fraction"), ("double share = 0;", "fraction"), ("size.share", "fraction"),
        ("// The path table of a layer.", "activation-path"),
    ]
    PLAIN = ["// Look up a name; goes on until the end.", "// The replay displays a transition.", "// After the prompt, resume the run.",
             "// An activation-path table.", "// Shares the pool; heads that share a key share its cache. Layers share out work, and each shares it.",
             "bool sharesBytes(bool slotsShareMemory);", "std::shared_ptr<int> shared;",
             "// At all times the page has an owner.", "// One of the layers.", "int lookUp();", "// Progress bar of a terminal."]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)

    def test_every_pattern_finds_its_wording_and_says_what_to_write(self):
        patterns = [line for line in (ROOT / "tools/idioms.txt").read_text().splitlines() if line[:1] not in ("", "#")]
        instead = [line.rpartition(" => ")[2] for line in patterns if " => " in line]
        for place, (wording, _) in enumerate(self.FOUND):
            self.tree.write(f"runtime/base/Words{place}.h", f"// A file.\n{wording}\n")
        status, failed, output = self.tree.check("--idioms")
        self.assertEqual((status, failed), (1, ["idioms"]), output)
        for place, (wording, mention) in enumerate(self.FOUND):
            with self.subTest(wording):
                self.assertRegex(output, rf"runtime/base/Words{place}\.h:2: .*{mention}")
        self.assertEqual([text for text in instead if text not in output], [])

    def test_plain_english_passes(self):
        self.tree.write("runtime/base/Words.h", "\n".join(self.PLAIN) + "\n")
        status, failed, output = self.tree.check("--idioms")
        self.assertEqual((status, failed), (0, []), output)

    def test_documents_and_messages_count_and_data_does_not(self):
        self.tree.write("docs/page.md", "The artifact stays as it is.\n")
        self.tree.write("tests/data/texts/a.md", "The artifact stays as it is.\n")
        output = self.tree.check("--idioms")[2]
        self.assertIn("docs/page.md:1", output)
        self.assertNotIn("tests/data", output)

    def run_with(self, patterns):
        file = self.tree.root / "patterns.txt"
        file.write_text(patterns)
        done = subprocess.run(["python3", str(ROOT / "tests/layering/idioms.py"), "--patterns", str(file), str(self.tree.root)],
                              capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_an_exception_is_for_one_file_and_the_lines_that_fit(self):
        self.tree.write("a.h", "// one word\n// one word more\n")
        self.tree.write("b.h", "// one word\n")
        status, output = self.run_with("one word => two words\nallow a.h: more$\n")
        self.assertEqual((status, output), (1, "a.h:1: 'one word': two words\nb.h:1: 'one word': two words\n"))

    def test_a_broken_pattern_is_a_fault(self):
        for patterns in ("(one => two\n", "no arrow\n"):
            status, output = self.run_with(patterns)
            self.assertEqual(status, 1)
            self.assertIn("patterns.txt:1: ", output)


class LibmTest(unittest.TestCase):
    def test_what_differs_by_libm_is_refused_in_the_runtime_and_where_artifacts_are_made(self):
        for folder, status in (("compiler/plan", 1), ("runtime/evaluation", 1), ("compiler/picture", 0)):
            with self.subTest(folder), tempfile.TemporaryDirectory() as root:
                tree = Tree(root)
                tree.write(f"{folder}/Made.cpp", "// What this file is for.\n#include <cmath>\n\n"
                                                 "double half(double x) {\n  return std::log(x) / std::sqrt(x);\n}\n")
                found, failed, output = tree.check()
                self.assertEqual((found, failed), (status, ["layering"] if status else []), output)


# Includes that no layer allows: file, include, and what the refusal has to say.
FORBIDDEN = [
    ("runtime/engine/Engine.cpp", '"compiler/plan/Plan.h"', "runtime/"),
    ("runtime/engine/Engine.cpp", '"passes/Passes.h"', "runtime/"),
    ("runtime/engine/Engine.cpp", '"profiles/Profile.h"', "runtime/"),
    ("runtime/engine/Engine.cpp", "<mlir/IR/Builders.h>", "must never include"),
    ("runtime/engine/Engine.cpp", '"llvm/ADT/StringRef.h"', "must never include"),
    ("runtime/include/moert/moert.h", "<CLI/CLI.hpp>", "must never include"),
    ("runtime/include/moert/moert.hpp", '"runtime/base/Status.h"', "runtime/include/ may include only"),
    ("runtime/io/Reader.cpp", "<yaml-cpp/yaml.h>", "must never include"),
    ("runtime/base/Status.h", '"runtime/io/Reader.h"', "runtime/base/ may include only"),
    ("runtime/policy/Evict.h", '"runtime/experts/Cache.h"', "runtime/policy/ may include only"),
    ("runtime/experts/Table.h", '"runtime/engine/Engine.h"', "runtime/experts/ may include only"),
    ("runtime/engine/Engine.cpp", '"runtime/text/chat/Chat.h"', "runtime/engine/ may include only"),
    ("compiler/plan/Plan.cpp", '"runtime/format/Artifact.h"', "compiler/plan/ may include only"),
    ("compiler/plan/Plan.cpp", '"compiler/ir/Moe.h"', "compiler/plan/ may include only"),
    ("compiler/plan/Plan.cpp", '"mlir/IR/Builders.h"', "must never include"),
    ("compiler/import/Safetensors.cpp", '"mlir/IR/Builders.h"', "must never include"),
    ("compiler/quantize/Quantize.cpp", '"llvm/Support/Error.h"', "must never include"),
    ("passes/AssignBits.cpp", '"compiler/commands/Compile.h"', "must never include"),
    ("passes/AssignBits.cpp", '"tools/moec/Main.h"', "passes/ may include only"),
    ("compiler/emit/EmitArtifact.cpp", '"passes/Passes.h"', "must never include"),
    ("compiler/emit/EmitArtifact.cpp", '"compiler/planning/Replan.h"', "must never include"),
    ("compiler/inspection/Inspect.cpp", '"compiler/planning/Replan.h"', "must never include"),
    ("compiler/session/Session.h", '"compiler/emit/EmitPlan.h"', "compiler/session/ may include only"),
    ("compiler/ir/Moe.cpp", '"tools/moec/Main.h"', "compiler/ may include only"),
    ("profiles/DeviceFile.cpp", '"compiler/import/Checkpoint.h"', "profiles/ may include only"),
    ("profiles/DeviceFile.cpp", '"mlir/IR/Builders.h"', "must never include"),
    ("tools/moert/main.cpp", '"profiles/DeviceFile.h"', "tools/moert/ may include only"),
    ("tools/moert/main.cpp", '"compiler/import/Checkpoint.h"', "tools/moert/ may include only"),
    ("tools/moert/main.cpp", '"mlir/IR/Builders.h"', "must never include"),
    ("tools/console/Interrupt.h", '"runtime/engine/Engine.h"', "tools/console/ may include only"),
    ("runtime/io/Reader.cpp", '"tests/unit/io/Fake.h"', "runtime/"),
    ("runtime/io/Reader.cpp", '"../base/Status.h"', "from the top of the tree"),
]

ALLOWED = [
    ("runtime/engine/Engine.cpp", '"runtime/experts/ExpertCache.h"'),
    ("runtime/engine/Engine.cpp", '"runtime/text/tokenizer/Tokenizer.h"'),
    ("runtime/include/moert/moert.hpp", '"moert/moert.h"'),
    ("runtime/base/Checksum.cpp", "<xxhash.h>"),
    ("runtime/experts/Table.cpp", '"runtime/policy/Prefetches.h"'),
    ("compiler/plan/Plan.cpp", '"runtime/memory/MemoryBudget.h"'),
    ("compiler/import/Config.cpp", "<nlohmann/json.hpp>"),
    ("compiler/commands/Compile.cpp", '"mlir/IR/Builders.h"'),
    ("passes/AssignBits.cpp", '"compiler/plan/Plan.h"'),
    ("passes/SchedulePrefetch.cpp", '"profiles/DeviceFile.h"'),
    ("profiles/DeviceFile.cpp", '"compiler/plan/DeviceProfile.h"'),
    ("profiles/DeviceFile.cpp", "<yaml-cpp/yaml.h>"),
    ("tools/moec/main.cpp", '"profiles/DeviceFile.h"'),
    ("tools/moert/main.cpp", "<CLI/CLI.hpp>"),
    ("tools/moert/main.cpp", '"tools/console/Interrupt.h"'),
    ("tools/moec/main.cpp", '"compiler/commands/Compile.h"'),
    ("tests/unit/io/ReaderTest.cpp", '"runtime/io/Reader.h"'),
]


class LayeringTest(unittest.TestCase):
    def run_on(self, path, include):
        with tempfile.TemporaryDirectory() as folder:
            Tree(folder).write(path, f"// What this file is for.\n#include {include}\n")
            done = subprocess.run(["python3", str(ROOT / "tests/layering/layering.py"), folder],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout

    def test_every_forbidden_include_is_refused_with_its_line_and_rule(self):
        for path, include, rule in FORBIDDEN:
            with self.subTest(path=path, include=include):
                status, output = self.run_on(path, include)
                self.assertEqual(status, 1, output)
                self.assertIn(f"{path}:2", output)
                self.assertIn(rule, output)

    def test_every_allowed_include_passes(self):
        for path, include in ALLOWED:
            with self.subTest(path=path, include=include):
                self.assertEqual(self.run_on(path, include), (0, ""))

    def test_a_header_beside_the_file_counts_with_its_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = Tree(folder)
            tree.write("tests/Helper.h", "// Help.\n")
            tree.write("tests/HelperTest.cpp", '#include "Helper.h"\n')
            done = subprocess.run(["python3", str(ROOT / "tests/layering/layering.py"), folder])
            self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
