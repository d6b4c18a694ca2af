"""Plans with miss rules: what they change, that nothing but the plan changes it, and the loss that they carry."""
import itertools
import json
import platform
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import (BUILD, DONE, FAILED, FULL, INTERRUPTED, POCKET, ROOT, E2eTest, artifact, calibrated_pocket, documents, ended,
                     plain_text, pocket, program, run, slow, small_disks, start, wait_for)

RULES = ("wait", "lower:0.3:0.8", "skip:0.4", "substitute:0.3:0.5", "mask")
TEXT = documents("validation", 24)
MEASURE = ("--eval-text", TEXT, "--window", 64)
PROMPT = "The old man looked at the sea and"


class MissesTest(E2eTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.planned = Path(cls.folder.name, "planned.moe")
        done = run("moec", "replan", pocket("4"), "--memory", "25%", "--miss", *RULES, "--reference", pocket("source"),
                   *MEASURE, "-o", cls.planned)
        assert done.status == DONE, done.err

    def plans(self, path=None):
        said = json.loads(self.expect(DONE, "moec", "inspect", path or self.planned, "--json").out)
        return {plan["preset"]: plan for plan in said["plans"]}

    def generated(self, rule, *flags, memory="25%"):
        preset = "auto" if rule == "wait" else f"auto {rule}"
        done = self.expect(DONE, "moert", "run", self.planned, "-p", PROMPT, "-n", 48, "--ignore-eos", "--temp", 0,
                           "--memory", memory, "--preset", preset, "--json", *flags)
        return json.loads(done.out)

    def test_every_rule_has_a_plan_with_its_loss_and_without_a_forecast_for_waiting(self):
        plans = self.plans()
        self.assertEqual(list(plans), ["auto"] + [f"auto {rule}" for rule in RULES[1:]])
        self.assertNotIn("loss", plans["auto"])
        self.assertEqual(plans["auto"]["miss"]["action"], "wait")
        for rule in RULES[1:]:
            plan = plans[f"auto {rule}"]
            self.assertEqual(plan["miss"]["action"], rule.split(":")[0])
            self.assertNotIn("forecast", plan)
            loss = plan["loss"]
            self.assertGreater(loss["upper_bound"], loss["loss"])
            self.assertGreater(loss["kl_nats"], 0)
            self.assertEqual(loss["window_tokens"], 64)
            self.assertEqual([text["name"] for text in loss["texts"]], [TEXT.name])
            self.assertEqual(plan["reasons"][-1]["decision"], "miss")
        self.documented(list(plans.values()), "docs/inspect.md")

    def test_the_text_of_inspect_has_rules_and_losses(self):
        text = self.expect(DONE, "moec", "inspect", self.planned).out
        self.assertRegex(text, r"misses +lower: ranks whose better ones have more than 0\.300")
        self.assertRegex(text, r"loss +perplexity -?\d+\.\d+%, at most \d+\.\d+% with 95\.00% confidence")

    def test_eval_measures_the_loss_that_the_plan_carries(self):
        for rule in ("lower:0.3:0.8", "mask"):
            said = json.loads(self.expect(DONE, "moert", "eval", self.planned, "--preset", f"auto {rule}", "--memory", "25%",
                                          "--text", TEXT, "--window", 64, "--reference", pocket("source"), "--json").out)
            loss = self.plans()[f"auto {rule}"]["loss"]
            self.assertEqual((said["loss"], said["upper_bound"], said["kl"]),
                             (loss["loss"], loss["upper_bound"], loss["kl_nats"]))
            exact = json.loads(self.expect(DONE, "moert", "eval", self.planned, "--preset", f"auto {rule}", "--memory", "25%",
                                           "--exact", "--text", TEXT, "--window", 64, "--reference", pocket("source"),
                                           "--json").out)
            self.assertLess(exact["kl"], said["kl"])

    def test_a_rule_gives_the_same_text_with_every_thread_count_kernel_and_io_backend(self):
        kernels = ("reference",) if platform.machine() == "aarch64" else ("reference", "avx2")
        waiting = self.generated("wait")
        for rule in RULES[1:]:
            first = self.generated(rule)
            self.assertEqual(self.generated(rule, "--exact")["text"], waiting["text"])
            changed = sum(first["decode"][key] for key in ("lowered", "skipped", "substituted"))
            self.assertGreater(changed, 0, rule)
            self.assertLess(first["decode"]["bytes_read"], waiting["decode"]["bytes_read"])
            for threads, kernel, io in (("1", kernels[0], "threads"), ("2", kernels[-1], "buffered"), ("3", "auto", "auto")):
                again = self.generated(rule, "--threads", threads, "--isa", kernel, "--io", io)
                self.assertEqual(again["text"], first["text"], (rule, threads, kernel, io))
                for key in ("hits", "misses", "lowered", "skipped", "substituted", "bytes_read"):
                    self.assertEqual(again["decode"][key], first["decode"][key], (rule, key))

    def test_a_bench_gives_hits_by_precision(self):
        bench = lambda rule, *flags: json.loads(self.expect(
            DONE, "moert", "bench", self.planned, "--preset", f"auto {rule}", "--memory", "25%", "--text", plain_text("validation"),
            "--given", "--prompt-tokens", 8, "--tokens", 24, "--repeat", 2, "--json", *flags).out)
        said = bench("lower:0.3:0.8")
        self.documented(said, "docs/bench.md")
        low = said["lowered_per_token"]
        self.assertGreater(low, 0)
        full = said["demanded_per_token"] - low
        self.assertAlmostEqual(said["hit_rate"] * said["demanded_per_token"],
                               said["full_hit_rate"] * full + said["low_hit_rate"] * low, places=9)
        self.assertAlmostEqual(said["demanded_per_token"] + said["skipped_per_token"], 40)  # Top 4 in ten layers.
        exact = bench("lower:0.3:0.8", "--exact")
        self.assertIsNone(exact["low_hit_rate"])
        self.assertEqual(exact["full_hit_rate"], exact["hit_rate"])

    def replayed(self, artifact):
        """What miss_replay_bench prints of each lossy plan; it fails if a replay of a run's own scores differs from the run."""
        done = subprocess.run([BUILD / "tests/miss_replay_bench", artifact, plain_text("validation"), "160"], capture_output=True,
                              text=True, timeout=600)
        self.assertEqual(done.returncode, DONE, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_a_replay_counts_what_a_run_counts_with_the_scores_of_that_run(self):
        plans = self.replayed(self.planned)
        self.assertEqual([plan["miss"] for plan in plans], list(RULES[1:]))
        for plan in plans:
            run, own, waiting = plan["run"], plan["own_scores"], plan["scores_of_waiting"]
            self.assertEqual(own, run, plan["miss"])
            self.assertEqual(run["same_passes"], plan["passes"])
            self.assertGreater(sum(run[key] for key in ("lowered", "skipped", "substituted")), 0)
            self.assertGreaterEqual(waiting["same_passes"], plan["passes"] // 10)  # The first of ten layers.

    def test_more_memory_changes_nothing_and_less_is_refused_with_both_sizes(self):
        self.assertEqual(self.generated("skip:0.4", memory="60%")["text"], self.generated("skip:0.4")["text"])
        budget = self.plans()["auto skip:0.4"]["budget_bytes"]
        self.refused("moert", "run", self.planned, "-p", PROMPT, "-n", 4, "--memory", f"{budget // 2}B", "--preset",
                     "auto skip:0.4", mention=rf"{budget // 2} bytes.* is less than plan '25% skip:0\.4'.*--exact")
        self.refused("moert", "run", self.planned, "-p", PROMPT, "-n", 4, "--memory", "10%", "--preset", "auto skip:0.4",
                     mention=r"a memory budget of 10% is less than plan")
        self.generated("skip:0.4", "--exact", memory="10%")

    def accepted(self, name, loss, *rules):
        output = self.scratch / name
        self.expect(DONE, "moec", "replan", pocket("4"), "--memory", "25%", "--miss", *rules, "--accuracy-loss", loss,
                    "--reference", pocket("source"), *MEASURE, "-o", output, "--acceptance-log", self.scratch / f"{name}.log")
        return self.plans(output)["auto"]

    def test_with_a_target_the_last_rule_within_it_is_taken_and_none_is_a_valid_answer(self):
        rules = ("lower:0.9:1", "skip:0.9")
        self.assertEqual(self.accepted("any.moe", "1000%", *rules)["miss"]["action"], "skip")
        plan = self.accepted("none.moe", "0.000001%", *rules)
        self.assertEqual(plan["miss"]["action"], "wait")
        self.assertRegex(plan["reasons"][-1]["reason"], r"^No rule is within the loss: lower:0\.9:1 loses .*, more than was allowed: 0\.00%")

    def test_documents_that_calibration_has_read_accept_no_rule(self):
        output = self.scratch / "lossy.moe"
        command = ("moec", "replan", pocket("4"), "--memory", "25%", "--miss", "skip:0.9", "--accuracy-loss", "1000%", "--reference",
                   pocket("source"), *MEASURE, "-o", output)
        done = self.expect(DONE, *command, "--calibration-text", documents("validation", 2))
        self.assertIn("accepting on 20 of 22 units", done.err)
        self.assertEqual(self.plans(output)["auto"]["loss"]["units"], 20)
        output.unlink()
        self.refused(*command, "--calibration-text", documents("validation", 10),
                     mention="--eval-text has 12 units that calibration and the search have not read")
        copy = self.scratch / "copy.jsonl"
        copy.write_bytes(TEXT.read_bytes())
        self.refused(*command, "--calibration-text", copy, mention="is the calibration text .*copy.jsonl")
        self.refused("moec", "replan", pocket("4"), "--memory", "25%", "--miss", "skip:0.9", "--reference", pocket("source"), *MEASURE,
                     "--calibration-text", copy, "-o", output, mention="expected it with --accuracy-loss")

    @slow
    def test_another_window_or_cache_is_another_test_and_no_equal_one_counts_twice(self):
        log, output = self.scratch / "log.jsonl", self.scratch / "lossy.moe"

        def accepted(memory, window):
            self.expect(DONE, "moec", "replan", pocket("4"), "--memory", memory, "--miss", "skip:0.9", "--accuracy-loss", "1000%",
                        "--reference", pocket("source"), "--eval-text", TEXT, "--window", window, "-o", output, "--acceptance-log",
                        log)
            return self.plans(output)["auto"]["loss"]["confidence"]

        first = accepted("25%", 64)
        self.assertEqual(accepted("25%", 64), first)
        self.assertEqual(len(log.read_text().splitlines()), 1)
        self.assertGreater(accepted("25%", 32), 0.999)
        self.assertGreater(accepted("30%", 64), 0.999)
        self.refused("moec", "replan", pocket("4"), "--memory", "25%", "50%", "--miss", "skip:0.9", "--accuracy-loss", "1000%",
                     "--reference", pocket("source"), *MEASURE, "-o", self.scratch / "two.moe", "--acceptance-log", log,
                     mention=r"2 series of tests.*expected new documents with --eval-text")
        self.assertEqual(len(log.read_text().splitlines()), 3)
        self.assertRegex(self.expect(DONE, "moert", "eval", output, "--text", TEXT, "--window", 64, "--memory", "30%").err,
                         r"is a text that .* was accepted on: .* need new documents")

    @slow
    def test_an_interrupted_measurement_is_resumed_with_what_was_measured_and_gives_the_same_artifact(self):
        output = self.scratch / "planned.moe"
        work = Path(f"{output}.work")
        command = ("replan", pocket("4"), "--memory", "25%", "--miss", "lower:0.3:0.8", "skip:0.4", "--reference",
                   pocket("source"), *MEASURE, "-o", output)
        self.expect(DONE, "moec", *command)
        self.assertFalse(work.exists())
        whole = output.read_bytes()
        output.unlink()

        def interrupted(*flags):
            """At the first score of a plan. The rest may be faster than the signal."""
            started = start("moec", *command, *flags)
            wait_for(started, work, "plans-*")
            started.send_signal(signal.SIGINT)
            status, error = ended(started)
            self.assertEqual(status, INTERRUPTED, error)
            self.assertRegex(error, rf"--resume continues from {work}")
            self.assertFalse(output.exists())

        interrupted()
        self.expect(DONE, "moec", *command, "--resume")
        self.assertEqual(output.read_bytes(), whole)
        self.assertFalse(work.exists())
        before = self.plans(output)
        output.unlink()

        interrupted()
        rows = next(path for path in work.glob("logits-*") if path.suffix != ".of")
        rows.write_bytes(bytes(rows.stat().st_size))
        self.expect(DONE, "moec", *command, "--resume")
        resumed = self.plans(output)
        self.assertEqual(resumed["auto lower:0.3:0.8"]["loss"], before["auto lower:0.3:0.8"]["loss"])  # Not measured again.
        self.assertNotEqual(resumed["auto skip:0.4"]["loss"], before["auto skip:0.4"]["loss"])  # With the logits that were there.
        output.unlink()

        interrupted()
        self.refused("moec", *command, mention="found the work of an interrupted command")
        self.expect(DONE, "moec", *command, "--restart")
        self.assertEqual(output.read_bytes(), whole)
        self.refused("moec", "replan", pocket("4"), "--memory", "25%", "--resume", "-o", output, mention="expected --miss RULE")

    def test_a_disk_without_room_for_the_reference_s_logits_is_named_before_it_decodes(self):
        unshare = small_disks(self.scratch)
        if not unshare:
            self.skipTest("no disk of a chosen size can be mounted here")
        command = [program("moec"), "replan", pocket("4"), "--memory", "25%", "--miss", "skip:0.4", "--reference", pocket("source"),
                   *MEASURE, "-o", self.scratch / "no.moe"]
        script = 'mount -t tmpfs -o size=24m none "$1" && shift && exec "$@"'  # The artifact has 10 MiB, the logits some 100 MiB.
        done = subprocess.run([*unshare, "sh", "-c", script, "sh", *map(str, [self.scratch, *command])], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertRegex(done.stderr, r"no\.moe\.work: \d.* needed for the reference's logits, \d.* free on the disk")

    def test_rules_that_cannot_be_read_or_measured_are_refused(self):
        command = ("moec", "replan", pocket("4"), "--memory", "25%", "-o", self.scratch / "none.moe")
        for rule in ("hope", "lower:0.5", "lower:0.9:0.5", "skip", "skip:2", "mask:1", "lower:0:1:0", "wait:0", "skip:"):
            self.refused(*command, "--miss", rule, *MEASURE, "--reference", pocket("source"), mention="expected auto alone, or wait, lower")
        self.refused(*command, "--miss", "mask", mention="expected --reference REF.moe.* and --eval-text")
        self.refused(*command, "--miss", "mask", "mask", *MEASURE, "--reference", pocket("source"), mention="given twice")
        self.refused(*command, "--accuracy-loss", "2%", mention="expected --miss RULE, or a preset")
        self.refused(*command, "--miss", "mask", "--eval-text", documents("validation", 3), "--window", 64, "--reference",
                     pocket("source"), mention="20 documents or more")
        self.refused(*command, "--miss", "mask", *MEASURE, "--reference", artifact(POCKET, "--bits", "source"),
                     mention="found resident_bits 8, expected the checkpoint compiled with --bits source and --resident-bits")
        self.assertEqual(list(self.scratch.iterdir()), [])

    def searched(self, name, loss, *extra, memory="25%"):
        """The plan of --miss auto on a slow disk, and what was printed."""
        profile, output = self.scratch / "pocket.profile", self.scratch / name
        if not profile.exists():
            calibrated_pocket(self.scratch)
        self.expect(DONE, "moec", "replan", pocket("4"), "--memory", memory, "--miss", "auto", "--accuracy-loss", loss,
                    "--calibration", profile, "--device", ROOT / "profiles/desktop-sata.yaml", "--reference", pocket("source"),
                    *MEASURE, "-o", output, "--acceptance-log", self.scratch / f"{name}.log", *extra)
        return self.plans(output)["auto"]

    @slow
    def test_rules_are_searched_for_by_their_time_within_the_loss(self):
        waiting = self.searched("none.moe", "0.000001%")
        self.assertEqual(waiting["miss"]["action"], "wait")
        why = waiting["reasons"][-1]["reason"]
        self.assertRegex(why, r"^No loss on misses\. Waiting takes .* 105 rules were simulated; .* takes .* and loses .*, more than was allowed: 0\.00%")

    @unittest.skipUnless(FULL, "measures every rung: tests/e2e/run --full")
    def test_the_fastest_rule_within_the_loss_is_taken(self):
        waiting = self.searched("none.moe", "0.000001%")
        found = self.searched("found.moe", "1000%")
        self.assertNotEqual(found["miss"]["action"], "wait")
        self.assertLess(found["loss"]["upper_bound"], 10)
        self.assertLess(found["forecast"]["token_ns"], 0.98 * waiting["forecast"]["token_ns"])
        self.assertLess(found["forecast"]["bytes_read_per_token"], waiting["forecast"]["bytes_read_per_token"])
        self.assertEqual(found["forecast"]["least_bytes_per_token"], waiting["forecast"]["least_bytes_per_token"])
        # The ladders divide the level.
        self.assertGreater(found["loss"]["confidence"], 0.98)
        all_there = self.searched("all.moe", "1000%", memory="100%")
        self.assertEqual(all_there["miss"]["action"], "wait")
        self.assertRegex(all_there["reasons"][-1]["reason"], "105 rules were simulated, none is 2% faster")

    def test_a_search_for_rules_without_a_loss_or_with_other_rules_or_a_trace_is_refused(self):
        command = ("moec", "replan", pocket("4"), "--memory", "25%", "-o", self.scratch / "none.moe", *MEASURE, "--reference",
                   pocket("source"), "--acceptance-log", self.scratch / "log")
        self.refused(*command, "--miss", "auto", mention="expected --accuracy-loss")
        self.refused(*command, "--miss", "auto", "mask", "--accuracy-loss", "2%", mention="expected auto alone")
        self.refused(*command, "--miss", "auto", "--accuracy-loss", "2%", mention="expected --device and an artifact")
        self.assertFalse((self.scratch / "log").exists())

    @slow
    def test_fate_lowers_unpopular_experts_of_prompts_as_far_as_a_loss_permits(self):
        profile, output = calibrated_pocket(self.scratch), self.scratch / "fate.moe"
        command = ("moec", "replan", pocket("4"), "--memory", "25%", "--preset", "fate", "--calibration", profile, "--device",
                   ROOT / "profiles/desktop-sata.yaml", "-o", output, "--acceptance-log", self.scratch / "log", *MEASURE,
                   "--reference", pocket("source"))
        self.expect(DONE, *command)
        exact = self.plans(output)["fate"]
        self.assertEqual(exact["miss"]["action"], "wait")
        self.assertIn(("prompts", "exact"), [(reason["decision"], reason["value"]) for reason in exact["reasons"]])
        self.expect(DONE, *command, "--accuracy-loss", "0.000001%")
        self.assertRegex(self.plans(output)["fate"]["reasons"][-1]["reason"],
                         r"^No rule is within the loss: prompts:0\.875 loses .*, reading .* as prompts of 64 tokens")
        self.expect(DONE, *command, "--accuracy-loss", "1000%")
        plan = self.plans(output)["fate"]
        self.assertEqual((plan["miss"]["action"], plan["miss"]["wait_up_to"]), ("prompts", 0))
        self.assertIn("forecast", plan)
        self.assertGreater(plan["loss"]["loss"], 0)
        self.assertNotIn("prompts", [reason["decision"] for reason in plan["reasons"]])
        self.assertRegex(self.expect(DONE, "moec", "inspect", output).out, r"misses +prompts: .*0\.000[\s\S]*reading\s+as\s+prompts")
        said = json.loads(self.expect(DONE, "moert", "eval", output, "--memory", "25%", "--text", TEXT, "--window", 64, "--reference",
                                      pocket("source"), "--json").out)
        self.assertEqual((said["loss"], said["kl"]), (plan["loss"]["loss"], plan["loss"]["kl_nats"]))
        run = lambda *flags: json.loads(self.expect(DONE, "moert", "run", output, "-p", PROMPT, "-n", 24, "--ignore-eos", "--temp", 0,
                                                    "--memory", "25%", "--json", *flags).out)
        first, exact = run(), run("--exact")
        self.assertGreater(first["prefill"]["lowered"], 0)
        self.assertEqual((first["decode"]["lowered"], exact["prefill"]["lowered"]), (0, 0))
        self.assertLess(first["prefill"]["bytes_read"], exact["prefill"]["bytes_read"])
        for flags in (("--threads", 1, "--io", "threads"), ("--threads", 3, "--isa", "reference"), ("--io", "buffered")):
            again = run(*flags)
            self.assertEqual((again["text"], again["prefill"]["lowered"]), (first["text"], first["prefill"]["lowered"]), flags)

    def test_rules_that_lower_experts_are_refused_where_those_have_one_slice(self):
        for rule, what in (("prompts:0.5", "experts of prompts"), ("lower:0.6:0.9", "experts")):
            self.refused("moec", "replan", artifact(POCKET, "--bits", "4", "--nested", "off"), "--memory", "25%", "--miss", rule,
                         *MEASURE, "--reference", pocket("source"), "-o", self.scratch / "no.moe",
                         mention=f"{rule} computes {what} with 1 slice, and no expert has more")

    @slow
    def test_hobbit_lowers_and_skips_with_fitted_weights_and_its_loss(self):
        profile, output = calibrated_pocket(self.scratch), self.scratch / "hobbit.moe"
        command = ("moec", "replan", pocket("4"), "--memory", "25%", "--preset", "hobbit", "--calibration", profile, "--device",
                   ROOT / "profiles/desktop-sata.yaml", "-o", output)
        self.refused(*command, mention="--preset hobbit, swapmoe and pruning,.* change the output.*expected --reference")
        self.expect(DONE, *command, "--reference", pocket("source"), *MEASURE)
        plan = self.plans(output)["hobbit"]
        self.assertEqual((plan["eviction"], plan["sharing"], plan["survival"]), ("weighted", "one pool", "contents"))
        self.assertEqual(sum(plan["eviction_weights"].values()), 1)
        self.assertEqual(plan["miss"]["action"], "lower")
        self.assertEqual(plan["base_slices"], 1)
        self.assertGreater(plan["upper_part"], 0)  # A pool for each precision.
        self.assertIn("pools", [reason["decision"] for reason in plan["reasons"]])
        self.assertAlmostEqual(plan["miss"]["wait_up_to"], 0.6, places=6)
        self.assertGreater(plan["loss"]["loss"], 0)
        self.assertGreater(plan["forecast"]["bytes_read_per_token"], 0)
        self.documented(plan, "docs/inspect.md")
        self.expect(DONE, *command, "--miss", "wait")
        waiting = self.plans(output)["hobbit"]
        self.assertEqual((waiting["eviction"], waiting["miss"]["action"]), ("weighted", "wait"))
        self.assertEqual((waiting["base_slices"], waiting["upper_part"]), (0, 0))
        self.assertNotIn("pools", [reason["decision"] for reason in waiting["reasons"]])
        self.assertIn("forecast", waiting)
        self.refused("moec", "compile", POCKET, "--preset", "hobbit", "-o", self.scratch / "no.moe",
                     mention="preset hobbit loses accuracy on misses.*moec replan")

    @slow
    def test_hobbit_predicts_adaptively_as_deep_as_asked_and_runs_repeat(self):
        profile, output = calibrated_pocket(self.scratch), self.scratch / "deep.moe"
        command = ("moec", "replan", pocket("4"), "--memory", "25%", "--calibration", profile, "--device",
                   ROOT / "profiles/desktop-sata.yaml", "--miss", "lower:0.6:0.9", "--reference", pocket("source"), *MEASURE, "-o", output)
        self.expect(DONE, *command, "--preset", "hobbit", "--prefetch-depth", 3)
        plan = self.plans(output)["hobbit"]
        self.assertEqual([(rule["predictor"], rule["ahead"]) for rule in plan["prefetches"][1:5]],
                         [("adaptive-gate", 1), ("adaptive-gate", 2), ("adaptive-gate", 3), ("adaptive-gate", 3)])
        depth = [reason for reason in plan["reasons"] if reason["decision"] == "prediction depth"]
        self.assertEqual([reason["value"] for reason in depth], ["3 ahead"])
        run = lambda *flags: json.loads(self.expect(DONE, "moert", "run", output, "-p", PROMPT, "-n", 48, "--ignore-eos", "--temp", 0,
                                                    "--memory", "25%", "--json", *flags).out)
        first = run()
        self.assertGreater(first["decode"]["useful"], 0)
        for flags in (("--threads", 1, "--io", "threads"), ("--threads", 3, "--isa", "reference"), ("--io", "buffered")):
            again = run(*flags)
            self.assertEqual(again["text"], first["text"], flags)
            for key in ("hits", "misses", "lowered", "skipped"):
                self.assertEqual(again["decode"][key], first["decode"][key], key)
        self.refused(*command, "--preset", "lru", "--prefetch-depth", 2, mention="--prefetch-depth 2 .*expected --preset hobbit")
        self.refused(*command, "--preset", "hobbit", "--prefetch-depth", 4, mention="--prefetch-depth.*3")

    def test_a_rule_in_a_module_is_emitted_and_an_impossible_one_refused(self):
        module, output = self.scratch / "m.mlir", self.scratch / "emitted.moe"
        self.expect(DONE, "moec", "compile", POCKET, "-o", self.scratch / "compiled.moe", "--save-module", module)
        text = module.read_text()
        self.assertEqual(text.count('#moe.plan<name = "default"'), 1)
        with_rule = lambda rule: text.replace('#moe.plan<name = "default"', f'#moe.plan<name = "default", miss = <{rule}>')
        module.write_text(with_rule("action = skip, waitUpTo = 4194304"))
        self.expect(DONE, "moec", "emit", module, "-o", output)
        plan = next(iter(self.plans(output).values()))
        self.assertEqual((plan["miss"]["action"], plan["miss"]["wait_up_to"]), ("skip", 0.25))
        module.write_text(with_rule("action = skip, lowSlices = 0"))
        self.refused("moec", "emit", module, "-o", self.scratch / "none.moe", mention="low_slices is 0, expected 1 to 255")
