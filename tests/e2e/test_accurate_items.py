"""moec compile --metric choice|rouge2|exact: targets in answers, which the artifact alone shows again, and refusals.

On the checkpoint of test_accuracy.py, with items made of its texts: which words go on where a sentence breaks off.
"""
import functools
import json
import re

import support
from support import DONE, FAILED, run
from test_accuracy import TARGET, AMOUNTS, AccuracyTest, checkpoint, folder, profile, searched, texts

CHOICES, PROMPTS = 60, 24
MANY = 6  # Words of a choice.


def write(name, items):
    path = folder() / name
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


@functools.cache
def choices():
    """A sentence's beginning with its own end and those of others: two layers know some of them."""
    words = support.plain_text("acceptance").read_text().split()
    places = [200 + 40 * i for i in range(CHOICES)]
    ends = [" ".join(words[at:at + MANY]) for at in places]
    items = []
    for i, at in enumerate(places):
        others = [ends[(i + step) % CHOICES] for step in (7, 19)]
        answer = i % 3
        items.append({"question": " ".join(words[at - 30:at]), "choices": others[:answer] + [ends[i]] + others[answer:],
                      "answer": answer})
    return write("first.jsonl", items[:20]), write("second.jsonl", items[20:])


@functools.cache
def source():
    path = folder() / "source.moe"
    done = run("moec", "compile", checkpoint(), "--bits", "source", "--resident-bits", "source", "-o", path)
    if done.status != DONE:
        raise AssertionError(f"exit {done.status}\n{done.err[-4000:]}")
    return path


@functools.cache
def answers():
    """What the reference itself writes up to a full stop: it has every point."""
    words = support.plain_text("acceptance").read_text().split()
    prompts = [" ".join(words[50 * i:50 * i + 12]) for i in range(PROMPTS)]
    return write("answers.jsonl", [{"prompt": prompt, "answer": run("moert", "run", source(), "-p", prompt, "-n", 3).out}
                                   for prompt in prompts])


def on_items(metric, files, *flags, loss, calibration=None):
    return ("compile", checkpoint(), "--accuracy-loss", loss, "--metric", metric, "--calibration", calibration or profile(), "--eval-text",
            *files, "--solver", "uniform", *flags)


class ItemsTest(AccuracyTest):
    def compiled(self, *arguments):
        done = self.expect(DONE, "moec", *arguments, "-o", self.output)
        self.assertEqual(self.left(), ["out.moe"])
        self.expect(DONE, "moec", "verify", self.output)
        return done, json.loads(self.expect(DONE, "moec", "inspect", self.output, "--json").out)["measured"]

    def evaluated(self, *arguments):
        done = self.expect(DONE, "moert", "eval", self.output, *arguments, "--json")
        return json.loads(done.out), done.err


class TargetTest(ItemsTest):
    def test_a_target_in_choices_is_held_and_found_again_with_the_reference_and_without(self):
        done, measured = self.compiled(*on_items("choice", choices(), "--choice-by", "text", loss="30%"))
        self.assertRegex(done.err, r"accepted: choice loss of at most 30\.00% with 95% confidence")
        self.assertRegex(done.err, rf"measured: \S+, at most \S+ with the 96\.4% confidence of this test, on {CHOICES} items")
        self.assertEqual((measured["metric"], measured["target"]), ("choice", 0.3))
        self.assertLessEqual(measured["upper_bound"], 0.3)
        self.assertEqual([text["windows"] for text in measured["acceptance_texts"]], [list(range(20)), list(range(40))])
        points = [point for text in measured["acceptance_texts"] for point in text["reference_points"]]
        self.assertEqual(set(points), {0, 1})
        self.assertGreater(sum(points), CHOICES / 6)
        as_asked = ("--metric", "choice", "--choice-by", "text", "--text")
        for files in choices(), tuple(reversed(choices())):
            found, said = self.evaluated(*as_asked, *files)
            self.assertIn(f"on {CHOICES} items of 2 of the 2 texts that it was accepted on", said)
            self.assertEqual((found["loss"], found["upper_bound"], found["confidence"]),
                             (measured["loss"], measured["upper_bound"], measured["confidence"]))
            self.assertEqual((found["loss_items"], found["reference"]), (CHOICES, sum(points) / CHOICES))
        found, _ = self.evaluated(*as_asked, *choices(), "--reference", source())
        self.assertEqual((found["loss"], found["kl"]), (measured["loss"], measured["kl_nats"]))
        self.assertAlmostEqual(1 - found["top1"], measured["top_disagreement"], places=12)
        page = self.expect(DONE, "moec", "inspect", self.output).out
        self.assertIn(f"{CHOICES} items, used for nothing else, --choice-by text", page)
        found, said = self.evaluated("--metric", "choice", "--text", *choices())
        self.assertIn("no loss: the reference's points that the artifact carries are of --metric choice --choice-by text", said)
        self.assertNotIn("loss", found)

    def test_a_target_in_generated_texts_is_held_and_found_again(self):
        options = ("--max-tokens", 3, "--stop", "\n")
        # The second metric is one more test on the same documents.
        for metric, more, target in (("exact", ("--answer-after", "####"), 60), ("rouge2", (), 90)):
            with self.subTest(metric):
                _, measured = self.compiled(*on_items(metric, (answers(),), *options, *more, loss=f"{target}%"))
                self.assertLessEqual(measured["upper_bound"], target / 100)
                found, _ = self.evaluated("--metric", metric, *options, *more, "--text", answers())
                self.assertEqual((found["loss"], found["upper_bound"]), (measured["loss"], measured["upper_bound"]))
                self.output.unlink()

    def test_items_that_calibration_has_read_are_left_out(self):
        # Calibration reads all windows of these documents.
        documents = support.documents("calibration", 40)
        read = folder() / "read.profile"
        self.expect(DONE, "moec", "calibrate", checkpoint(), "--calibration-text", documents, "-o", read)
        written = [json.loads(line)["text"] for line in documents.read_text().splitlines()]
        known = [{"question": "\n".join(written[i:i + 3]), "choices": ["it", "went on"], "answer": 0} for i in range(0, 24, 3)]
        items = [json.loads(line) for line in choices()[1].read_text().splitlines()]
        mixed = write("mixed.jsonl", known[:4] + items[:20] + known[4:] + items[20:])
        done, measured = self.compiled(*on_items("choice", (mixed,), "--choice-by", "text", loss="70%", calibration=read))
        self.assertIn("accepting on 40 of 48 items", done.err)
        self.assertEqual(measured["acceptance_texts"][0]["windows"], [*range(4, 24), *range(28, 48)])
        found, said = self.evaluated("--metric", "choice", "--choice-by", "text", "--text", mixed)
        self.assertEqual((found["loss"], found["upper_bound"]), (measured["loss"], measured["upper_bound"]))
        self.assertEqual((found["loss_items"], found["items"]), (40, 48))

    def test_the_same_items_give_the_same_bytes_on_any_threads(self):
        contents = set()
        for threads in (1, 3):
            self.compiled(*on_items("choice", choices(), "--threads", threads, "--choice-by", "text", loss="40%"))
            contents.add(self.output.read_bytes())
            self.output.unlink()
        self.assertEqual(len(contents), 1)


class OutOfReachTest(ItemsTest):
    def test_too_few_items_are_said_with_a_target_that_resuming_meets(self):
        asked = ("choice", choices(), "--choice-by", "text")
        done = self.expect(FAILED, "moec", *on_items(*asked, loss="7%"), "-o", self.output)
        self.assertEqual(self.left(), ["out.moe.work"])
        said = re.search(r"The best found loses (\S+)%, at most (\S+)% with 9\S+% confidence, in \S+ [KM]iB of experts \(.*\); "
                         rf"{CHOICES} items, of which the reference has points in (\d+), can show no loss below (\S+)%: more are "
                         r"needed\. --accuracy-loss (\S+)% would be met; with --resume, " + re.escape(f"{self.work} saves most of the time\n"), done.err)
        self.assertTrue(said, done.err)
        known, least, target = int(said[3]), float(said[4]), float(said[5])
        self.assertAlmostEqual(least, 100 * (1 - 0.036 ** (1 / known)), places=1)
        self.assertLessEqual(float(said[2]), target)
        _, measured = self.compiled(*on_items(*asked, "--resume", loss=f"{said[5]}%"))
        self.assertLessEqual(measured["upper_bound"], target / 100)

    def test_a_reference_that_knows_nothing_is_said(self):
        never = write("never.jsonl", [{"prompt": f"{i} old men", "answer": "never"} for i in range(24)])
        done = self.expect(FAILED, "moec", *on_items("exact", (never,), "--max-tokens", 2, loss="50%"), "-o", self.output)
        self.assertRegex(done.err, "the reference has no points in exact on the 24 items")
        self.assertEqual(self.left(), ["out.moe.work"])


class RefusalTest(ItemsTest):
    def refuses(self, mention, *arguments):
        with self.subTest(" ".join(map(str, arguments))):
            self.refused("moec", *arguments, "-o", self.output, mention=mention)
            self.assertEqual(self.left(), [])

    def test_files_that_are_no_items_of_the_metric(self):
        good = choices()[0]
        broken = write("broken.jsonl", [json.loads(line) for line in good.read_text().splitlines()] + [{"question": "why"}])
        self.refuses(r"broken\.jsonl' line 21: found no key \"choices\", expected a list of texts",
                     *on_items("choice", (good, broken), loss="5%"))
        self.refuses(r"acceptance-0-30\.jsonl' line 1: found no key \"choices\"|line 1: found no key \"question\"", *on_items("choice", texts("acceptance"), loss="5%"))
        self.refuses(r"answers\.jsonl' line 1: found no key \"question\"", *on_items("choice", (good, answers()), loss="5%"))
        self.refuses(r"first\.jsonl' line 1: found no key \"prompt\"", *on_items("exact", (answers(), good), loss="5%"))
        copy = folder() / "copy.jsonl"
        copy.write_bytes(good.read_bytes())
        self.refuses("copy.jsonl' has the same content as .*jsonl'", *on_items("choice", (good, copy), loss="5%"))
        self.refuses("missing", *on_items("choice", (folder() / "missing.jsonl",), loss="5%"))
        long = write("long.jsonl", [{"prompt": "word " * 5000, "answer": "a"}])
        self.refuses("long.jsonl' line 1: .*positions", *on_items("rouge2", (long,), loss="5%"))

    def test_too_few_items_and_none(self):
        few = write("few.jsonl", [{"prompt": "a", "answer": "b"}] * 9)
        self.refuses(rf"{CHOICES} items, which can show no loss below 5\.39%.*than 5\.00%", *on_items("choice", choices(), loss="5%"))
        self.refuses("9 items, expected at least 20", *on_items("exact", (few,), loss="5%"))
        self.refuses("--metric choice needs --eval-text", "compile", checkpoint(), "--accuracy-loss", TARGET, "--metric",
                     "choice", "--calibration-text", *texts("calibration"), *AMOUNTS)

    def test_items_that_calibration_has_read(self):
        items = [json.loads(line) for path in choices() for line in path.read_text().splitlines()]
        both = write("both.jsonl", [{**item, "text": item["question"]} for item in items])
        self.refuses("both.jsonl is the calibration text both.jsonl", "compile", checkpoint(), "--accuracy-loss", "50%",
                     "--metric", "choice", "--calibration-text", *texts("calibration"), both, "--eval-text", both, *AMOUNTS)

    def test_options_and_targets_that_the_metric_has_no_use_for(self):
        for metric, option in (("choice", ("--max-tokens", 3)), ("choice", ("--stop", "x")), ("rouge2", ("--answer-after", "x")),
                               ("exact", ("--choice-by", "text"))):
            self.refuses(f"{option[0]} does not apply to --metric {metric}", *on_items(metric, choices(), *option, loss="5%"))
        self.refuses("--choice-by does not apply to --metric perplexity", *searched("--choice-by", "text"))
        self.refuses("--stop requires --accuracy-loss", "compile", checkpoint(), "--bits", 4, "--stop", "x")
        self.refuses("expected less than 100%", *on_items("choice", choices(), loss="100%"))
        self.refuses("control characters", *on_items("exact", (answers(),), "--stop", "\x85", loss="5%"))
        self.refuses("nats|fraction", *on_items("choice", choices(), loss="2"))
