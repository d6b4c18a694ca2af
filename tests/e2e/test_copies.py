"""Records with a separate low copy: what is stored, what waits for the other copy, and what a rule that lowers experts reads."""
import json
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import (BUILD, DATA, DONE, INTERRUPTED, POCKET, E2eTest, artifact, calibrated_pocket, documents, ended, plain_text,
                     pocket, run, sizes, start, wait_for)

RULE = "lower:0.3:0.8"
TEXT = documents("validation", 24)
PROMPT = "The old man looked at the sea and"
FLOATS = ("--resident-bits", "source")
# Name: the compile with low copies, and the same without them.
MODELS = {"int8 + int4": (("--bits", "8", "--low-copy", "4"), ("--bits", "8", "--nested", "off")),
          "bf16 + int4": (("--bits", "source", "--low-copy", "4", *FLOATS), ("--bits", "source", *FLOATS))}


def slices_of(path):
    """Of every expert the payloads of its low copy and of its other slices."""
    data, payloads = Path(path).read_bytes(), []
    for expert in sizes(path)["experts"]:
        parts = [data[expert["file_offset"] + part["offset"]:][:part["payload_bytes"]] for part in expert["slices"]]
        payloads.append((parts[:expert["low_copy_slices"]], parts[expert["low_copy_slices"]:]))
    return payloads


class LowCopyTest(E2eTest):
    """What moec compile stores."""

    def test_the_low_copy_is_that_of_the_width_alone_and_the_other_copy_is_unchanged(self):
        low = [high for _, high in slices_of(artifact(POCKET, "--bits", "4", "--nested", "off"))]
        for name, (with_copies, alone) in MODELS.items():
            path = artifact(POCKET, *with_copies)
            self.expect(DONE, "moec", "verify", path)
            self.assertEqual(slices_of(path), list(zip(low, (high for _, high in slices_of(artifact(POCKET, *alone))))), name)
            said, before = sizes(path), sizes(artifact(POCKET, *alone))
            for key in ("expert_payload_bytes", "widths"):
                self.assertEqual(said[key], before[key], (name, key))
            self.assertEqual(said["low_copy_payload_bytes"], sum(len(part) for parts in low for part in parts))
            self.assertEqual(before["low_copy_payload_bytes"], 0)
            self.documented(said, "docs/inspect.md")
            self.assertRegex(self.expect(DONE, "moec", "inspect", path).out,
                             r"plus .* of low copies and .* of padding[\s\S]*(int8/32|bf16) \+ int4/32 copy")

    def test_threads_an_interruption_and_a_saved_module_change_no_byte(self):
        output, module = self.scratch / "out.moe", self.scratch / "m.mlir"
        for flags in (MODELS["bf16 + int4"][0], ("--bits", "8", "--low-copy", "2")):
            command = ("moec", "compile", POCKET, *flags, "-o", output)
            self.expect(DONE, *command, "--threads", 2, "--save-module", module)
            whole = output.read_bytes()
            self.expect(DONE, "moec", "emit", module, "-o", output)
            self.assertEqual(output.read_bytes(), whole)
            output.unlink()
            started = start(*command, "--threads", 1)
            wait_for(started, Path(f"{output}.partial"))
            started.send_signal(signal.SIGINT)
            status, error = ended(started)
            self.assertEqual(status, INTERRUPTED, error)
            self.expect(DONE, *command, "--threads", 1, "--resume")
            self.assertEqual(output.read_bytes(), whole)

    def test_calibrated_copies_are_those_of_calibrated_compiles_at_their_widths(self):
        profile, module, output = calibrated_pocket(self.scratch), self.scratch / "m.mlir", self.scratch / "out.moe"

        def compiled(*flags):
            self.expect(DONE, "moec", "compile", POCKET, "--calibration", profile, "--quantizer", "clipped", *flags, "-o", output)
            return slices_of(output)

        low, high = compiled("--bits", "4", "--nested", "off"), compiled("--bits", "8", "--nested", "off")
        both = compiled("--bits", "8", "--low-copy", "4", "--save-module", module)
        self.assertEqual(both, [(four, eight) for (_, four), (_, eight) in zip(low, high)])
        whole = output.read_bytes()
        self.expect(DONE, "moec", "emit", module, "-o", output, "--threads", 1)
        self.assertEqual(output.read_bytes(), whole)

    def test_any_wider_expert_has_a_low_copy(self):
        for bits, kind in (("6", "int6"), ("5", "int5")):
            path = artifact(POCKET, "--bits", bits, "--low-copy", "4")
            self.expect(DONE, "moec", "verify", path)
            self.assertEqual({tuple(part["kind"] for part in expert["slices"]) for expert in sizes(path)["experts"]}, {("int4", kind)})

    def test_mxfp4_has_low_copies_of_2_bits_and_none_of_4(self):
        mxfp4 = DATA / "golden/gpt_oss"
        experts = sizes(artifact(mxfp4, "--bits", "source", "--low-copy", "2"))["experts"]
        self.assertEqual({tuple(part["kind"] for part in expert["slices"]) for expert in experts}, {("int2", "mxfp4")})
        self.refused("moec", "compile", mxfp4, "--bits", "source", "--low-copy", 4, "-o", self.scratch / "no.moe",
                     mention="gpt_oss: found no experts of more than 4 bits, expected some with --low-copy 4")

    def test_widths_that_cannot_be_combined_are_refused(self):
        command = ("moec", "compile", POCKET, "-o", self.scratch / "no.moe", "--low-copy")
        self.refused(*command, 4, "--bits", 8, "--nested", "on", mention="--nested on with --low-copy 4, expected one of them")
        for bits, low in ((8, 8), (4, 4), (3, 4)):
            self.refused(*command, low, "--bits", bits, mention=f"--low-copy {low} with experts of {bits} bits, expected fewer")
        self.refused(*command, 4, mention="--low-copy 4 with experts of 4 bits")
        self.refused(*command, 8, "--accuracy-loss", "2%", "--calibration-text", TEXT, mention="experts of at most 8 bits")
        self.refused(*command, 3, mention="--low-copy")
        self.refused(*command, 4, "--bits", "source", "--quantizer", "gptq",
                     mention="--quantizer gptq with --bits source and --low-copy 4, whose low copies are rounded to nearest")
        self.assertEqual(list(self.scratch.iterdir()), [])


class LoweredTest(E2eTest):
    """A run with a rule that lowers experts reads low copies on a miss."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.planned = {}
        for name, (flags, _) in MODELS.items():
            cls.planned[name] = Path(cls.folder.name, f"{len(cls.planned)}.moe")
            done = run("moec", "replan", artifact(POCKET, *flags), "--memory", "25%", "--miss", "wait", RULE, "--reference",
                       pocket("source"), "--eval-text", TEXT, "--window", 64, "-o", cls.planned[name])
            assert done.status == DONE, done.err

    def generated(self, path, preset, *flags):
        done = self.expect(DONE, "moert", "run", path, "-p", PROMPT, "-n", 32, "--ignore-eos", "--temp", 0, "--memory", "25%",
                           "--preset", preset, "--json", *flags)
        return json.loads(done.out)

    def test_waiting_and_exact_runs_are_those_of_the_model_without_low_copies(self):
        for name, path in self.planned.items():
            alone = self.generated(artifact(POCKET, *MODELS[name][1]), "auto")
            for preset, flags in (("auto", ()), (f"auto {RULE}", ("--exact",))):
                said = self.generated(path, preset, *flags)
                self.assertEqual(said["text"], alone["text"], (name, preset))
            self.assertEqual(self.generated(path, "auto")["decode"]["bytes_read"], alone["decode"]["bytes_read"], name)

    def test_lowered_experts_read_less_and_are_the_same_on_every_machine(self):
        for name, path in self.planned.items():
            waiting, first = self.generated(path, "auto"), self.generated(path, f"auto {RULE}")
            self.assertGreater(first["decode"]["lowered"], 0)
            self.assertLess(first["decode"]["bytes_read"], waiting["decode"]["bytes_read"])
            for flags in (("--threads", 1, "--io", "threads"), ("--threads", 2, "--isa", "reference", "--io", "buffered"), ("--io", "auto")):
                again = self.generated(path, f"auto {RULE}", *flags)
                self.assertEqual(again["text"], first["text"], (name, flags))
                for key in ("hits", "misses", "lowered", "skipped", "bytes_read"):
                    self.assertEqual(again["decode"][key], first["decode"][key], (name, key))

    def test_eval_measures_the_loss_that_the_plan_carries(self):
        for name, path in self.planned.items():
            plan = next(plan for plan in sizes(path)["plans"] if plan["preset"] == f"auto {RULE}")
            said = json.loads(self.expect(DONE, "moert", "eval", path, "--preset", f"auto {RULE}", "--memory", "25%", "--text", TEXT,
                                          "--window", 64, "--reference", pocket("source"), "--json").out)
            self.assertEqual((said["loss"], said["kl"]), (plan["loss"]["loss"], plan["loss"]["kl_nats"]), name)
            self.assertGreater(said["kl"], 0)

    def test_a_replay_counts_what_a_run_counts(self):
        for name, path in self.planned.items():
            done = subprocess.run([BUILD / "tests/miss_replay_bench", path, plain_text("validation"), "100"], capture_output=True,
                                  text=True, timeout=600)
            self.assertEqual(done.returncode, DONE, done.stdout + done.stderr)
            (plan,) = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(plan["own_scores"], plan["run"], name)
            self.assertGreater(plan["run"]["lowered"], 0)

