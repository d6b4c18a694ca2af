"""The command line: help, versions, exit codes, refusals, standard input, stopping."""
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import termios
from pathlib import Path

from support import DATA, DONE, INTERRUPTED, POCKET, ROOT, E2eTest, artifact, pocket, program, run

COMMANDS = {
    "moec": ["compile", "import", "emit", "calibrate", "self-text", "plan", "replan", "report", "inspect",
             "verify"],
    "moert": ["run", "chat", "logits", "eval", "tokenize", "bench", "serve", "probe"],
}


class HelpTest(E2eTest):
    def test_every_program_and_command_explains_itself(self):
        for name, commands in COMMANDS.items():
            for command in [[], *([word] for word in commands)]:
                with self.subTest(program=name, command=command):
                    done = self.expect(DONE, name, *command, "--help")
                    self.assertIn("--help", done.out)
                    self.assertNotRegex(done.out, r"(?m)^\s*:$")  # A heading without a name.
                    self.assertEqual(done.err, "")

    def test_the_options_of_a_command_are_apart_from_help_and_version(self):
        for command in self.helps():
            with self.subTest(command):
                said = self.expect(DONE, *command, "--help").out
                self.assertEqual(re.findall(r"(?m)^  (-\S+)", said.split("\nHelp:\n")[1]), ["-h,", "--version"])

    def test_the_help_of_a_program_names_its_commands(self):
        for name, commands in COMMANDS.items():
            said = self.expect(DONE, name, "--help").out
            for command in commands:
                self.assertRegex(said, rf"\b{command}\b")

    def helps(self):
        return [(name, *word) for name, commands in COMMANDS.items() for word in [(), *((command,) for command in commands)]]

    def help_in_terminal(self, columns, name, *command):
        """What --help prints where standard output is a terminal of so many columns."""
        controller, terminal = os.openpty()
        with os.fdopen(controller, "rb", buffering=0) as reader:
            with os.fdopen(terminal, "wb") as output:
                fcntl.ioctl(output, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
                process = subprocess.Popen([program(name), *command, "--help"], stdout=output)
            text = b""
            try:
                while block := reader.read(65536):
                    text += block
            except OSError:  # The terminal is closed.
                pass
            self.assertEqual(process.wait(), DONE)
        return text.decode().replace("\r\n", "\n")

    def test_help_is_as_wide_as_the_terminal_within_limits(self):
        for command in self.helps():
            with self.subTest(command):
                plain = self.expect(DONE, *command, "--help").out
                self.assertEqual(self.help_in_terminal(80, *command), plain)
                self.assertLessEqual(max(map(len, plain.splitlines())), 80)
                self.assertLessEqual(max(map(len, self.help_in_terminal(50, *command).splitlines())), 50)
                self.assertEqual(self.help_in_terminal(300, *command), self.help_in_terminal(100, *command))

    def test_every_command_has_an_example_that_its_command_line_takes(self):
        for command in self.helps():
            with self.subTest(command):
                said = self.expect(DONE, *command, "--help").out
                self.assertEqual(said.count("\nExample:\n"), 1)
                for line in said.split("\nExample:\n")[1].replace("\\\n", " ").splitlines():
                    example = shlex.split(line, comments=True)
                    name, *words = example[example.index(command[0]):]
                    self.assertEqual((name, *words)[:len(command)], command)
                    # Refused by what the files are, or for their absence, not for the command line.
                    done = run(name, *words, cwd=self.scratch)
                    self.assertNotIn("--help lists", done.err)

    def test_texts_of_options_are_in_one_column_and_options_in_named_groups(self):
        for command in self.helps():
            with self.subTest(command):
                said = self.expect(DONE, *command, "--help").out
                self.assertEqual(set(map(len, re.findall(r"(?m)^  -.*?  +(?=\S)", said))), {28})
                self.assertNotRegex(said, r"(?m)^(Options|Positionals|Subcommands):")
                self.assertNotRegex(said, r"\n\n\n")

    def test_the_help_of_compile_lists_the_quantizers(self):
        said = " ".join(self.expect(DONE, "moec", "compile", "--help").out.split())
        self.assertIn("auto, nearest, per-channel, clipped, weighted, hqq or gptq", said)

    def test_the_help_of_chat_has_the_defaults_that_come_from_the_checkpoint(self):
        said = {command: " ".join(self.expect(DONE, "moert", command, "--help").out.split()) for command in ("run", "chat")}
        for option, off in (("temp T", 0), ("top-k K", 0), ("top-p P", 1), ("min-p P", 0), ("repetition-penalty X", 1)):
            for command, default in (("run", str(off)), ("chat", "the checkpoint's")):
                with self.subTest(option=option, command=command):
                    text = said[command].split(f"--{option} ")[1]
                    self.assertEqual(re.search(r"\(default: (.*?)\)", text)[1], default)

    def test_every_program_and_command_says_its_version(self):
        versions = set()
        for name, commands in COMMANDS.items():
            for command in [[], *([word] for word in commands)]:
                with self.subTest(program=name, command=command):
                    said = self.expect(DONE, name, *command, "--version").out
                    self.assertRegex(said, r"^" + name + r" \d+\.\d+\.\d+")
                    versions.add(said.split()[1])
        self.assertEqual(len(versions), 1, versions)


    def test_what_cannot_be_shown_is_an_error(self):
        for name in COMMANDS:
            for flag in ("--help", "--version"):
                with self.subTest(program=name, flag=flag), open("/dev/full", "w") as full:
                    done = subprocess.run([program(name), flag], stdout=full, stderr=subprocess.PIPE, text=True)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(f"{name}: cannot write standard output", done.stderr)


class TypedOptionsTest(E2eTest):
    """Options by the names that other programs give them."""

    def test_the_document_holds_the_page_that_help_prints(self):
        page = self.expect(DONE, "moert", "help", "options").out
        self.assertEqual(self.expect(DONE, "moec", "help", "options").out, page)
        self.assertIn("".join("    " + line if line.strip() else line for line in page.splitlines(keepends=True)),
                      (ROOT / "docs/options.md").read_text())

    def test_every_name_of_the_page_is_taken_or_answered(self):
        """By a command that has the option of our name, or with what the page has instead."""
        aliases, others = self.expect(DONE, "moert", "help", "options").out.split("\n\n")
        helps = {(name, word): self.expect(DONE, name, word, "--help").out for name, commands in COMMANDS.items() for word in commands}
        rows = re.findall(r"(?m)^  (the model's file|--\S+) +((?:-.*\n(?: {20,}.*\n)*))", aliases)
        self.assertGreater(len(rows), 10)
        for own, typed in rows:
            command = next(c for c, text in helps.items() if own.startswith("the") or re.search(rf"(?m)^  (-\w, )?{own}\b", text))
            for word in typed.split():
                with self.subTest(" ".join([*command, word])):
                    done = run(*command, word, self.scratch / "missing.moe", "--frobnicate")
                    self.assertIn("no option --frobnicate", done.err)
        rows = re.findall(r"((?:^  -.*\n)+)((?:^      .*(?:\n|$))+)", others, re.MULTILINE)
        self.assertGreater(len(rows), 10)
        for typed, instead in rows:
            for word in typed.replace(":", "").split():
                with self.subTest(word):
                    self.refused("moert", "run", self.scratch / "missing.moe", word,
                                 mention=re.escape(f"no option {word}: {' '.join(instead.split())}"))

    def test_help_of_a_command_is_that_of_its_option(self):
        for name, commands in COMMANDS.items():
            for command in [[], *([word] for word in commands)]:
                with self.subTest(program=name, command=command):
                    self.assertEqual(self.expect(DONE, name, "help", *command).out, self.expect(DONE, name, *command, "--help").out)

    def test_a_run_with_names_of_other_programs_is_the_run_with_ours(self):
        ours = ("run", pocket("4"), "-p", "The old man", "--context", 64, "--threads", 1, "--seed", 3, "--tokens", 12, "--temp", 0.8,
                "--top-p", 0.9, "--min-p", 0.01, "--repetition-penalty", 1.1, "--memory", "1GB")
        others = ("run", "-c", 64, "-t", 1, "The old man", "-s", 3, "--n-predict", 12, "--temperature", 0.8, "--top_p", 0.9, "--min_p", 0.01,
                  "--repeat-penalty", 1.1, "--memory", "1gb", "-m", pocket("4"))
        self.assertEqual(self.expect(DONE, "moert", *others).out, self.expect(DONE, "moert", *ours).out)

    def test_minus_one_is_no_limit_and_no_seed(self):
        run = ("run", "-m", pocket("4"), "The old man", "--ignore-eos")
        said = json.loads(self.expect(DONE, "moert", *run, "-n", -1, "-c", 48, "--json").out)
        self.assertEqual((said["prompt_tokens"] + said["generated_tokens"], said["end"]), (48, "context"))
        seeds = {json.loads(self.expect(DONE, "moert", *run, "-n", 1, "--seed", -1, "--temp", 1, "--json").out)["seed"] for _ in range(2)}
        self.assertEqual(len(seeds), 2)

    def test_the_server_takes_them_too(self):
        self.refused("moert", "serve", "-m", self.scratch / "missing.moe", "-c", 64, "-np", 2, mention="missing.moe")
        self.refused("moert", "serve", "-m", self.scratch / "missing.moe", "-ngl", 99, mention="moert serve: no option -ngl: layers are not placed")


def broken_lines(model, scratch):
    """Command lines that cannot be meant: what is broken, the program, its arguments."""
    out = scratch / "out"
    compile_pocket = ["compile", POCKET, "-o", out]
    missing = scratch / "missing"
    return [
        ("no command", "moec", []),
        ("no command", "moert", []),
        ("unknown command", "moec", ["compiel", POCKET, "-o", out]),
        ("unknown command", "moert", ["rum", model]),
        ("unknown option", "moec", [*compile_pocket, "--bitz", "4"]),
        ("unknown option", "moert", ["run", model, "-p", "a", "--frobnicate"]),
        ("no output", "moec", ["compile", POCKET]),
        ("no checkpoint", "moec", ["compile", "-o", out]),
        ("a missing checkpoint", "moec", ["compile", missing, "-o", out]),
        ("a file for a checkpoint", "moec", ["compile", model, "-o", out]),
        ("no memory at all", "moec", [*compile_pocket, "--memory", "0B"]),
        ("no memory at all", "moec", ["plan", model, "--memory", "0B", "25%"]),
        ("an empty checkpoint", "moec", ["compile", scratch, "-o", out]),
        ("an unknown width", "moec", [*compile_pocket, "--bits", "7"]),
        ("a width that is no number", "moec", [*compile_pocket, "--bits", "four"]),
        ("an unknown resident width", "moec", [*compile_pocket, "--resident-bits", "3"]),
        ("an unknown width of the head", "moec", [*compile_pocket, "--head-bits", "5"]),
        ("no threads", "moec", [*compile_pocket, "--threads", "0"]),
        ("an output folder that is missing", "moec", ["compile", POCKET, "-o", missing / "a.moe"]),
        ("two checkpoints", "moec", ["compile", POCKET, POCKET, "-o", out]),
        ("a missing artifact", "moec", ["verify", missing]),
        ("a missing artifact", "moec", ["inspect", missing]),
        ("not an artifact", "moec", ["verify", POCKET / "config.json"]),
        ("not an artifact", "moert", ["run", POCKET / "config.json", "-p", "a"]),
        ("a missing artifact", "moert", ["run", missing, "-p", "a"]),
        ("a folder for an artifact", "moert", ["run", POCKET, "-p", "a"]),
        ("no prompt", "moert", ["run", model]),
        ("two prompts", "moert", ["run", model, "-p", "a", "-f", POCKET / "config.json"]),
        ("a missing prompt file", "moert", ["run", model, "-f", missing]),
        ("a size without a unit it knows", "moert", ["run", model, "-p", "a", "--memory", "6 parsecs"]),
        ("a negative size", "moert", ["run", model, "-p", "a", "--memory", "-6MiB"]),
        ("a size beyond 64 bits", "moert", ["run", model, "-p", "a", "--memory", "99999999999999GiB"]),
        ("a percentage that is no number", "moert", ["run", model, "-p", "a", "--memory", "x%"]),
        ("a budget too small", "moert", ["run", model, "-p", "a", "--memory", "1KiB"]),
        ("a count that is no number", "moert", ["run", model, "-p", "a", "-n", "many"]),
        ("a negative count", "moert", ["run", model, "-p", "a", "-n", "-2"]),
        ("no threads", "moert", ["run", model, "-p", "a", "--threads", "0"]),
        ("an unknown I/O", "moert", ["run", model, "-p", "a", "--io", "carrier-pigeon"]),
        ("an unknown instruction set", "moert", ["run", model, "-p", "a", "--isa", "z80"]),
        ("a chunk of nothing", "moert", ["run", model, "-p", "a", "--prefill-chunk", "0"]),
        ("a negative temperature", "moert", ["run", model, "-p", "a", "--temp", "-1"]),
        ("a probability to keep above one", "moert", ["run", model, "-p", "a", "--temp", "1", "--top-p", "1.5"]),
        ("the likeliest to draw among, with nothing drawn", "moert", ["run", model, "-p", "a", "--top-k", "5"]),
        ("a probability to keep, with nothing drawn", "moert", ["run", model, "-p", "a", "--top-p", "0.5"]),
        ("a least probability, with nothing drawn", "moert", ["run", model, "-p", "a", "--min-p", "0.5"]),
        ("a least probability above one", "moert", ["run", model, "-p", "a", "--temp", "1", "--min-p", "1.5"]),
        ("a repetition penalty of nothing", "moert", ["run", model, "-p", "a", "--repetition-penalty", "0"]),
        ("a bias without a token", "moert", ["run", model, "-p", "a", "--logit-bias", "0.5"]),
        ("a bias for a token beyond the vocabulary", "moert", ["run", model, "-p", "a", "--logit-bias", "4096=1"]),
        ("a bias that is no number", "moert", ["run", model, "-p", "a", "--logit-bias", "1=much"]),
        ("an n-gram stop after one", "moert", ["run", model, "-p", "a", "--ngram-stop", "20:1"]),
        ("an n-gram stop without a count", "moert", ["run", model, "-p", "a", "--ngram-stop", "20"]),
        ("a budget of nothing", "moert", ["run", model, "-p", "a", "--memory", "0B"]),
        ("a context beyond the model's positions", "moert", ["run", model, "-p", "a", "--context", "1000000"]),
        ("a context shorter than prompt and text", "moert", ["run", model, "-p", "a b c", "-n", "64", "--context", "8"]),
        ("no ids", "moert", ["logits", model, "-o", out]),
        ("no output", "moert", ["logits", model, "--ids", scratch / "ids.txt"]),
        ("an id beyond the vocabulary", "moert", ["logits", model, "--ids", scratch / "beyond.txt", "-o", out]),
        ("a negative id", "moert", ["logits", model, "--ids", scratch / "negative.txt", "-o", out]),
        ("an id that is no number", "moert", ["logits", model, "--ids", scratch / "words.txt", "-o", out]),
        ("an id beyond 64 bits", "moert", ["logits", model, "--ids", scratch / "huge.txt", "-o", out]),
        ("an empty file of ids", "moert", ["logits", model, "--ids", scratch / "empty.txt", "-o", out]),
        ("an empty file of ids", "moert", ["run", model, "--ids", scratch / "empty.txt"]),
        ("a missing text", "moert", ["eval", model, "--text", missing]),
        ("no text", "moert", ["eval", model]),
        ("a window of nothing", "moert", ["eval", model, "--text", scratch / "ids.txt", "--window", "0"]),
        ("nothing to tokenize", "moert", ["tokenize", model, "-f", missing]),
    ]


class RefusalTest(E2eTest):
    def test_every_broken_command_line_is_refused_in_words_and_leaves_nothing(self):
        model = pocket("4")
        for name, text in dict(ids="1 2 3", beyond="1 4096", negative="1 -2", words="1 two", huge="9" * 30,
                               empty="").items():
            (self.scratch / f"{name}.txt").write_text(text)
        before = sorted(self.scratch.iterdir())
        for what, name, arguments in broken_lines(model, self.scratch):
            with self.subTest(what, arguments=" ".join(map(str, [name, *arguments]))):
                done = self.refused(name, *arguments)
                self.assertLess(len(done.err), 4000)
                self.assertEqual(sorted(self.scratch.iterdir()), before, "something was left behind")

    def test_what_is_not_expected_is_named_in_its_order(self):
        self.refused("moec", "inspect", self.scratch / "a.moe", "b", "c", mention="not expected: b c\n")

    def test_an_unknown_option_before_a_command_is_named(self):
        for words in (["--foo"], ["--foo=3"], ["--foo", "inspect", self.scratch / "a.moe"]):
            for tool in ("moec", "moert"):
                self.refused(tool, *words, mention=f"{tool}: no option --foo before the command, expected {tool} COMMAND")

    def test_an_artifact_and_a_checkpoint_that_are_mixed_up_are_named_with_the_commands_that_fit(self):
        self.refused("moec", "compile", pocket("4"), "-o", self.scratch / "a.moe",
                     mention=f"found an artifact.*expected the folder of a checkpoint; moert run {pocket('4')}")
        for tool, command in (("moert", ["run", POCKET, "-p", "a"]), ("moec", ["verify", POCKET]), ("moec", ["report", POCKET, "--run", "run.json"])):
            self.refused(tool, *command, mention=f"found the folder of a checkpoint, expected an artifact; moec compile {POCKET} -o OUT.moe")

    def test_a_file_s_name_reaches_no_terminal_as_it_is(self):
        name = os.fsencode(self.scratch) + b"/a\x1b[31m\xff"
        for tool, command in (("moec", ["plan", name, "--memory", "25%"]), ("moec", ["inspect", name]), ("moert", ["run", name, "-p", "a"])):
            done = subprocess.run([program(tool), *command], capture_output=True)
            self.assertIn(rb"a\x1b[31m\xff", done.stderr)
            self.assertNotRegex(done.stderr, rb"[^ -~\n]")

    def test_a_number_that_is_none_or_out_of_range_is_named_with_what_it_may_be(self):
        for option, word, expected in (("--context", "abc", "from 1 to 1073741824"), ("--threads", "1000", f"from 1 to {max(64, 4 * os.cpu_count())}"),
                                       ("--seed", "many", f"from 0 to {2**64 - 1}")):
            self.refused("moec", "compile", POCKET, "-o", self.scratch / "m.moe", "--calibration-text", POCKET / "config.json",
                         option, word, mention=f"{option}: '{word}', expected a whole number {expected}\n")

    def test_a_target_chooses_the_head_s_width_or_is_given_all_widths(self):
        words = ["compile", POCKET, "-o", self.scratch / "m.moe", "--accuracy-loss", "2%", "--calibration-text", POCKET / "config.json"]
        self.refused("moec", *words, "--head-bits", 8, mention="--head-bits 8 with --accuracy-loss also needs --resident-bits")
        self.refused("moec", *words, "--head-bits", 8, "--resident-bits", 4, mention="a window of 512")

    def test_a_refused_compile_leaves_an_earlier_artifact_alone(self):
        output = self.scratch / "a.moe"
        output.write_bytes(b"an earlier artifact")
        self.refused("moec", "compile", self.scratch / "missing", "-o", output)
        self.assertEqual(output.read_bytes(), b"an earlier artifact")

    def test_an_output_never_replaces_what_it_is_made_from(self):
        for file in POCKET.iterdir():
            if file.is_file():
                shutil.copy(file, self.scratch)
        model, ids = self.scratch / "a.moe", self.write_ids([1, 2])
        shutil.copy(pocket("4"), model)
        weights, config = self.scratch / "model.safetensors", self.scratch / "config.json"
        device = Path(shutil.copy(ROOT / "profiles/laptop-nvme.yaml", self.scratch))
        module = self.scratch / "m.mlir"
        self.expect(DONE, "moec", "import", POCKET, "-o", module)
        (self.scratch / "again.mlir").symlink_to(module)
        for name, arguments, kept in (
                ("moec", ["compile", self.scratch, "-o", weights], weights),
                ("moec", ["compile", self.scratch, "--device", device, "-o", device], device),
                ("moec", ["import", self.scratch, "-o", config], config),
                ("moec-opt", [module, "--moe-compile", "-o", module], module),
                ("moec-opt", [module, "-o", self.scratch / "." / "again.mlir"], module),
                ("moert", ["logits", model, "--ids", ids, "-o", model], model),
                ("moert", ["logits", model, "--ids", ids, "-o", ids], ids),
                ("moert", ["run", model, "--ids", ids, "-n", "1", "--profile", model], model)):
            with self.subTest(" ".join(map(str, [name, *arguments]))):
                before = kept.read_bytes()
                self.refused(name, *arguments, mention="would replace")
                self.assertEqual(kept.read_bytes(), before)

    def test_an_output_that_can_be_no_file_s_name_is_refused_by_it(self):
        (self.scratch / "loop").symlink_to("loop")
        text = ("--calibration-text", ROOT / "README.md")
        for output in (self.scratch / "loop/a.moe", self.scratch / ("a" * 300)):
            for command in (["compile", POCKET, "--bits", "4"], ["compile", POCKET, "--quantizer", "gptq", *text],
                            ["calibrate", POCKET, *text]):
                with self.subTest(command[0], output=output.name):
                    self.refused("moec", *command, "-o", output, mention=rf"moec: .*{output.name}")

    def test_what_is_no_checkpoint_is_refused_before_anything_is_said_of_it(self):
        for checkpoint in (self.scratch / "missing", self.scratch, POCKET / "config.json"):
            for flags in ((), ("--accuracy-loss", "2%", "--self-text", 400)):
                said = self.refused("moec", "compile", checkpoint, "-o", self.scratch / "out.moe", *flags).err
                self.assertRegex(said, rf"\Amoec: {checkpoint}.*\n\Z")

    def test_a_pipe_for_an_artifact_is_refused_and_not_waited_for(self):
        pipe = self.scratch / "pipe.moe"
        os.mkfifo(pipe)
        self.refused("moert", "run", pipe, "-p", "a", mention="regular file", timeout=20)
        self.refused("moec", "verify", pipe, mention="regular file", timeout=20)
        self.refused("moec", "emit", pipe, "-o", self.scratch / "a.moe", mention="regular file", timeout=20)

    def test_a_module_nested_beyond_reason_is_refused(self):
        module = self.scratch / "deep.mlir"
        deep = 50000
        for text in ("module {" * deep + "}" * deep,
                     "module attributes {a.b = " + "[" * deep + "]" * deep + "} {}",
                     "module attributes {a.b = affine_map<(d0) -> (" + "-" * deep + "d0)>} {}",
                     "#a0 = [1]\n" + "".join(f"#a{i} = [#a{i - 1}]\n" for i in range(1, deep)) +
                     f"module attributes {{a.b = #a{deep - 1}}} {{}}"):
            module.write_text(text)
            self.refused("moec", "emit", module, "-o", self.scratch / "a.moe", mention="deep.mlir.*nested too deep")
            self.refused("moec-opt", module, mention="deep.mlir.*nested too deep")

    def test_moec_opt_refuses_a_module_that_is_missing(self):
        self.refused("moec-opt", self.scratch / "missing.mlir", mention="missing.mlir")

    def test_a_module_as_bytecode_gives_the_artifact_that_its_text_gives(self):
        module, planned = self.scratch / "m.mlir", self.scratch / "planned"
        self.expect(DONE, "moec", "import", POCKET, "-o", module)
        artifacts = []
        for flags in ([], ["--emit-bytecode"]):
            self.expect(DONE, "moec-opt", module, "--moe-compile", *flags, "-o", planned)
            artifacts.append(self.scratch / f"{len(artifacts)}.moe")
            self.expect(DONE, "moec", "emit", planned, "-o", artifacts[-1])
        self.assertEqual(artifacts[0].read_bytes(), artifacts[1].read_bytes())

    def test_weights_too_large_for_a_scale_are_refused_by_tensor_and_leave_nothing(self):
        tensor = "model.layers.3.mlp.experts.5.up_proj.weight"
        checkpoint, out = self.scratch / "ck", self.scratch / "out"
        checkpoint.mkdir()
        out.mkdir()
        for file in POCKET.iterdir():
            if file.is_file() and file.suffix == ".json":
                (checkpoint / file.name).symlink_to(file)
        data = bytearray((POCKET / "model.safetensors").read_bytes())
        header, = struct.unpack_from("<Q", data)
        begin = 8 + header + json.loads(data[8:8 + header])[tensor]["data_offsets"][0]
        for huge in (0x7F7F, 0x7149):  # bf16 of 3.4e38, with which the range overflows f32 too, and of 1e30.
            struct.pack_into("<HH", data, begin, huge, 0xFF7F)
            (checkpoint / "model.safetensors").write_bytes(data)
            for flags in (("--bits", 4), ("--bits", 2), ("--bits", 8, "--nested", "off")):
                with self.subTest(huge=huge, flags=flags):
                    self.refused("moec", "compile", checkpoint, *flags, "-o", out / "a.moe", mention=tensor)
                    self.assertEqual(list(out.iterdir()), [])

    def test_weights_of_layers_that_the_config_does_not_have_are_refused(self):
        for file in POCKET.iterdir():
            if file.is_file():
                (self.scratch / file.name).symlink_to(file)
        config = self.scratch / "config.json"
        text = config.read_text()
        config.unlink()
        config.write_text(re.sub(r'"num_hidden_layers": \d+', '"num_hidden_layers": 9', text))
        self.assertNotEqual(config.read_text(), text)
        for command, output in (("compile", "a.moe"), ("import", "a.mlir")):
            with self.subTest(command):
                self.refused("moec", command, self.scratch, "-o", self.scratch / output,
                             mention=r'found tensor "model\.layers\.9\..* and \d+ more of \d+.*Compare config\.json')
        self.assertNotIn("warning", self.expect(DONE, "moec", "compile", POCKET, "-o", self.scratch / "b.moe").err)

    def test_a_truncated_weight_file_is_refused_by_name(self):
        for file in POCKET.iterdir():
            if file.is_file():
                (self.scratch / file.name).symlink_to(file)
        weights = self.scratch / "model.safetensors"
        data = weights.read_bytes()
        for kept in (0, 7, 100, len(data) // 2, len(data) - 1):
            with self.subTest(kept=kept):
                weights.unlink()
                weights.write_bytes(data[:kept])
                self.refused("moec", "compile", self.scratch, "-o", self.scratch / "a.moe", mention="model.safetensors")
                self.assertFalse((self.scratch / "a.moe").exists())


class RunTest(E2eTest):
    prompt = "The old man looked at"

    def test_a_prefill_chunk_beyond_the_prompt_takes_no_more_memory_than_the_prompt(self):
        ids = self.write_ids(range(1, 9))
        accounts = [json.loads(self.text("--ids", ids, "-n", 64, "--memory", "100%", "--json", "--prefill-chunk", chunk))
                    ["budget_bytes"] for chunk in (8, 9, 4096)]
        self.assertEqual(accounts, accounts[:1] * 3)

    def text(self, *arguments, **options):
        return self.expect(DONE, "moert", "run", pocket("4"), "--temp", 0, *arguments, **options).out

    def test_a_prompt_may_come_from_an_argument_a_file_or_standard_input(self):
        file = self.scratch / "prompt.txt"
        file.write_text(self.prompt)
        said = self.text("-p", self.prompt, "-n", 12)
        self.assertEqual(self.text("-f", file, "-n", 12), said)
        self.assertEqual(self.text("-f", "-", "-n", 12, stdin=self.prompt), said)
        self.assertGreater(len(said), 10)

    def test_the_same_seed_gives_the_same_text_and_another_another(self):
        sampled = lambda seed: self.expect(DONE, "moert", "run", pocket("4"), "-p", self.prompt, "-n", 24, "--temp", 1,
                                           "--seed", seed).out
        self.assertEqual(sampled(7), sampled(7))
        self.assertNotEqual(sampled(7), sampled(8))

    def test_text_ends_before_a_stop_text(self):
        whole = self.text("-p", self.prompt, "-n", 24, "--ignore-eos").rstrip("\n")
        stop = whole[-8:-4]
        said = self.text("-p", self.prompt, "-n", 24, "--ignore-eos", "--stop", stop).rstrip("\n")
        self.assertNotIn(stop, said[len(self.prompt):])
        self.assertTrue(whole.startswith(said))
        self.assertLess(len(said), len(whole))

    def test_the_numbers_of_a_run_go_to_stderr(self):
        done = self.expect(DONE, "moert", "run", pocket("4"), "-p", self.prompt, "-n", 8, "--memory", "25%")
        for number in (r"tok(en)?s?/s", r"hit", r"read", r"peak"):
            self.assertRegex(done.err, number)
            self.assertNotRegex(done.out, number)

    def test_a_run_ends_with_three_lines_unless_more_or_nothing_is_asked_for(self):
        run = ("run", pocket("4"), "-p", self.prompt, "-n", 8, "--memory", "20MiB")
        said = {flag: self.expect(DONE, "moert", *run, *([flag] if flag else [])) for flag in ("", "-v", "--memory-table", "--quiet")}
        self.assertEqual({done.out for done in said.values()}, {said[""].out})
        self.assertRegex(said[""].err, r"\A\nprompt     \d+ tokens, .*\ngenerated  8 tokens, .* tokens/s; end: length\n"
                                       r"memory     peak .* of .*; hit rate \d+\.\d%, .* read per token\n\Z")
        self.assertEqual(said["--quiet"].err, "")
        self.assertRegex(said["--memory-table"].err, r"(?m)^  budget +\d+ B ")
        self.assertNotIn("\nplan  ", said["--memory-table"].err)
        for line in (r"  budget +\d+ B", "plan  ", "io  ", "experts  ", "end  "):
            self.assertRegex(said["-v"].err, rf"(?m)^{line}")
        self.refused("moert", *run, "-v", "--quiet", mention="excludes")

    def test_without_a_tokenizer_ids_go_in_and_come_out(self):
        model = artifact(DATA / "golden/mixtral", "--bits", "source", "--resident-bits", "source")
        said = self.expect(DONE, "moert", "run", model, "--ids", self.write_ids([1, 2, 3]), "-n", 5, "--ignore-eos").out
        self.assertRegex(said, r"^\d+( \d+){4}\n?$")
        self.refused("moert", "run", model, "-p", "text", mention="no tokenizer, expected one for a prompt of text; --ids FILE takes token ids$")

    def test_tokenize_and_decode_give_the_text_back(self):
        text = "Zwölf Boote — 12 boats,\n\n\t3 nets and a café.\n"
        ids = self.expect(DONE, "moert", "tokenize", pocket("4"), "-f", "-", stdin=text).out
        self.assertRegex(ids, r"^\d+(\s+\d+)+\s*$")
        self.assertEqual(self.expect(DONE, "moert", "tokenize", pocket("4"), "-f", "-", "--decode", stdin=ids).out, text)


class InterruptTest(E2eTest):
    def test_ctrl_c_ends_a_run_with_the_text_so_far_and_the_numbers(self):
        process = subprocess.Popen(
            [program("moert"), "run", str(pocket("4")), "-p", "The old man", "-n", "1500", "--temp", "0",
             "--ignore-eos", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        # The pipe is soon full, and the program waits in the middle of its text until it is read.
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, err.decode())
        whole = self.expect(DONE, "moert", "run", pocket("4"), "-p", "The old man", "-n", 1500, "--temp", 0,
                            "--ignore-eos").out
        said = (first + out).decode(errors="replace").rstrip("\n\ufffd")
        self.assertTrue(whole.startswith(said), said)
        self.assertLess(len(said), len(whole))
        self.assertRegex(err.decode(), r"tok(en)?s?/s")

    def test_closed_standard_streams_are_no_place_for_other_files(self):
        run_text = [program("moert"), "run", pocket("4"), "-p", "a", "-n", "2"]
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *map(str, run_text)], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: Bad file descriptor", done.stderr)
        profile = self.scratch / "run.json"
        done = subprocess.run(["sh", "-c", '"$@" <&- 2>&-', "sh", *map(str, run_text), "--profile", str(profile)],
                              stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, DONE)
        json.loads(profile.read_text())

    def test_a_closed_pipe_ends_a_run_quietly(self):
        process = subprocess.Popen(
            [program("moert"), "run", str(pocket("4")), "-p", "The old man", "-n", "1500", "--temp", "0",
             "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read().decode()
        process.stderr.close()
        self.assertNotEqual(process.wait(timeout=60), 0)
        self.assertNotIn("terminate called", err)
