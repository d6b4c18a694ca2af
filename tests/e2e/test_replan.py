"""moec replan: other budgets in seconds, with the same weights and tokens, and an unchanged input artifact."""
import json
import resource
import signal

from support import (DONE, FAILED, INTERRUPTED, E2eTest, digest, ended, interrupt_at, pocket, run, start, wait_for,
                     without_threads)

BUDGETS = ("25%", "50%", "64MiB")


class ReplanTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.model, self.output = pocket("4"), self.scratch / "new.moe"

    def inspected(self, path):
        return json.loads(self.expect(DONE, "moec", "inspect", path, "--json").out)

    def replanned(self, *flags):
        self.expect(DONE, "moec", "replan", self.model, "--memory", *BUDGETS, *flags, "-o", self.output)
        return self.inspected(self.output)

    def refuses(self, mention, *arguments, output=None):
        before = sorted(self.scratch.iterdir())
        self.refused("moec", "replan", *arguments, "-o", output or self.output, mention=mention)
        self.assertEqual(sorted(self.scratch.iterdir()), before)

    def test_there_is_a_plan_for_each_budget_the_largest_first(self):
        plans = self.replanned()["plans"]
        self.assertEqual({plan["name"] for plan in plans}, set(BUDGETS))
        sizes = [plan["budget_bytes"] for plan in plans]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertIn(64 << 20, sizes)

    def test_each_plan_says_why_also_where_nothing_was_searched(self):
        plans = self.replanned("--preset", "auto", "lru", "load-on-demand")["plans"]
        for plan in plans:
            with self.subTest(plan["name"]):
                said = {reason["decision"]: reason["origin"] for reason in plan["reasons"]}
                self.assertEqual(set(said), {"eviction", "quotas", "prefetches"})
                self.assertTrue(set(said.values()) <= {"stated", "assumed", "derived"})

    def test_a_search_without_a_trace_is_said_to_be_none_on_one_line(self):
        for flags, lines in ((), 1), (("--preset", "lru"), 0), (("--preset", "lru", "auto"), 1):
            said = self.expect(DONE, "moec", "replan", self.model, "--memory", "25%", *flags, "-o", self.output).err
            self.assertEqual(said.count("plans follow rules and are not searched, as "), lines, said)
            self.assertEqual(said.count(f"{self.model} holds no trace: moec compile --calibration-text writes"), lines, said)

    def test_nothing_but_the_plans_is_new(self):
        old, new = self.inspected(self.model), self.replanned()
        for key in set(old) - {"plans", "file", "sections", "file_bytes"}:
            self.assertEqual(old[key], new[key], key)
        manifest = next(section for section in old["sections"] if section["name"] == "manifest")
        weights = slice(4096, manifest["offset"])
        self.assertEqual(self.model.read_bytes()[weights], self.output.read_bytes()[weights])
        self.expect(DONE, "moec", "verify", self.output)

    def test_the_tokens_are_those_of_the_artifact(self):
        self.replanned()
        command = ("-p", "The old man", "-n", "16", "--temp", "0", "--ignore-eos", "--memory", "25%")
        self.assertEqual(self.expect(DONE, "moert", "run", self.output, *command).out, run("moert", "run", self.model, *command).out)

    def test_the_same_budgets_give_the_same_bytes(self):
        self.replanned()
        first = digest(self.output)
        self.replanned()
        self.assertEqual(digest(self.output), first)

    def test_the_context_is_the_artifacts_or_what_is_asked_for(self):
        context = self.inspected(self.model)["plans"][0]["context_tokens"]
        self.assertEqual({plan["context_tokens"] for plan in self.replanned()["plans"]}, {context})
        self.assertEqual({plan["context_tokens"] for plan in self.replanned("--context", 64)["plans"]}, {64})

    def test_where_no_thread_can_be_started_the_bytes_are_the_same(self):
        self.replanned()
        whole = digest(self.output)
        done = run("moec", "replan", self.model, "--memory", *BUDGETS, "-o", self.output, preexec_fn=without_threads)
        self.assertEqual(done.status, DONE, done.err)
        self.assertEqual(digest(self.output), whole)

    def test_an_interrupted_one_leaves_nothing(self):
        partial = self.scratch / "new.moe.partial"
        process = start("moec", "replan", self.model, "--memory", "25%", "-o", self.output)
        interrupt_at(process, signal.SIGINT, partial)
        self.assertIn(sorted(path.name for path in self.scratch.iterdir()), ([], ["new.moe"]))

    def test_one_whose_terminal_is_closed_leaves_nothing_unless_it_may_go_on(self):
        partial = self.scratch / "new.moe.partial"
        ignored = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for prepare, statuses, left in ((None, (INTERRUPTED, DONE), ([], ["new.moe"])), (ignored, (DONE,), (["new.moe"],))):
            with self.subTest(ignored=prepare is ignored):
                process = start("moec", "replan", self.model, "--memory", "25%", "-o", self.output, preexec_fn=prepare)
                # Twice: by the system and by the shell.
                wait_for(process, partial)
                process.send_signal(signal.SIGHUP)
                process.send_signal(signal.SIGHUP)
                status, error = ended(process)
                self.assertIn(status, statuses, error)
                self.assertIn(sorted(path.name for path in self.scratch.iterdir()), left)

    def test_a_file_that_may_not_grow_so_large_is_said_and_nothing_is_left(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, 5 << 20))
        done = run("moec", "replan", self.model, "--memory", "25%", "-o", self.output, preexec_fn=limit)
        self.assertEqual(done.status, FAILED)
        self.assertRegex(done.err, "cannot write '.*new.moe.partial': File too large")
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_what_cannot_be_planned(self):
        model = self.model
        self.refuses("plan '1MiB' needs .* the smallest budget that works is [0-9]+ bytes", model, "--memory", "1MiB")
        self.refuses("budget 25% is given twice", model, "--memory", "25%", "25%")
        self.refuses("budget 25.0% is given twice, before as 25%", model, "--memory", "25%", "25.0%")
        self.refuses("smaller than the largest record", model, "--memory", "0.1%")
        self.refuses("a context of 999999 tokens, expected at most the model", model, "--memory", "25%", "--context", "999999")
        self.refuses("--memory is required", model)
        self.refuses("would replace", model, "--memory", "25%", output=model)
        self.refuses("missing.moe", self.scratch / "missing.moe", "--memory", "25%")
        broken = self.scratch / "broken.moe"
        broken.write_bytes(model.read_bytes()[:5000])
        self.refuses("broken.moe", broken, "--memory", "25%")

    def test_a_damaged_weight_is_not_copied(self):
        damaged = self.scratch / "damaged.moe"
        content = bytearray(self.model.read_bytes())
        records = next(section for section in self.inspected(self.model)["sections"] if section["name"] == "records")
        content[records["offset"] + 100] ^= 1
        damaged.write_bytes(content)
        self.refuses("damaged.moe: .*checksum", damaged, "--memory", "25%")
