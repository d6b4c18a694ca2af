"""Plans of the published systems and of the search: made for a trace and a device, none of which changes a token."""
import json
import os
import shutil
import struct
import tempfile
from pathlib import Path

from support import DATA, DONE, POCKET, ROOT, E2eTest, calibrated_pocket, plain_text, pocket, run

DEVICE = ROOT / "profiles" / "desktop-sata.yaml"
TEXT = plain_text("validation")
PRESETS = ("load-on-demand", "lru", "edgemoe", "fate", "auto")
BUDGETS = ("15%", "40%")


class PresetsTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.profile, cls.planned = calibrated_pocket(cls.folder.name), Path(cls.folder.name, "planned.moe")
        done = run("moec", "replan", pocket("4"), "--memory", *BUDGETS, "--preset", *PRESETS, "--device", DEVICE, "--calibration",
                   cls.profile, "-o", cls.planned)
        assert done.status == DONE, done.err

    def plans(self, path=None):
        said = json.loads(self.expect(DONE, "moec", "inspect", path or self.planned, "--json").out)
        return {plan["name"]: plan for plan in said["plans"]}

    def logits(self, model, *flags):
        output = self.scratch / "logits.safetensors"
        ids = self.scratch / "ids.txt"
        ids.write_text(" ".join(str(17 * i % 4096) for i in range(40)))
        self.expect(DONE, "moert", "logits", model, "--ids", ids, "-o", output, *flags)
        return output.read_bytes()

    def test_there_is_a_plan_for_each_budget_and_preset(self):
        self.assertEqual(set(self.plans()), {f"{budget} {preset}" for budget in BUDGETS for preset in PRESETS})

    def test_the_search_is_expected_to_be_as_fast_as_every_preset(self):
        # Nothing was decided on the tokens of a forecast, so a preset may be faster there by chance: at most by the gain that a search requires.
        plans = self.plans()
        for budget in BUDGETS:
            expected = {preset: plans[f"{budget} {preset}"]["forecast"]["token_ns"] for preset in PRESETS}
            self.assertLessEqual(expected["auto"], 1.02 * min(expected.values()), expected)
            self.assertLess(expected["lru"], expected["load-on-demand"])

    def test_no_plan_changes_a_logit(self):
        expected = self.logits(pocket("4"), "--memory", "100%")
        for preset in PRESETS:
            for flags in ((), ("--threads", 1), ("--prefill-chunk", 3)):
                self.assertEqual(self.logits(self.planned, "--memory", "15%", "--preset", preset, *flags) == expected, True,
                                 (preset, flags))

    def test_bench_runs_the_plan_that_it_is_asked_for_and_says_what_was_expected(self):
        for preset in PRESETS:
            said = json.loads(self.expect(DONE, "moert", "bench", self.planned, "--preset", preset, "--memory", "40%", "--given",
                                          "--text", TEXT, "--tokens", 32, "--json").out)
            self.assertEqual(said["preset"], preset)
            plan = self.plans()[said["plan"]]
            self.assertEqual(said["forecast"]["token_ns"], plan["forecast"]["token_ns"])
            # Other text, but the same model: what is read is of the same size.
            self.assertAlmostEqual(said["bytes_read_per_token"] / plan["forecast"]["bytes_read_per_token"], 1, delta=0.4)

    def test_a_prefetching_plan_prefetches(self):
        said = json.loads(self.expect(DONE, "moert", "bench", self.planned, "--preset", "edgemoe", "--memory", "40%", "--given",
                                      "--text", TEXT, "--tokens", 32, "--json").out)
        self.assertGreater(said["useful_per_token"], 0)
        self.assertGreater(said["ready_rate"], 0)

    def test_a_preset_that_is_not_there_is_refused_with_those_that_are(self):
        self.refused("moert", "bench", pocket("4"), "--preset", "lru", mention="auto.*moec replan")
        self.refused("moert", "bench", self.planned, "--preset", "magic", mention="load-on-demand.*moec replan")

    def test_presets_that_prefetch_need_a_trace_and_a_device(self):
        output = self.scratch / "new.moe"
        replan = ("moec", "replan", pocket("4"), "--memory", "25%", "-o", output)
        self.refused(*replan, "--preset", "fate", "--device", DEVICE, mention="prefetches experts, for which .* a trace")
        self.refused(*replan, "--preset", "fate", "--calibration", self.profile, mention="a device profile is needed: --device")
        self.refused(*replan, "--preset", "swapmoe", mention="swapmoe and pruning,.* change the output.*expected --reference")
        self.refused(*replan, "--preset", "magic", mention="preset 'magic', expected auto")
        self.refused(*replan, "--device", TEXT, mention="validation.txt")
        self.refused(*replan, "--calibration", TEXT, mention="validation.txt")
        self.assertFalse(output.exists())

    def test_a_profile_of_another_routing_is_refused_by_its_checkpoint(self):
        other = self.scratch / "other"
        shutil.copytree(POCKET, other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps(config | {"num_experts_per_tok": 2}))
        self.expect(DONE, "moec", "calibrate", other, "--calibration-text", TEXT, "--tokens", 512, "-o", self.scratch / "other.profile")
        self.refused("moec", "replan", pocket("4"), "--memory", "25%", "--calibration", self.scratch / "other.profile", "-o",
                     self.scratch / "new.moe", mention="other.profile: the profile is of a checkpoint with hash")

    def test_every_key_of_the_json_is_on_its_page(self):
        for path in (self.planned, self.profile):
            said = json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)
            said.pop("provenance", None)  # Its keys are data.
            self.documented(said, "docs/inspect.md")
        command = ("moert", "bench", self.planned, "--memory", "15%", "--tokens", 4, "--repeat", 1, "--json")
        said = json.loads(self.expect(DONE, *command).out)
        self.assertIn("forecast", said)
        self.documented(said.pop("forecast"), "docs/inspect.md")
        self.documented(said, "docs/bench.md")

    def test_a_profile_of_another_checkpoint_is_refused(self):
        other, profile = self.scratch / "other", self.scratch / "other.profile"
        shutil.copytree(POCKET, other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 2e-6}))
        self.expect(DONE, "moec", "calibrate", other, "--calibration-text", TEXT, "--tokens", 512, "-o", profile)
        hashes = [json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)["checkpoint"] for path in (profile, self.profile)]
        self.refused("moec", "replan", self.planned, "--memory", "25%", "--calibration", profile, "-o", self.scratch / "new.moe",
                     mention=f"other.profile: the profile is of a checkpoint with hash {hashes[0]}, expected {hashes[1]}, "
                             "which .*planned.moe was made from")

    def test_a_profile_of_a_checkpoint_that_differs_inside_of_a_tensor_alone_is_refused(self):
        other, profile = self.scratch / "other", self.scratch / "other.profile"
        shutil.copytree(POCKET, other)
        weights = bytearray((other / "model.safetensors").read_bytes())
        (length,) = struct.unpack_from("<Q", weights)
        begin, end = json.loads(weights[8:8 + length])["model.layers.3.mlp.experts.7.up_proj.weight"]["data_offsets"]
        weights[8 + length + (begin + end) // 2] ^= 1
        (other / "model.safetensors").write_bytes(weights)
        self.expect(DONE, "moec", "calibrate", other, "--calibration-text", TEXT, "--tokens", 512, "-o", profile)
        samples = [json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)["checkpoint_sample"] for path in (profile, self.profile)]
        refusal = f"other.profile: the profile is of a checkpoint with sample {samples[0]}, expected {samples[1]}, which "
        self.refused("moec", "replan", self.planned, "--memory", "25%", "--calibration", profile, "-o", self.scratch / "new.moe",
                     mention=refusal + ".*planned.moe was made from")
        self.refused("moec", "compile", POCKET, "--calibration", profile, "-o", self.scratch / "new.moe", mention=refusal + "is that of .*pocket-moe")

    def test_a_device_that_is_a_pipe_is_not_waited_for(self):
        os.mkfifo(self.scratch / "pipe")
        self.refused("moec", "replan", self.planned, "--memory", "25%", "--device", self.scratch / "pipe", "-o", self.scratch / "new.moe",
                     mention="pipe: found no regular file, expected a device profile")

    def test_another_budget_takes_the_largest_plan_that_fits(self):
        command = ("bench", self.planned, "--preset", "lru", "--tokens", 4, "--repeat", 1, "--json")
        chosen = lambda memory: json.loads(self.expect(DONE, "moert", *command, "--memory", memory).out)["plan"]
        self.assertEqual([chosen(memory) for memory in ("10%", "20%", "50%", "100%")],
                         ["15% lru", "15% lru", "40% lru", "40% lru"])

    def reasons(self, memory, device):
        said = self.expect(DONE, "moec", "plan", self.planned, "--memory", memory, "--device", ROOT / "profiles" / device).out
        return " ".join(said.split())

    def test_a_search_says_what_it_comes_to_and_what_its_prefetches_had_to_gain(self):
        said = self.reasons("15%", DEVICE)
        self.assertRegex(said, r"settings = searched: [0-9.]+ ms a token on the deciding part of the trace")
        said = self.reasons("100%", "phone-ufs31.yaml")
        self.assertIn("start = the trace's most popular experts: ", said)
        self.assertRegex(said, r"quotas +\d+ pages for each layer ")
        said = self.reasons("90%", "raspberry-pi-5-sd.yaml")
        self.assertRegex(said, "too little faster on the deciding part of the trace: .* ms beside [0-9.]+ ms; prefetches have to gain 2%")

    def test_new_plans_are_said_with_what_is_expected(self):
        output = self.scratch / "again.moe"
        line = r"  30%: \d.* MiB with room for \d+ tokens of context, [0-9.]+ tokens/s expected on the calibration text\n"
        replanned = self.expect(DONE, "moec", "replan", self.planned, "--memory", "30%", "--device", DEVICE, "-o", output).err
        self.assertRegex(replanned, r"wrote .*, .* MiB:\n" + line)
        compiled = self.expect(DONE, "moec", "compile", POCKET, "--bits", 4, "--calibration", self.profile, "--memory", "30%",
                               "--device", DEVICE, "-o", output).err
        self.assertRegex(compiled, r"wrote .*, .* MiB:\n" + line)

    def test_the_trace_stays_for_the_next_plans(self):
        output = self.scratch / "again.moe"
        self.expect(DONE, "moec", "replan", self.planned, "--memory", "30%", "--device", DEVICE, "-o", output)
        self.assertIn("forecast", self.plans(output)["30%"])
        self.expect(DONE, "moec", "verify", output)
