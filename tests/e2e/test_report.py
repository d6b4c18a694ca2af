"""moec report: a run explained from its profile: the numbers are those of the profile, and bad inputs are refused."""
import functools
import json

from support import DATA, DONE, POCKET, ROOT, SCRATCH, E2eTest, pocket, run

DEVICE = ROOT / "profiles" / "laptop-nvme.yaml"
TOKENS = 48
TEXT = "The old man looked at the sea and"


def made(*command):
    done = run(*command)
    if done.status != DONE:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.status}\n{done.err[-4000:]}")


@functools.cache
def planned():
    """The bundled model at 4 bits, with a calibration trace and a searched plan for 25% of the experts."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    profile, path = SCRATCH / "report.profile", SCRATCH / "report.moe"
    made("moec", "calibrate", POCKET, "--calibration-text", DATA / "documents/calibration.jsonl", "--tokens", 2048, "-o", profile)
    made("moec", "replan", pocket("4"), "--memory", "25%", "--device", DEVICE, "--calibration", profile, "-o", path)
    return path


@functools.cache
def profiled(*flags, text=TEXT, tokens=TOKENS):
    """The profile of a run of that artifact."""
    path = SCRATCH / f"run{len(list(SCRATCH.glob('run*.json')))}.json"
    made("moert", "run", planned(), "-p", text, "-n", tokens, "--ignore-eos", "--profile", path, *flags)
    return path


def facts_of(said):
    return {fact["id"]: fact for section in said["sections"] for fact in section["facts"]}


def tables_of(said):
    return {table["id"]: table for section in said["sections"] for table in section["tables"]}


class ReportTest(E2eTest):
    def said(self, profile, *flags, model=None):
        return json.loads(self.expect(DONE, "moec", "report", model or planned(), "--run", profile, *flags, "--json").out)

    def test_measured_numbers_are_those_of_the_profile(self):
        profile = json.loads(profiled("--memory", "25%").read_text())
        said = self.said(profiled("--memory", "25%"))
        facts, decode = facts_of(said), profile["totals"]["decode"]
        self.assertEqual(decode["steps"], TOKENS - 1)
        self.assertEqual(facts["verdict.tokens_per_second"]["origin"], "measured")
        self.assertAlmostEqual(facts["verdict.tokens_per_second"]["value"], 1e9 * decode["steps"] / decode["wall_ns"], places=6)
        self.assertAlmostEqual(facts["verdict.wait_fraction"]["value"], sum(decode["wait_ns"]) / decode["wall_ns"], places=9)
        self.assertAlmostEqual(facts["cache.hit_rate"]["value"],
                               sum(decode["hits"]) / (sum(decode["hits"]) + sum(decode["misses"])), places=9)
        self.assertEqual(len(tables_of(said)["time.tokens"]["rows"]), TOKENS - 1)
        parts = tables_of(said)["verdict.parts"]["rows"]
        self.assertAlmostEqual(sum(row[1] for row in parts), decode["wall_ns"] / decode["steps"], delta=1)

    def test_the_replay_has_the_hits_of_the_run(self):
        # Without prefetches the cache's content does not depend on time.
        model = pocket("4")
        path = self.scratch / "run.json"
        self.expect(DONE, "moert", "run", model, "-p", TEXT, "-n", TOKENS, "--ignore-eos", "--memory", "25%", "--profile", path)
        facts = facts_of(self.said(path, model=model))
        self.assertAlmostEqual(facts["cache.replayed_hit_rate"]["value"], facts["cache.hit_rate"]["value"], places=9)

    def test_text_and_json_agree(self):
        text = self.expect(DONE, "moec", "report", planned(), "--run", profiled("--memory", "25%"), "--device", DEVICE).out
        said = self.said(profiled("--memory", "25%"), "--device", DEVICE)
        for section in said["sections"]:
            self.assertIn("\n" + section["title"] + "\n", text)
            for sentence in section["sentences"]:
                self.assertIn(" ".join(sentence.split()), " ".join(text.split()))

    def test_more_memory_is_predicted_to_hit_more(self):
        rows = tables_of(self.said(profiled("--memory", "25%")))["change.budgets"]["rows"]
        hits = [row[4] for row in rows]
        self.assertEqual([row[0] for row in rows], sorted(row[0] for row in rows))
        self.assertGreater(hits[-1], hits[0])
        self.assertEqual(sum(row[6] == "this run" for row in rows), 1)
        self.assertEqual(sum("knee" in row[6] for row in rows), 1)

    def test_a_run_of_another_artifact_is_refused(self):
        self.refused("moec", "report", pocket("2"), "--run", profiled("--memory", "25%"),
                     mention=r"run\d+.json: found a run of report.moe with the weights [0-9a-f]{16}, expected a run of .*2.moe")

    def test_a_run_with_a_plan_that_the_artifact_does_not_hold_is_refused(self):
        self.refused("moec", "report", pocket("4"), "--run", profiled("--memory", "25%"), mention="found a run with the plan '25%'")

    def test_broken_profiles_are_refused(self):
        whole = profiled("--memory", "25%").read_text()
        for name, text, mention in (("cut.json", whole[:len(whole) // 2], "expected a run profile"),
                                    ("empty.json", "", "found an empty file"),
                                    ("version.json", whole.replace('"version":1', '"version":7', 1), "version 7, expected version 1"),
                                    ("old.json", whole.replace('"routes"', '"paths"', 1), "found no key 'routes'"),
                                    ("words.json", whole.replace('"wait_ns":[', '"wait_ns":["', 1), "expected")):
            path = self.scratch / name
            path.write_text(text)
            self.refused("moec", "report", planned(), "--run", path, mention=name + ".*" + mention)
        self.refused("moec", "report", planned(), "--run", self.scratch / "missing.json", mention="missing.json")

    def test_a_run_of_one_token_has_nothing_to_explain(self):
        self.refused("moec", "report", planned(), "--run", profiled("--memory", "25%", tokens=1), mention="at least 2 tokens")

    def test_without_calibration_the_report_says_what_is_missing(self):
        model = pocket("4")
        path = self.scratch / "run.json"
        self.expect(DONE, "moert", "run", model, "-p", TEXT, "-n", 8, "--ignore-eos", "--memory", "50%", "--profile", path)
        text = " ".join(self.expect(DONE, "moec", "report", model, "--run", path).out.split())
        self.assertIn("The artifact has no trace of calibration text", text)
        self.assertIn("Other plans were not searched", text)
        self.assertIn("Nothing was measured", text)

    def test_the_json_is_documented(self):
        said = self.said(profiled("--memory", "25%"))
        self.documented(said, "docs/reports.md")
