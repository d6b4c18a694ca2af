"""What moert's commands print and write: JSON, profiles, losses beside a reference, and their memory."""
import json
import math
import os
import subprocess

import cgroups
from support import DATA, DONE, POCKET, ROOT, E2eTest, documents, plain_text, pocket, program, read_safetensors, slow, smallest_budget

TEXT = plain_text("validation")
PROMPT = "The old man looked at"


class JsonTest(E2eTest):
    def json(self, *arguments):
        return json.loads(self.expect(DONE, "moert", *arguments, "--json").out)

    def test_run_says_in_json_what_it_says_in_text(self):
        command = ["run", pocket("4"), "-p", PROMPT, "-n", 12, "--ignore-eos"]
        said = self.json(*command)
        self.assertEqual(said["text"], self.expect(DONE, "moert", *command).out)
        self.assertEqual(said["end"], "length")
        self.assertEqual((said["generated_tokens"], len(said["ids"])), (12, 12))
        decoded = self.expect(DONE, "moert", "tokenize", pocket("4"), "-f", "-", "--decode",
                              stdin=" ".join(map(str, said["ids"]))).out
        self.assertEqual(said["text"], decoded)
        self.assertGreater(said["peak_memory_bytes"], 0)
        self.assertLessEqual(said["peak_memory_bytes"], said["accounted_bytes"])
        self.assertLessEqual(said["accounted_bytes"], said["budget_bytes"])

    def test_bench_states_medians_within_their_spread(self):
        said = self.json("bench", pocket("4"), "--text", TEXT, "--prompt-tokens", 32, "--tokens", 8, "--memory", "25%")
        for what in ("prefill_tokens_per_s", "decode_tokens_per_s"):
            self.assertLessEqual(said[what]["smallest"], said[what]["median"])
            self.assertLessEqual(said[what]["median"], said[what]["largest"])
        self.assertEqual((said["prompt_tokens"], said["tokens"], said["repeats"]), (32, 8, 3))
        self.assertEqual((said["given"], said["warm_up"]), (False, 0))
        self.assertTrue(0 < said["hit_rate"] < 1, said)
        self.assertGreater(said["bytes_read_per_token"], 0)

    def test_bench_tells_what_prefetches_did_and_what_was_forecast(self):
        text, profile, planned = self.scratch / "text.txt", self.scratch / "c.profile", self.scratch / "planned.moe"
        text.write_text(TEXT.read_text()[:20000])
        self.expect(DONE, "moec", "calibrate", POCKET, "--calibration-text", text, "-o", profile)
        self.expect(DONE, "moec", "replan", pocket("4"), "--calibration", profile, "--memory", "25%", "--device",
                    ROOT / "profiles/raspberry-pi-5-sd.yaml", "--preset", "lru", "edgemoe", "-o", planned)
        command = ["bench", planned, "--text", TEXT, "--given", "--prompt-tokens", 8, "--tokens", 24, "--memory", "25%"]
        lru, edgemoe = self.json(*command, "--preset", "lru"), self.json(*command, "--preset", "edgemoe")
        self.assertEqual((lru["plan"], lru["preset"], edgemoe["preset"]), ("25% lru", "lru", "edgemoe"))
        self.assertEqual((lru["useful_per_token"], lru["prefetch_bytes_per_token"]), (0, 0))
        self.assertEqual(lru["ready_rate"], lru["hit_rate"])
        self.assertGreater(edgemoe["useful_per_token"], 0)
        self.assertGreaterEqual(edgemoe["ready_rate"], edgemoe["hit_rate"])
        self.assertTrue(0 < edgemoe["prefetch_bytes_per_token"] < edgemoe["bytes_read_per_token"], edgemoe)
        self.assertTrue(0 < edgemoe["prefetch_precision"] <= 1 and 0 < edgemoe["prefetch_recall"] < 1, edgemoe)
        self.assertEqual((lru["prefetch_precision"], lru["prefetch_recall"]), (None, None))
        told = [self.expect(DONE, "moert", *command[:-1], budget, "--preset", "lru").out for budget in ("25%", "50%")]
        self.assertIn("forecast   ", told[0])
        self.assertNotIn("for experts; this run had", told[0])
        self.assertRegex(told[1], "forecast   .* on Raspberry.*, with .* for experts; this run had ")
        self.assertIn("Raspberry", edgemoe["forecast"]["device"])
        self.assertGreater(edgemoe["forecast"]["token_ns"], 0)
        self.assertEqual(self.json(*command, "--preset", "lru")["bytes_read_per_token"], lru["bytes_read_per_token"])

    def test_bench_says_whether_the_text_was_given_and_how_many_prompts_came_before(self):
        said = self.json("bench", pocket("4"), "--text", TEXT, "--given", "--warm-up", 2, "--repeat", 1, "--tokens", 4)
        self.assertEqual((said["given"], said["warm_up"], said["repeats"]), (True, 2, 1))

    def test_a_bench_beyond_the_model_s_positions_is_refused_by_its_own_options(self):
        self.refused("moert", "bench", pocket("4"), "--tokens", 100000,
                     mention="--prompt-tokens 128, --tokens 100000 and one more, expected at most [0-9]+ together")

    def test_bench_decodes_the_given_text(self):
        command = ["bench", pocket("4"), "--text", TEXT, "--prompt-tokens", 16, "--tokens", 24, "--memory", "25%"]
        given, again = self.json(*command, "--given"), self.json(*command, "--given")
        self.assertEqual((given["tokens"], given["repeats"]), (24, 3))
        self.assertEqual(given["hit_rate"], again["hit_rate"])
        self.assertNotEqual(given["hit_rate"], self.json(*command)["hit_rate"])
        self.refused("moert", "bench", pocket("4"), "--given", mention="--given needs a text to decode, expected --text")
        other = self.scratch / "other.txt"
        other.write_text(TEXT.read_text()[20000:40000])
        turns = self.json("bench", pocket("4"), "--text", TEXT, other, "--prompt-tokens", 16, "--tokens", 24, "--repeat", 2)
        self.assertEqual((turns["text"], turns["repeats"]), (f"{TEXT}, {other}", 2))
        # One part alone: what is decoded before is what is measured.
        part = self.scratch / "part.txt"
        part.write_text(TEXT.read_text()[:150])
        once = ["bench", pocket("4"), "--text", part, "--given", "--prompt-tokens", 8, "--tokens", 16, "--memory", "75%", "--repeat", 1]
        cold, warm = self.json(*once), self.json(*once, "--warm-up", 1)
        self.assertEqual((cold["repeats"], warm["repeats"]), (1, 1))
        self.assertGreater(warm["hit_rate"], cold["hit_rate"])
        short = self.scratch / "short.txt"
        short.write_text("too few words")
        self.refused("moert", "bench", pocket("4"), "--text", TEXT, short, mention="short.txt' has [0-9]+ tokens, expected at least 128")
        self.refused("moert", "bench", pocket("4"), "--text", short, "--given", mention="short.txt' has [0-9]+ tokens, expected at least 193")

    def test_an_interrupted_or_ended_run_says_why(self):
        whole = self.json("run", pocket("4"), "-p", PROMPT, "-n", 24, "--ignore-eos")
        stopped = self.json("run", pocket("4"), "-p", PROMPT, "-n", 24, "--ignore-eos", "--stop", whole["text"][5:9])
        self.assertEqual(stopped["end"], "stop")
        self.assertEqual(stopped["text"], whole["text"][:whole["text"].index(whole["text"][5:9])])
        bound = self.json("run", pocket("4"), "-p", PROMPT, "--context", 16, "--ignore-eos")
        self.assertEqual(bound["end"], "context")
        self.assertEqual(bound["prompt_tokens"] + bound["generated_tokens"], 16)


class ProfileTest(E2eTest):
    def test_a_profile_accounts_for_every_step_and_layer(self):
        path = self.scratch / "run.json"
        said = json.loads(self.expect(DONE, "moert", "run", pocket("4"), "-p", PROMPT, "-n", 12, "--ignore-eos",
                                      "--prefill-chunk", 4, "--memory", "25%", "--profile", path, "--json").out)
        profile = json.loads(path.read_text())
        steps = profile["steps"]
        decode = [step for step in steps if step["phase"] == "decode"]
        self.assertEqual(len(decode), 11)
        self.assertTrue(all(step["tokens"] == 1 for step in decode))
        self.assertEqual(sum(step["tokens"] for step in steps), profile["prompt_tokens"] + 11)
        self.assertEqual([step["first_token"] for step in steps],
                         [sum(step["tokens"] for step in steps[:i]) for i in range(len(steps))])
        for step in steps:
            for column in ("compute_ns", "wait_ns", "bytes_read", "hits", "misses"):
                self.assertEqual(len(step[column]), profile["layers"] + 1)
            self.assertEqual(len(step["part_ns"]), len(profile["parts"]))
            self.assertEqual(sum(step["part_ns"]), sum(step["compute_ns"]))
            self.assertLessEqual(sum(step["part_ns"]) + sum(step["wait_ns"]), step["wall_ns"])
            part_ns = dict(zip(profile["parts"], step["part_ns"]))
            self.assertTrue(all(part_ns[part] > 0 for part in ("attention_products", "attention", "router", "dense", "experts")), part_ns)
            self.assertTrue(sum(step["bytes_read"]) == 0 or part_ns["requests"] > 0, step)
        for key in ("bytes_read", "hits", "misses"):
            self.assertEqual(sum(sum(step[key]) for step in decode), said["decode"][key])
        # The embedding counts one row and prefetches count nothing; all other resident bytes are included.
        bytes_of = dict(zip(profile["parts"], profile["part_weight_bytes"]))
        residents = json.loads(self.expect(DONE, "moec", "inspect", pocket("4"), "--json").out)["residents"]
        embedding = next(one for one in residents if "embed_tokens" in one["name"])
        self.assertEqual(bytes_of["embedding"], embedding["bytes"] // embedding["rows"])
        ends = sum(one["bytes"] for one in residents if "lm_head" in one["name"]) or embedding["bytes"]
        self.assertEqual(bytes_of["head"], ends)
        self.assertEqual(sum(bytes_of.values()) - bytes_of["embedding"] - ends,
                         sum(one["bytes"] for one in residents if not {"lm_head", "embed_tokens"} & set(one["name"].split("."))))
        self.assertEqual(profile["kv_bytes_per_token"] % profile["layers"], 0)
        self.assertGreater(profile["kv_bytes_per_token"], 0)
        # Ten layers of four experts for every token.
        self.assertTrue(all(sum(step["hits"]) + sum(step["misses"]) == 40 for step in decode))

    def test_a_refused_run_leaves_an_earlier_profile_alone(self):
        path = self.scratch / "run.json"
        path.write_text("earlier")
        self.refused("moert", "run", pocket("4"), "-p", PROMPT, "--memory", "1KiB", "--profile", path)
        self.assertEqual(path.read_text(), "earlier")
        self.assertEqual(list(self.scratch.iterdir()), [path])
        self.refused("moert", "run", pocket("4"), "-p", PROMPT, "--profile", self.scratch, mention="directory")


class ReferenceTest(E2eTest):
    def setUp(self):
        super().setUp()
        # Enough for a dozen windows of 128 tokens.
        self.text = self.scratch / "text.txt"
        self.text.write_text(TEXT.read_text()[:6000])

    def evaluate(self, *arguments, texts=None):
        return json.loads(self.expect(DONE, "moert", "eval", *arguments, "--text", texts or self.text, "--window", 128,
                                      "--json").out)

    def test_an_artifact_loses_nothing_beside_itself(self):
        said = self.evaluate(pocket("4"), "--reference", pocket("4"))
        self.assertEqual((said["loss"], said["kl"], said["top1"]), (0, 0, 1))
        self.assertEqual(said["value"], said["reference"])

    def test_loss_is_relative_to_the_reference_and_its_bound_is_above(self):
        said = self.evaluate(pocket("4"), "--reference", pocket("source"))
        self.assertEqual(said["reference"], self.evaluate(pocket("source"))["value"])
        self.assertEqual(said["value"], self.evaluate(pocket("4"))["value"])
        self.assertTrue(math.isclose(said["loss"], said["value"] / said["reference"] - 1, abs_tol=1e-12))
        self.assertGreaterEqual(said["windows"], 10)
        self.assertEqual((said["units"], said["upper_bound"]), (1, None))  # One document bounds nothing.
        said = self.evaluate(pocket("4"), "--reference", pocket("source"), texts=documents("validation", 24))
        self.assertGreaterEqual(said["units"], 20)
        self.assertGreater(said["upper_bound"], said["loss"])
        self.assertTrue(0 < said["kl"] < 0.1 and 0.8 < said["top1"] < 1, said)

    def test_kl_and_agreement_are_those_of_the_logits(self):
        """The same numbers from the logits that the two artifacts write, in plain sums."""
        ids = self.expect(DONE, "moert", "tokenize", pocket("4"), "-f", self.text).out.split()[:128]
        rows = {}
        for bits in ("4", "source"):
            output = self.scratch / f"{bits}.safetensors"
            self.expect(DONE, "moert", "logits", pocket(bits), "--ids", self.write_ids(ids), "-o", output)
            logits = read_safetensors(output)["logits"]
            width = logits.shape[1]
            rows[bits] = [logits.values[i * width:(i + 1) * width] for i in range(127)]
        loss = kl = agreeing = 0
        for token, ours, theirs in zip(ids[1:], rows["4"], rows["source"]):
            p, q = (math.log(math.fsum(map(math.exp, row))) for row in (theirs, ours))
            loss += q - ours[int(token)]
            kl += math.fsum(math.exp(t - p) * ((t - p) - (o - q)) for t, o in zip(theirs, ours))
            agreeing += max(range(width), key=ours.__getitem__) == max(range(width), key=theirs.__getitem__)
        self.text.write_text(self.expect(DONE, "moert", "tokenize", pocket("4"), "-f", "-", "--decode",
                                         stdin=" ".join(ids)).out)
        said = self.evaluate(pocket("4"), "--reference", pocket("source"), "--metric", "kl")
        self.assertEqual(said["windows"], 1)
        self.assertIsNone(said["upper_bound"])
        self.assertTrue(math.isclose(said["kl"], kl / 127, rel_tol=1e-6), (said, kl / 127))
        self.assertEqual(said["top1"], agreeing / 127)
        alone = self.evaluate(pocket("4"))
        self.assertTrue(math.isclose(alone["value"], math.exp(loss / 127), rel_tol=1e-9), (alone, loss / 127))

    def test_a_reference_that_is_quantized_is_said(self):
        said = f"--reference '{pocket('4')}' is quantized (bits 4"
        for reference, is_said in ((pocket("4"), True), (pocket("source"), False)):
            done = self.expect(DONE, "moert", "eval", pocket("4"), "--text", self.text, "--window", 64, "--reference", reference)
            self.assertEqual(said in done.err, is_said, done.err)

    def test_metrics_that_compare_need_a_reference(self):
        for metric in ("kl", "top1"):
            self.refused("moert", "eval", pocket("4"), "--text", self.text, "--metric", metric, mention="--reference")


class MemoryTest(E2eTest):
    """Every command keeps to --memory, in a container of exactly that size."""

    def check(self, *command):
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)
        smallest = cgroups.whole_pages(smallest_budget(*command))
        for budget in (smallest, smallest + (4 << 20)):
            with self.subTest(budget=budget), cgroups.Group(budget) as group:
                cgroups.drop_page_cache()
                done = group.run([program("moert"), *map(str, command), "--memory", f"{budget}B"])
                self.assertEqual(done.returncode, DONE, done.stderr.decode()[-2000:])
                self.assertEqual((group.times_at_limit(), group.oom_kills()), (0, 0), f"peak {group.peak()} of {budget}")

    def test_logits(self):
        ids = self.write_ids(range(300))
        self.check("logits", pocket("4"), "--ids", ids, "-o", self.scratch / "out.safetensors")

    def test_a_run_with_a_profile(self):
        self.check("run", pocket("4"), "-p", PROMPT * 20, "-n", 100, "--ignore-eos", "--temp", 1, "--top-p", 0.9,
                   "--seed", 1, "--json", "--profile", self.scratch / "run.json")

    def test_eval(self):
        text = self.scratch / "text.txt"
        text.write_text(TEXT.read_text()[:9000])
        self.check("eval", pocket("4"), "--text", text, "--window", 1024)

    def test_eval_beside_a_reference(self):
        text = self.scratch / "text.txt"
        text.write_text(TEXT.read_text()[:6000])
        self.check("eval", pocket("4"), "--reference", pocket("source"), "--text", text, "--window", 256)

    def test_a_reference_adds_no_second_program(self):
        """What it adds to the smallest budget is less than a budget of its own by the program's size at least."""
        text = self.scratch / "text.txt"
        text.write_text(TEXT.read_text()[:6000])
        command = ("--text", text, "--window", 256)
        alone = [smallest_budget("eval", pocket(bits), *command) for bits in ("4", "source")]
        both = smallest_budget("eval", pocket("4"), "--reference", pocket("source"), *command)
        # Together they hold the reference's rows of logits, which neither holds alone.
        rows = 256 * 4096 * 4
        self.assertLess(both - rows, sum(alone) - os.path.getsize(program("moert")))

    @slow
    def test_evaluating_items_beside_a_reference(self):
        items = self.scratch / "items.jsonl"
        item = json.dumps({"prompt": "The old man looked at", "answer": "the sea, " + "and " * 50})
        items.write_text((item + "\n") * 40)
        self.check("eval", pocket("4"), "--reference", pocket("source"), "--text", items, "--metric", "rouge2",
                   "--max-tokens", 4, "--json")

    def test_bench(self):
        self.check("bench", pocket("4"), "--tokens", 16, "--repeat", 2)


class LogitsTest(E2eTest):
    def test_an_earlier_file_stays_until_the_new_one_is_complete(self):
        output = self.scratch / "out.safetensors"
        output.write_text("earlier")
        self.refused("moert", "logits", pocket("4"), "--ids", self.write_ids([1, 9999]), "-o", output, mention="9999")
        self.assertEqual(output.read_text(), "earlier")
        self.expect(DONE, "moert", "logits", pocket("4"), "--ids", self.write_ids([1, 2]), "-o", output)
        self.assertEqual(read_safetensors(output)["logits"].shape, [2, 4096])
        self.assertEqual(sorted(path.name for path in self.scratch.iterdir()), ["ids.txt", "out.safetensors"])

    def test_a_place_that_is_no_file_is_refused(self):
        ids = self.write_ids([1, 2])
        for place in (self.scratch, "/dev/null", self.scratch / "missing/out"):
            self.refused("moert", "logits", pocket("4"), "--ids", ids, "-o", place)


class PromptTest(E2eTest):
    def test_a_prompt_that_is_not_utf8_is_refused_with_its_place(self):
        path = self.scratch / "prompt.txt"
        path.write_bytes(b"ab\xff")
        self.refused("moert", "run", pocket("4"), "-f", path, mention=r"0xff at offset 2")

    def test_streamed_text_is_whole_characters(self):
        """A read gets whole writes of the program, one or several: it has to be valid UTF-8 by itself."""
        process = subprocess.Popen(
            [program("moert"), "run", str(pocket("4")), "-p", "Zwölf Boote — café —", "-n", "200", "--temp", "3",
             "--seed", "3", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        reads = []
        while block := os.read(process.stdout.fileno(), 1 << 16):
            reads.append(block.decode())
        process.stdout.close()
        self.assertEqual(process.wait(), DONE)
        self.assertTrue(any(ord(c) > 127 for c in "".join(reads)), "no character of several bytes came out")

    def test_an_empty_prompt_is_the_token_that_begins_a_text(self):
        said = json.loads(self.expect(DONE, "moert", "run", pocket("4"), "-p", "", "-n", 4, "--json").out)
        self.assertEqual(said["prompt_tokens"], 1)

    def test_tokens_beyond_the_vocabulary_are_refused(self):
        self.refused("moert", "run", pocket("4"), "--ids", self.write_ids([4096]), mention="4095")
