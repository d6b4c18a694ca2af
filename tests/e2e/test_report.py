"""moec report: a run explained from its profile: the numbers are those of the profile, and bad inputs are refused."""
import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from html.parser import HTMLParser

import cgroups
from support import DATA, DONE, POCKET, ROOT, SCRATCH, E2eTest, copied, pocket, program, run

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


class Page(HTMLParser):
    """The numbers of a page: of its facts by id, of its tables row by row."""

    def __init__(self, text):
        super().__init__()
        self.facts, self.tables, self.texts, self.links = {}, {}, [], []
        self.figures = 0
        self.table = None
        self.feed(text)

    def handle_starttag(self, tag, given):
        attributes = dict(given)
        self.links += [attributes[name] for name in ("src", "href", "action", "data") if name in attributes]
        if tag == "figure":
            self.figures += 1
        if tag == "table":
            self.table = self.tables.setdefault(attributes["data-table"], []) if "data-table" in attributes else None
        if tag == "tr" and self.table is not None:
            self.table.append([])
        if tag == "td":
            number = float(attributes["data-v"]) if "data-v" in attributes else None
            if "data-fact" in attributes:
                self.facts[attributes["data-fact"]] = number
            elif self.table is not None:
                self.table[-1].append(number)

    def handle_data(self, text):
        self.texts.append(text)


def numbers(row):
    return [value if isinstance(value, (int, float)) else None for value in row]


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
        hits = [row[5] for row in rows]
        self.assertEqual([row[0] for row in rows], sorted(row[0] for row in rows))
        self.assertGreater(hits[-1], hits[0])
        self.assertEqual(sum("this run" in row[1] for row in rows), 1)
        self.assertEqual(sum("knee" in row[1] for row in rows), 1)

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
        self.refused("moec", "report", planned(), "--run", profiled("--memory", "25%", tokens=1), mention=r"no decode step, as the run ended with 1 generated token \(length\), expected at least 2: run it again with -n 64$")

    def test_without_calibration_the_report_says_what_is_missing(self):
        model = pocket("4")
        path = self.scratch / "run.json"
        self.expect(DONE, "moert", "run", model, "-p", TEXT, "-n", 8, "--ignore-eos", "--memory", "50%", "--profile", path)
        text = " ".join(self.expect(DONE, "moec", "report", model, "--run", path).out.split())
        self.assertIn("The artifact has no trace of calibration text", text)
        self.assertIn("Other plans were not searched", text)
        self.assertIn("No loss was accepted: loss not measured; ", text)

    def test_the_command_of_the_report_repeats_the_run(self):
        prompt, path, again = self.scratch / "prompt.txt", self.scratch / "run.json", self.scratch / "again.json"
        prompt.write_text(TEXT)
        first = self.expect(DONE, "moert", "run", planned(), "-f", prompt, "-n", TOKENS, "--ignore-eos", "--temp", 0.9, "--top-p", 0.95,
                            "--stop", "it's", "$HOME", "--memory", "25%", "--profile", path)  # The seed is drawn.
        self.assertIn("--ignore-eos", json.loads(path.read_text())["options"])
        self.assertRegex(json.loads(path.read_text())["options"][-1], r"^--seed=\d+$")
        words = shlex.split(facts_of(self.said(path))["provenance.command"]["value"])
        self.assertIn(str(prompt), words)
        words = [{"RUN.json": again}.get(word, word) for word in words]
        self.assertEqual(self.expect(DONE, *words).out, first.out)
        profiles = [json.loads(each.read_text()) for each in (path, again)]
        for key in ("plan", "pool_pages", "threads", "context_tokens", "generated_tokens", "end"):
            self.assertEqual(profiles[0][key], profiles[1][key], key)
        self.assertEqual(*(sorted(profile["options"]) for profile in profiles))

    def test_the_verdict_is_two_sentences_and_a_command_that_runs(self):
        prompt, path, again = self.scratch / "prompt.txt", self.scratch / "run.json", self.scratch / "again.json"
        prompt.write_text(TEXT)
        self.expect(DONE, "moert", "run", planned(), "-f", prompt, "-n", TOKENS, "--ignore-eos", "--memory", "10%", "--profile", path)
        said = self.said(path)
        sentences = said["sections"][0]["sentences"]
        self.assertEqual([len(sentence.split()) <= 25 for sentence in sentences], [True, True], sentences)
        self.assertIn("Best change: more memory: ", sentences[1])
        words = shlex.split(facts_of(said)["verdict.command"]["value"])
        self.assertEqual(words[:2], ["moert", "run"])
        self.expect(DONE, *[{"RUN.json": again}.get(word, word) for word in words])
        self.assertGreater(json.loads(again.read_text())["budget_bytes"], json.loads(path.read_text())["budget_bytes"])

    def test_the_text_is_as_wide_as_80_columns(self):
        text = self.expect(DONE, "moec", "report", planned(), "--run", profiled("--memory", "25%"), "--device", DEVICE).out
        paths = re.compile(r"^ *\S*/\S*( \\)?$")  # A word that is longer has a line of its own.
        self.assertEqual([line for line in text.splitlines() if len(line) > 80 and not paths.match(line)], [])

    def test_the_json_is_documented(self):
        said = self.said(profiled("--memory", "25%"))
        self.documented(said, "docs/reports.md")


class PageTest(E2eTest):
    def page(self, *runs, model=None, flags=()):
        path = self.scratch / "report.html"
        done = self.expect(DONE, "moec", "report", model or planned(), "--run", *runs, "-o", path, "--json", *flags)
        return path, path.read_text(), json.loads(done.out)

    def assert_same_numbers(self, text, said):
        page, facts, tables = Page(text), facts_of(said), tables_of(said)
        self.assertEqual(page.facts, {name: fact["value"] if isinstance(fact["value"], (int, float)) else None
                                      for name, fact in facts.items()})
        shown = {name: [row for row in rows if row] for name, rows in page.tables.items()}
        self.assertEqual(shown, {name: [numbers(row) for row in table["rows"]] for name, table in tables.items() if table["rows"]})
        return page

    def test_every_number_of_the_page_is_that_of_the_json(self):
        _, text, said = self.page(profiled("--memory", "25%"))
        page = self.assert_same_numbers(text, said)
        self.assertGreater(page.figures, 10)
        data = json.loads(re.search(r'<script type="application/json" id=data>(.*?)</script>', text, re.S)[1])
        for picture in data["pictures"].values():
            self.assertEqual(data["tables"][picture["table"]]["rows"], tables_of(said)[picture["table"]]["rows"])

    def test_the_page_names_nothing_outside_itself(self):
        _, text, _ = self.page(profiled("--memory", "25%"))
        self.assertEqual({link for link in Page(text).links if not link.startswith("#")}, set())
        self.assertIn("default-src 'none'", text)
        self.assertNotRegex(text, r"@import|url\(\s*['\"]?http|sourceMappingURL")
        self.assertLess(len(text), 3 << 20)

    def test_two_runs_are_compared(self):
        path, text, said = self.page(profiled("--memory", "25%"), profiled("--memory", "100%"))
        self.assert_same_numbers(text, said)
        ids = [section["id"] for section in said["sections"]]
        self.assertEqual(ids[:2], ["compare", "a.verdict"])
        self.assertIn("b.provenance", ids)
        facts = facts_of(said)
        rows = {row[0]: row for row in tables_of(said)["compare.figures"]["rows"]}
        self.assertAlmostEqual(rows["speed"][3],
                               facts["b.verdict.tokens_per_second"]["value"] / facts["a.verdict.tokens_per_second"]["value"])

    def test_a_hostile_name_is_escaped(self):
        name = "a<script>alert(1)<b>&\"'.moe"
        model = copied(planned(), self.scratch, name)
        _, text, said = self.page(profiled("--memory", "25%"), model=model)
        self.assertNotIn("<script>alert", text)
        self.assertIn("Run of " + name, "".join(Page(text).texts))
        self.assertEqual(said["title"], "Run of " + name)

    def test_outputs_that_would_replace_an_input_are_refused(self):
        profile = profiled("--memory", "25%")
        before = profile.read_bytes()
        for flag in ("-o", "--trace"):
            self.refused("moec", "report", planned(), "--run", profile, flag, profile, mention="would replace")
        self.assertEqual(profile.read_bytes(), before)
        both = self.scratch / "both"
        self.refused("moec", "report", planned(), "--run", profile, "-o", both, "--trace", both, mention="expected two names")
        self.assertFalse(both.exists())

    def drawn_by(self, browser, page):
        """What a browser says, and the page with what its scripts drew. Chromium hangs at times: it is begun anew then."""
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=20000"]
        for attempt in range(3):
            said, drawn = self.scratch / "said", self.scratch / "drawn"
            with said.open("wb") as errors, drawn.open("wb") as output:
                # Its children live on when it alone is killed. They would also hold a pipe open, so its output goes to files.
                process = subprocess.Popen([*command, f"--user-data-dir={self.scratch}/browser{attempt}", "--dump-dom", page.as_uri()],
                                           stdout=output, stderr=errors, start_new_session=True)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=100)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            if process.wait() == DONE:
                return said.read_text(errors="replace"), drawn.read_text(errors="replace")
        self.fail(f"the browser drew nothing in three attempts: {said.read_text(errors='replace')[-2000:]}")

    def test_a_browser_draws_every_picture_without_a_message(self):
        browser = shutil.which("chromium")
        if not browser:
            self.skipTest("no chromium: the pictures of a page are not drawn")
        path, text, _ = self.page(profiled("--memory", "25%"), profiled("--memory", "100%"))
        said, drawn = self.drawn_by(browser, path)
        self.assertEqual([line for line in said.splitlines() if "CONSOLE" in line], [])
        self.assertIn('data-drawn="yes"', drawn)
        marks = [int(count) for count in re.findall(r'<figure [^>]*data-marks="(\d+)"', drawn)]
        self.assertEqual(len(marks), Page(text).figures)
        self.assertGreater(min(marks), 0)


class TraceTest(E2eTest):
    def test_spans_nest_and_have_the_clock_of_the_profile(self):
        profile = json.loads(profiled("--memory", "25%").read_text())
        path = self.scratch / "trace.json"
        self.assertEqual(self.expect(DONE, "moec", "report", planned(), "--run", profiled("--memory", "25%"), "--trace", path).out, "")
        events = json.loads(path.read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        for event in events:
            self.assertEqual({"name", "ph", "pid", "tid", "ts"} - set(event), set())
        to_ns = lambda us: round(us * 1000)
        # In the order of the file a span lies within the last one before it that has not ended, or begins after it.
        open_ends = []
        for span in spans:
            begin, end = to_ns(span["ts"]), to_ns(span["ts"] + span["dur"])
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(end, open_ends[-1] + 1)
            open_ends.append(end)
        steps = [span for span in spans if re.match("token|prompt", span["name"])]
        self.assertEqual([(to_ns(span["ts"]), to_ns(span["dur"])) for span in steps],
                         [(step["begin_ns"], step["wall_ns"]) for step in profile["steps"]])
        waits = sum(to_ns(span["dur"]) for span in spans if span["name"] == "waiting for reads")
        self.assertEqual(waits, sum(sum(step["wait_ns"]) for step in profile["steps"]))
        self.assertTrue(any(event["ph"] == "C" and event["name"] == "memory of the process" for event in events))


class PlantedFaultTest(E2eTest):
    """A fault that is planted is a cause; other ones may cost more."""

    def causes(self, profile, *flags, model=None):
        """Limits with their sentences, in the report's order."""
        said = json.loads(self.expect(DONE, "moec", "report", model or planned(), "--run", profile, *flags, "--json").out)
        rows = tables_of(said)["verdict.causes"]["rows"]
        self.assertEqual(facts_of(said)["verdict.limit"]["value"], rows[0][0])
        self.assertEqual(said["sections"][0]["sentences"][0], rows[0][2])
        return {row[0]: row[2] for row in rows}

    def test_a_budget_that_is_too_small(self):
        limit, sentence = next(iter(self.causes(profiled("--memory", "10%")).items()))
        self.assertEqual(limit, "memory", sentence)
        self.assertIn("The memory budget holds this run back", sentence)

    def test_a_disk_slower_than_its_profile(self):
        reason = cgroups.DiskRate.unavailable(planned())
        if reason:
            self.skipTest(reason)
        path = self.scratch / "slow.json"
        # The bundled model reads so little that the rate has to be low: 20 MB/s where the profile has 1,490.
        with cgroups.DiskRate(planned(), 20_000_000) as disk:
            done = subprocess.run([program("moert"), "run", planned(), "-p", TEXT, "-n", str(TOKENS), "--ignore-eos", "--memory", "25%",
                                   "--profile", path], capture_output=True, timeout=300, preexec_fn=disk.join)
        self.assertEqual(done.returncode, DONE, done.stderr[-2000:])
        self.assertIn("The disk is slower than its profile", self.causes(path, "--device", DEVICE)["disk"])

    def test_a_text_unlike_the_calibration_text(self):
        # Counting uses few experts, which the plan then keeps; a story uses others.
        text, profile, model, path = (self.scratch / name for name in ("count.jsonl", "count.profile", "count.moe", "run.json"))
        line = json.dumps({"text": "One, two, three, four, five, six, seven, eight, nine, ten. " * 60})
        text.write_text((line + "\n") * 12)
        made("moec", "calibrate", POCKET, "--calibration-text", text, "--tokens", 2048, "-o", profile)
        made("moec", "replan", pocket("4"), "--memory", "25%", "--device", DEVICE, "--calibration", profile, "-o", model)
        made("moert", "run", model, "-p", TEXT, "-n", 100, "--ignore-eos", "--memory", "25%", "--temp", 0.8, "--seed", 1, "--profile", path)
        self.assertIn("This text is unlike the calibration text", self.causes(path, model=model)["text"])
