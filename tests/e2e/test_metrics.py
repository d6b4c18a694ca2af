"""moert eval on items: multiple choice, ROUGE-2 and exact match, beside a reference and what it refuses."""
import json
import math

from support import DONE, FAILED, E2eTest, pocket, read_safetensors

SUBJECT = "The following are multiple choice questions (with answers) about counting.\n\n"
QUESTIONS = [
    {"question": "What is 12 + 7?", "choices": ["19", "twenty one", "3"], "answer": 0},
    {"question": "Who went out? ", "choices": ["The old man", "nobody at all"], "answer": 1},
    {"question": "How many eggs?", "choices": ["one", "two", "three", "four"], "answer": 2, "subject": "counting"},
]
PROMPTS = ["The old man looked at", "Question: What is 12 + 7?\nAnswer:", "Once upon a time", "She said to him"]


class ItemsTest(E2eTest):
    def write(self, items, name="items.jsonl"):
        path = self.scratch / name
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
        return path

    def evaluate(self, metric, *arguments, model="4"):
        return json.loads(self.expect(DONE, "moert", "eval", pocket(model), "--metric", metric, *arguments,
                                      "--json").out)

    def likelihood(self, model, prompt, choice):
        """The log-probability of the choice after the prompt, from the logits that the artifact writes."""
        def ids(text):
            return self.expect(DONE, "moert", "tokenize", pocket(model), "-f", "-", stdin=text).out.split()
        before, whole = ids(prompt), ids(prompt + " " + choice)
        self.assertEqual(whole[:len(before)], before)
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "logits", pocket(model), "--ids", self.write_ids(whole), "-o", output)
        logits = read_safetensors(output)["logits"]
        total = 0
        for i in range(len(before), len(whole)):
            row = logits.values[(i - 1) * logits.shape[1]:i * logits.shape[1]]
            total += row[int(whole[i])] - math.log(math.fsum(map(math.exp, row)))
        return total

    def rights(self, model, prompt_of, choices_of):
        rights = 0
        for item in QUESTIONS:
            values = [self.likelihood(model, prompt_of(item), choice) for choice in choices_of(item)]
            rights += values.index(max(values)) == item["answer"]
        return rights

    def generated(self, model, prompt, tokens):
        return self.expect(DONE, "moert", "run", pocket(model), "-p", prompt, "-n", tokens).out


class ChoiceTest(ItemsTest):
    def test_by_letter_the_likeliest_letter_behind_the_listed_choices_is_the_answer(self):
        def prompt_of(item):
            listed = "".join(f"\n{'ABCD'[i]}. {text}" for i, text in enumerate(item["choices"]))
            return (SUBJECT if "subject" in item else "") + item["question"].strip() + listed + "\nAnswer:"
        said = self.evaluate("choice", "--text", self.write(QUESTIONS), "--reference", pocket("source"))
        for key, model in (("value", "4"), ("reference", "source")):
            expected = self.rights(model, prompt_of, lambda item: "ABCD"[:len(item["choices"])])
            self.assertEqual(said[key], expected / len(QUESTIONS))
        self.assertEqual(said["items"], len(QUESTIONS))

    def test_by_text_the_likeliest_text_is_the_answer(self):
        def prompt_of(item):
            return (SUBJECT if "subject" in item else "") + f"Question: {item['question'].strip()}\nAnswer:"
        said = self.evaluate("choice", "--choice-by", "text", "--text", self.write(QUESTIONS))
        self.assertEqual(said["value"], self.rights("4", prompt_of, lambda item: item["choices"]) / len(QUESTIONS))
        self.assertNotIn("reference", said)

    def test_beside_itself_nothing_is_lost(self):
        said = self.evaluate("choice", "--text", self.write(QUESTIONS * 8), "--reference", pocket("4"))
        self.assertEqual((said["kl"], said["top1"]), (0, 1))
        self.assertEqual(said["value"], said["reference"])
        rights = round(said["value"] * said["items"])
        self.assertEqual(said["loss"], 0 if rights else None)
        if said["upper_bound"] is not None:  # What as many items could hide.
            self.assertGreaterEqual(said["upper_bound"], 1 - 0.05 ** (1 / rights))
            self.assertLess(said["upper_bound"], 1 - 0.02 ** (1 / rights))
        self.assertEqual(rights > 0, said["upper_bound"] is not None)


class AnswerTest(ItemsTest):
    def test_what_a_model_writes_is_what_run_writes(self):
        """With the reference's own texts as answers it has every point, and the artifact those where it agrees."""
        texts = {model: [self.generated(model, prompt, 12) for prompt in PROMPTS] for model in ("4", "source")}
        items = self.write([{"prompt": p, "answer": [a, "never"]} for p, a in zip(PROMPTS, texts["source"])])
        same = sum(a == b for a, b in zip(texts["4"], texts["source"]))
        for metric in ("exact", "rouge2"):
            said = self.evaluate(metric, "--max-tokens", 12, "--text", items, "--reference", pocket("source"))
            self.assertEqual(said["reference"], 1)
            self.assertEqual(said["loss"], 1 - said["value"])
            if metric == "exact":
                self.assertEqual(said["value"], same / len(PROMPTS))
            self.assertTrue(0 < said["kl"] < 0.2 and 0.5 < said["top1"] <= 1, said)
            self.assertIsNone(said["upper_bound"])  # Four items cannot tell.

    def test_stop_texts_end_a_text_and_a_mark_begins_what_is_compared(self):
        whole = self.generated("4", PROMPTS[0], 12)
        words = whole.split(" ")
        stop = " " + words[4]
        item = self.write([{"prompt": PROMPTS[0], "answer": whole[:whole.index(stop, 1)]}])
        self.assertEqual(self.evaluate("exact", "--max-tokens", 12, "--text", item)["value"], 0)
        self.assertEqual(self.evaluate("exact", "--max-tokens", 12, "--text", item, "--stop", stop)["value"], 1)
        mark = words[3]
        item = self.write([{"prompt": PROMPTS[0], "answer": "because " + mark + whole.rsplit(mark, 1)[1]}])
        self.assertEqual(self.evaluate("exact", "--max-tokens", 12, "--text", item)["value"], 0)
        self.assertEqual(self.evaluate("exact", "--max-tokens", 12, "--text", item, "--answer-after", mark)["value"], 1)

    def test_files_are_counted_apart_and_their_items_are_resampled(self):
        first = self.write([{"prompt": p, "answer": self.generated("source", p, 4)} for p in PROMPTS], "first.jsonl")
        second = self.write([{"prompt": p, "answer": "never"} for p in PROMPTS * 5], "second.jsonl")
        said = self.evaluate("exact", "--max-tokens", 4, "--text", first, second, "--reference", pocket("source"))
        self.assertEqual([text["items"] for text in said["texts"]], [4, 20])
        self.assertEqual(said["texts"][0]["reference"], 1)
        self.assertEqual(said["texts"][1]["loss"], None)
        self.assertEqual(said["reference"], 1 / 6)
        self.assertGreaterEqual(said["upper_bound"], said["loss"])

    def test_a_reference_without_points_leaves_the_loss_undefined(self):
        items = self.write([{"prompt": p, "answer": "never"} for p in PROMPTS])
        command = ["eval", pocket("4"), "--metric", "exact", "--max-tokens", 2, "--text", items, "--reference",
                   pocket("source")]
        done = self.expect(FAILED, "moert", *command)
        self.assertRegex(done.out, "undefined")
        self.assertRegex(done.err, "undefined")
        said = json.loads(self.expect(DONE, "moert", *command, "--json").out)
        self.assertEqual((said["loss"], said["upper_bound"], said["value"], said["reference"]), (None, None, 0, 0))


class RefusalTest(ItemsTest):
    def test_a_broken_item_is_refused_with_its_file_and_line(self):
        good = json.dumps(QUESTIONS[0]) + "\n"
        path = self.scratch / "broken.jsonl"
        for bad, mention in (("{", "JSON"), ('{"question": "q"}', "choices"), ('{"prompt": "p", "answer": "a"}', "question")):
            path.write_text(good + bad + "\n")
            self.refused("moert", "eval", pocket("4"), "--metric", "choice", "--text", path,
                         mention=rf"broken\.jsonl' line 2: .*{mention}")
        self.refused("moert", "eval", pocket("4"), "--metric", "exact", "--text", path, mention="line 1: .*prompt")
        path.write_text("\n")
        self.refused("moert", "eval", pocket("4"), "--metric", "exact", "--text", path, mention="no items")

    def test_an_item_longer_than_the_models_positions_is_refused(self):
        path = self.write([{"prompt": "short", "answer": "a"}, {"prompt": "word " * 5000, "answer": "a"}])
        self.refused("moert", "eval", pocket("4"), "--metric", "rouge2", "--text", path, mention="line 2: .*positions")

    def test_options_that_a_metric_has_no_use_for_are_refused(self):
        items = self.write(QUESTIONS)
        for metric, option in (("choice", ["--window", 64]), ("choice", ["--max-tokens", 4]),
                               ("perplexity", ["--stop", "x"]), ("rouge2", ["--answer-after", "x"]),
                               ("exact", ["--choice-by", "text"])):
            self.refused("moert", "eval", pocket("4"), "--metric", metric, "--text", items, *option, mention=option[0])
        self.refused("moert", "eval", pocket("4"), "--metric", "bleu", "--text", items, mention="rouge2")


class PresetTest(E2eTest):
    def test_a_plan_that_the_artifact_does_not_hold_is_refused_with_those_that_it_holds(self):
        bench = ["bench", pocket("4"), "--prompt-tokens", 4, "--tokens", 2, "--repeat", 1]
        for held in ("auto", "default"):  # A preset, and a plan's name.
            self.expect(DONE, "moert", *bench, "--preset", held)
        self.refused("moert", *bench, "--preset", "hobbit", mention="'auto'.*moec replan")
