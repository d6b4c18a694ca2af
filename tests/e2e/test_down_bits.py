"""Experts whose down projections have a width of their own: what is stored, what runs compute with them, and what is refused."""
import json
import platform
import signal
from pathlib import Path

from support import (DONE, INTERRUPTED, POCKET, E2eTest, artifact, calibrated_pocket, digest, documents, ended, pocket, sizes, start,
                     wait_for)

PROMPT = "The old man looked at the sea and"
WIDER = ("--bits", "4", "--down-bits", "6")
# Name: the compile, and the kinds of the slices of gate and up and of down.
MODELS = {"nested": (WIDER, ["int2", "int2", "int0"], ["int2", "int2", "int2"]),
          "whole": ((*WIDER, "--nested", "off"), ["int4"], ["int6"])}


class DownBitsTest(E2eTest):
    def generated(self, path, *flags):
        done = self.expect(DONE, "moert", "run", path, "-p", PROMPT, "-n", 24, "--ignore-eos", "--temp", 0, "--json", *flags)
        return json.loads(done.out)["ids"]

    def logits(self, path, *flags):
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "logits", path, "--ids", self.write_ids(range(5, 45)), "-o", output, *flags)
        return digest(output)

    def test_inspect_shows_both_widths_and_verify_passes(self):
        for name, (flags, kinds, down) in MODELS.items():
            path = artifact(POCKET, *flags)
            self.expect(DONE, "moec", "verify", path)
            said = sizes(path)
            self.documented(said, "docs/inspect.md")
            self.assertEqual((said["provenance"]["bits"], said["provenance"]["down_bits"]), ("4", "6"))
            for expert in said["experts"]:
                self.assertEqual((expert["bits"], expert["down_bits"]), (4, 6))
                self.assertEqual([part["kind"] for part in expert["slices"]], kinds, name)
                self.assertEqual([part.get("down", part)["kind"] for part in expert["slices"]], down, name)
            self.assertRegex(self.expect(DONE, "moec", "inspect", path).out,
                             r"bits/weight +4/6b +size\n[\s\S]*\n  a +4/6  int4/32.*\n +down  int6/32( as 2\+2\+2)?\n")

    def test_the_bytes_of_an_expert_lie_between_those_of_both_widths(self):
        payloads = [sizes(artifact(POCKET, *flags))["expert_payload_bytes"] for flags in (("--bits", "4"), WIDER, ("--bits", "6"))]
        # A third of the weights has 2 more bits; payloads end at multiples of a region.
        self.assertAlmostEqual((payloads[1] - payloads[0]) / (payloads[2] - payloads[0]), 1 / 3, delta=0.05)

    def test_nesting_budget_threads_and_instructions_change_no_token_and_no_logit(self):
        isas = ("reference",) if platform.machine() == "aarch64" else ("reference", "avx2")
        ids, logits = (what(artifact(POCKET, *MODELS["nested"][0])) for what in (self.generated, self.logits))
        for name, (flags, _, _) in MODELS.items():
            path = artifact(POCKET, *flags)
            for how in ((), ("--memory", "25%", "--threads", 1), ("--memory", "25%", "--threads", 2, "--io", "threads")):
                self.assertEqual(self.generated(path, *how), ids, (name, how))
            for how in ((), ("--memory", "25%"), ("--prefill-chunk", 1), *(("--isa", isa, "--prefill-chunk", 3) for isa in isas)):
                self.assertEqual(self.logits(path, *how), logits, (name, how))

    def test_experts_lowered_to_their_first_slice_are_the_same_with_every_kernel(self):
        rule, planned = "lower:0.3:0.8", self.scratch / "planned.moe"
        isas = ("reference",) if platform.machine() == "aarch64" else ("reference", "avx2")
        self.expect(DONE, "moec", "replan", artifact(POCKET, *WIDER), "--memory", "25%", "--miss", "wait", rule, "--reference",
                    pocket("source"), "--eval-text", documents("validation", 24), "--window", 64, "-o", planned)
        preset = ("--memory", "25%", "--preset", f"auto {rule}")
        ids = self.generated(planned, *preset)
        self.assertNotEqual(ids, self.generated(planned))
        for isa in isas:
            self.assertEqual(self.generated(planned, *preset, "--threads", 1, "--isa", isa), ids, isa)

    def test_down_of_the_same_width_is_no_other_artifact(self):
        output = self.scratch / "out.moe"
        self.expect(DONE, "moec", "compile", POCKET, "--bits", 4, "--down-bits", 4, "-o", output)
        self.assertEqual(output.read_bytes(), artifact(POCKET, "--bits", "4").read_bytes())

    def test_an_interruption_and_a_saved_module_change_no_byte_and_another_width_does_not_resume(self):
        output, module = self.scratch / "out.moe", self.scratch / "m.mlir"
        command = ("moec", "compile", POCKET, "-o", output, "--threads", 1, "--bits", 4, "--down-bits")
        self.expect(DONE, *command, 6, "--save-module", module)
        whole = output.read_bytes()
        self.expect(DONE, "moec", "emit", module, "-o", output)
        self.assertEqual(output.read_bytes(), whole)
        output.unlink()
        started = start(*command, 6)
        wait_for(started, Path(f"{output}.partial"))
        started.send_signal(signal.SIGINT)
        status, error = ended(started)
        self.assertEqual(status, INTERRUPTED, error)
        self.refused(*command, 5, "--resume", mention="have changed")
        self.expect(DONE, *command, 6, "--resume")
        self.assertEqual(output.read_bytes(), whole)

    def test_calibrated_experts_have_the_widths_and_a_saved_module_gives_the_same_bytes(self):
        profile, module, output = calibrated_pocket(self.scratch, 512), self.scratch / "m.mlir", self.scratch / "out.moe"
        self.expect(DONE, "moec", "compile", POCKET, "--calibration", profile, "--bits", 2, "--down-bits", 4, "--save-module", module,
                    "-o", output)
        whole = output.read_bytes()
        for expert in sizes(output)["experts"]:
            self.assertEqual((expert["bits"], expert["down_bits"]), (2, 4))
        self.expect(DONE, "moec", "verify", output)
        self.expect(DONE, "moec", "emit", module, "-o", output, "--threads", 1)
        self.assertEqual(output.read_bytes(), whole)

    def test_widths_that_cannot_be_combined_are_refused(self):
        command = ("moec", "compile", POCKET, "-o", self.scratch / "no.moe", "--down-bits")
        self.refused(*command, 7, mention="--down-bits: '7', expected same, 8, 6, 5, 4, 3 or 2")
        self.refused(*command, 6, mention="--down-bits 6 with --bits auto, expected --bits 8, 6, 5, 4, 3 or 2")
        self.refused(*command, 6, "--bits", "source", mention="--down-bits 6 with --bits source, expected --bits 8, 6")
        self.refused(*command, 4, "--bits", 8, "--low-copy", 4, mention="--low-copy 4 with --down-bits 4, expected fewer bits")
        self.assertEqual(list(self.scratch.iterdir()), [])
