"""SwapMoE's virtual experts and its baseline: what their plans are, that their loss is measured, and that runs can be repeated."""
import json
import platform
import tempfile
from pathlib import Path

from support import DONE, ROOT, E2eTest, calibrated_pocket, documents, pocket, run

TEXT = documents("validation", 24)
PROMPT = "The old man looked at the sea and"
DEVICE = ROOT / "profiles/desktop-sata.yaml"


class SwapMoeTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.profile, cls.planned = calibrated_pocket(cls.folder.name), Path(cls.folder.name, "planned.moe")
        done = run("moec", "replan", pocket("4"), "--memory", "25%", "--preset", "swapmoe", "pruning", "--calibration", cls.profile,
                   "--device", DEVICE, "--reference", pocket("source"), "--eval-text", TEXT, "--window", 64, "-o", cls.planned)
        assert done.status == DONE, done.err

    def plans(self, path=None):
        said = json.loads(self.expect(DONE, "moec", "inspect", path or self.planned, "--json").out)
        return {plan["preset"]: plan for plan in said["plans"]}

    def generated(self, preset, *flags):
        done = self.expect(DONE, "moert", "run", self.planned, "-p", PROMPT, "-n", 64, "--ignore-eos", "--temp", 0, "--memory",
                           "25%", "--preset", preset, "--json", *flags)
        return json.loads(done.out)

    def test_swapmoe_exchanges_by_importance_and_pruning_pins(self):
        plans = self.plans()
        swapmoe, pruning = plans["swapmoe"], plans["pruning"]
        self.assertEqual((swapmoe["eviction"], swapmoe["sharing"], swapmoe["miss"]["action"]), ("importance", "layer quotas", "mask"))
        self.assertGreaterEqual(swapmoe["exchange"]["every_tokens"], 1)
        self.assertEqual(max(max(layer) for layer in swapmoe["expert_norms"]), 1)
        self.assertGreater(min(min(layer) for layer in swapmoe["expert_norms"]), 0.5)
        self.assertEqual([len(layer["experts"]) for layer in pruning["start"]], [len(layer) for layer in pruning["pinned"]])
        self.assertGreater(min(len(layer) for layer in pruning["pinned"]), 0)
        self.assertNotIn("exchange", pruning)
        reasons = {reason["decision"]: reason["reason"] for reason in swapmoe["reasons"]}
        self.assertRegex(reasons["exchanges"], "the highest frequency that leaves the time of a token")
        self.documented(list(plans.values()), "docs/inspect.md")
        self.assertRegex(self.expect(DONE, "moec", "inspect", self.planned).out, r"exchanges +one expert of each layer in \d+ tokens")

    def test_profiling_texts_divide_the_cache_by_what_layers_lose(self):
        output = self.scratch / "profiled.moe"
        command = ("moec", "replan", pocket("4"), "--memory", "25%", "--preset", "swapmoe", "--calibration", self.profile, "--device",
                   DEVICE, "--reference", pocket("source"), "--window", 32, "-o", output, "--eval-text")
        self.expect(DONE, *command, TEXT, "--profile-text", documents("acceptance", 1))
        plan, even = self.plans(output)["swapmoe"], self.plans()["swapmoe"]
        spread = lambda plan: max(plan["quota_pages"]) - min(plan["quota_pages"])
        self.assertGreater(spread(plan), 2 * spread(even))
        pages = lambda plan: sum(plan["quota_pages"]) + plan["staging_pages"]
        self.assertEqual(pages(plan), pages(even))
        reasons = {reason["decision"]: reason["reason"] for reason in plan["reasons"]}
        self.assertRegex(reasons["quotas"], r"SwapMoE 3\.5\.2: the genetic algorithm found quotas that are expected to lose "
                                            r"[0-9.]+ nats per token, even ones [0-9.]+; the model was fitted to 60 measured")
        self.refused(*command, TEXT, "--profile-text", TEXT, mention="is a text of --eval-text, expected another one")
        self.refused(*command[:6], "lru", *command[7:], TEXT, "--profile-text", TEXT, mention="expected --preset swapmoe")

    def test_exchanges_lose_less_than_a_fixed_set(self):
        plans = self.plans()
        self.assertLess(plans["swapmoe"]["loss"]["loss"], plans["pruning"]["loss"]["loss"])
        self.assertLess(plans["swapmoe"]["loss"]["kl_nats"], plans["pruning"]["loss"]["kl_nats"])

    def test_no_decoded_token_demands_an_absent_expert_and_pruning_reads_nothing(self):
        swapmoe, pruning = self.generated("swapmoe")["decode"], self.generated("pruning")["decode"]
        self.assertEqual((swapmoe["misses"], pruning["misses"]), (0, 0))
        self.assertGreater(swapmoe["promoted"], 0)
        self.assertEqual((pruning["promoted"], pruning["bytes_read"]), (0, 0))

    def test_the_text_is_the_same_with_every_thread_count_kernel_and_io_backend(self):
        kernels = ("reference",) if platform.machine() == "aarch64" else ("reference", "avx2")
        for preset in ("swapmoe", "pruning"):
            first = self.generated(preset)
            self.assertNotEqual(self.generated(preset, "--exact")["text"], first["text"])
            for threads, kernel, io in (("1", kernels[0], "threads"), ("2", kernels[-1], "buffered"), ("3", "auto", "auto")):
                again = self.generated(preset, "--threads", threads, "--isa", kernel, "--io", io)
                self.assertEqual(again["text"], first["text"], (preset, threads, kernel, io))
                for key in ("hits", "misses", "skipped", "substituted", "promoted"):
                    self.assertEqual(again["decode"][key], first["decode"][key], (preset, key))

    def test_exact_runs_exchange_nothing_and_give_the_text_of_waiting(self):
        exact = self.generated("swapmoe", "--exact")
        self.assertEqual(exact["decode"]["promoted"], 0)
        self.assertEqual(exact["text"], self.generated("pruning", "--exact")["text"])

    def test_without_a_trace_the_norms_decide(self):
        output = self.scratch / "norms.moe"
        self.expect(DONE, "moec", "replan", pocket("4"), "--memory", "25%", "--preset", "pruning", "--reference", pocket("source"),
                    "--eval-text", TEXT, "--window", 64, "-o", output)
        plan = self.plans(output)["pruning"]
        norms = self.plans()["swapmoe"]["expert_norms"]
        for pinned, layer in zip(plan["pinned"], norms):
            kept = [layer[expert] for expert in pinned]
            self.assertEqual(kept, sorted(layer, reverse=True)[:len(kept)])
