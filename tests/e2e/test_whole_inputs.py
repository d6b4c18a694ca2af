"""Models that compute an input as a whole: encoders with a decoder, and prefixes whose tokens attend to each other. The logits are those of the
reference implementation, and so are the router's choices, the tokens that capacity drops, and the greedy continuation."""
import json
import shutil

from support import DATA, DONE, E2eTest, artifact, read_safetensors
from test_golden import LOGITS_TOLERANCE, WEIGHTS_TOLERANCE, largest_difference, part

ENCODERS = ("switch_transformers", "switch_transformers_capacity", "nllb_moe", "nllb_moe_capacity")
PREFIX = "gptsan_japanese"
EXACT_OPTIONS = (("--threads", 1), ("--threads", 3), ("--isa", "reference"), ("--memory", "25%"),
                 ("--memory", "24%", "--io", "threads"))


def golden_of(case):
    return read_safetensors(DATA / "golden" / case / "golden/golden.safetensors")


class WholeInputTest(E2eTest):
    def compiled(self, case):
        return artifact(DATA / "golden" / case, "--bits", "source", "--resident-bits", "source")

    def logits(self, path, *options):
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "logits", path, "-o", output, *options)
        return output

    def ids(self, tensor, prompt, name):
        return self.write_ids(part(tensor, prompt, 0), name)

    def check_logits(self, got, golden, prompt):
        error = largest_difference(got["logits"].values, part(golden, prompt, 0))
        self.assertLessEqual(error, LOGITS_TOLERANCE * max(map(abs, golden.values)), "logits")

    def check_choices(self, got, golden, names, prompt, keeps_weights=False):
        """keeps_weights: the golden weights of dropped choices are those that their tokens pass through with."""
        experts = part(golden[names[2]], prompt, 1)
        self.assertEqual(list(got[names[0]].values), experts, names[0])
        weights = part(golden[names[3]], prompt, 1)
        if keeps_weights:
            weights = [0 if expert < 0 else weight for expert, weight in zip(experts, weights, strict=True)]
        self.assertLessEqual(largest_difference(got[names[1]].values, weights), WEIGHTS_TOLERANCE, names[1])


class EncoderTest(WholeInputTest):
    def options(self, golden, prompt, prefix=""):
        return ("--ids", self.ids(golden[prefix + "input_ids"], prompt, "source.txt"),
                "--decoder-ids", self.ids(golden[prefix + "decoder_input_ids"], prompt, "target.txt"))

    def test_logits_experts_and_dropped_choices_are_the_references(self):
        for case in ENCODERS:
            golden = golden_of(case)
            for prompt in range(golden["input_ids"].shape[0]):
                with self.subTest(case=case, prompt=prompt):
                    got = read_safetensors(self.logits(self.compiled(case), *self.options(golden, prompt)))
                    self.check_logits(got, golden["logits"], prompt)
                    self.check_choices(got, golden, ("experts", "weights", "decoder_experts", "decoder_weights"), prompt)
                    self.check_choices(got, golden, ("encoder_experts", "encoder_weights") * 2, prompt)
            with self.subTest(case=case, prompt="of one token"):
                got = read_safetensors(self.logits(self.compiled(case), *self.options(golden, 0, "prompt1_")))
                self.check_logits(got, golden["prompt1_logits"], 0)

    def test_the_greedy_answer_is_the_references(self):
        for case in ENCODERS:
            with self.subTest(case=case):
                golden = golden_of(case)
                expected = list(golden["greedy_ids"].values)
                target = ("--target-lang", golden["greedy_prefix_ids"].values[1]) if "greedy_prefix_ids" in golden else ()
                done = self.expect(DONE, "moert", "run", self.compiled(case), "--ids", self.ids(golden["input_ids"], 0, "source.txt"),
                                   *target, "-n", len(expected), "--ignore-eos", "--temp", 0)
                self.assertEqual(list(map(int, done.out.split())), expected)

    def test_logits_are_the_same_bytes_however_they_are_computed(self):
        for case in ENCODERS:
            options = self.options(golden_of(case), 0)
            expected = self.logits(self.compiled(case), *options).read_bytes()
            for further in EXACT_OPTIONS:
                with self.subTest(case=case, options=further):
                    self.assertEqual(self.logits(self.compiled(case), *options, *further).read_bytes(), expected)

    def test_quantized_experts_are_the_same_bytes_within_any_budget(self):
        path = artifact(DATA / "golden" / ENCODERS[0], "--bits", "4", "--no-calibration")
        options = self.options(golden_of(ENCODERS[0]), 0)
        expected = self.logits(path, *options).read_bytes()
        for further in EXACT_OPTIONS:
            with self.subTest(options=further):
                self.assertEqual(self.logits(path, *options, *further).read_bytes(), expected)

    def test_what_such_a_model_does_not_do_is_refused_by_name(self):
        path, ids = self.compiled(ENCODERS[0]), self.write_ids([3, 4, 5])
        output = self.scratch / "logits.safetensors"
        self.refused("moert", "chat", path, mention="has an encoder")
        self.refused("moert", "serve", path, mention="has an encoder")
        self.refused("moert", "logits", path, "--ids", ids, "-o", output, mention="expected --decoder-ids FILE")
        self.refused("moert", "logits", path, "--ids", ids, "--decoder-ids", ids, "--prefix", 2, "-o", output, mention="a prefix")
        self.refused("moert", "logits", path, "--ids", ids, "--decoder-ids", ids, "--prefill-chunk", 2, "-o", output,
                     mention="computes an input as a whole")
        for checkpoint in (ENCODERS[0], ENCODERS[2], PREFIX):
            for options in (("--self-text", 400), ("--accuracy-loss", "2%", "--self-text", 400)):
                self.refused("moec", "compile", DATA / "golden" / checkpoint, "-o", self.scratch / "m.moe", *options,
                             mention="calibration and accuracy targets do not cover")
        self.refused("moert", "run", path, "--ids", ids, "--target-lang", "fra_Latn", mention="--target-lang")
        self.refused("moert", "run", path, "--ids", ids, "--profile", self.scratch / "run.json", mention="run profiles")
        decoder = artifact(DATA / "golden/mixtral_tied", "--bits", "source", "--resident-bits", "source")
        self.refused("moert", "logits", decoder, "--ids", ids, "--decoder-ids", ids, "-o", output, mention="has no encoder")
        self.refused("moert", "run", decoder, "--ids", ids, "--target-lang", "7", mention="has no encoder")


    def test_a_text_is_encoded_with_its_end_and_the_spans_of_the_answer_are_named(self):
        checkpoint = self.scratch / "switch"
        shutil.copytree(DATA / "golden" / ENCODERS[0], checkpoint)
        (checkpoint / "tokenizer.json").write_text(json.dumps(small_t5()))
        path = self.scratch / "switch.moe"
        self.expect(DONE, "moec", "compile", checkpoint, "-o", path, "--bits", "source")
        ids = self.expect(DONE, "moert", "tokenize", path, "-f", "-", stdin="ab<extra_id_0>").out.split()
        self.assertEqual(ids, ["4", "5", "319", "1"])
        answers = []
        for source in (("-p", "ab<extra_id_0>"), ("--ids", self.write_ids(ids))):
            done = self.expect(DONE, "moert", "run", path, *source, "-n", 12, "--temp", 1, "--seed", 1, "--ignore-eos", "--json")
            answers.append(json.loads(done.out))
        self.assertEqual(answers[0]["text"], answers[1]["text"])
        spans = [token for token in answers[0]["ids"] if token >= 220]
        self.assertGreater(len(spans), 0, "no answer with a span")
        for token in spans:
            self.assertIn(f"<extra_id_{319 - token}>", answers[0]["text"])
        self.refused("moert", "run", path, "-p", "ab", "--source-lang", "eng_Latn", mention="no such token")


def small_t5():
    """T5's tokenizer with few pieces: 220, and the 100 tokens of spans."""
    special = lambda number, content: {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                                       "normalized": False, "special": True}
    spans = [f"<extra_id_{99 - place}>" for place in range(100)]
    pieces = ["<pad>", "</s>", "<unk>", "\u2581", "a", "b"] + [f"x{number}" for number in range(214)] + spans
    end = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [special(number, pieces[number]) for number in (0, 1, 2, *range(220, 320))],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": False},
        "post_processor": {"type": "TemplateProcessing", "single": end, "pair": end + [{"Sequence": {"id": "B", "type_id": 0}}],
                           "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": False},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": [[piece, -3.0] for piece in pieces]},
    }


class PrefixTest(WholeInputTest):
    def options(self, golden, prompt):
        length = sum(part(golden["token_type_ids"], prompt, 0))
        return ("--ids", self.ids(golden["input_ids"], prompt, "ids.txt")) + (("--prefix", length) if length else ())

    def test_logits_experts_and_dropped_choices_are_the_references(self):
        golden, path = golden_of(PREFIX), self.compiled(PREFIX)
        for prompt in range(golden["input_ids"].shape[0]):
            with self.subTest(prompt=prompt):
                got = read_safetensors(self.logits(path, *self.options(golden, prompt)))
                self.check_logits(got, golden["logits"], prompt)
                self.check_choices(got, golden, ("experts", "weights") * 2, prompt, keeps_weights=True)
        causal = read_safetensors(self.logits(path, "--ids", self.ids(golden["input_ids"], 0, "ids.txt")))
        self.check_logits(causal, golden["causal_logits"], 0)

    def test_the_greedy_continuation_is_the_references(self):
        golden = golden_of(PREFIX)
        done = self.expect(DONE, "moert", "run", self.compiled(PREFIX), *self.options(golden, 0), "-n", 12, "--ignore-eos", "--temp", 0)
        self.assertEqual(list(map(int, done.out.split())), list(golden["greedy_ids"].values))

    def test_logits_are_the_same_bytes_however_they_are_computed(self):
        path, options = self.compiled(PREFIX), self.options(golden_of(PREFIX), 0)
        expected = self.logits(path, *options).read_bytes()
        for further in EXACT_OPTIONS:
            with self.subTest(options=further):
                self.assertEqual(self.logits(path, *options, *further).read_bytes(), expected)
