"""Stop texts: special tokens, and byte tokens as in every Mixtral file, in run, eval and compile.

On the tiny Mixtral, whose greedy tokens after a prompt are the same at full width on every machine; a tokenizer is made around them.
"""
import functools
import json
import random
import shutil

from support import DATA, DONE, SCRATCH, E2eTest, artifact, run

GOLDEN = DATA / "golden/mixtral"
VOCABULARY = 384
PROMPT, PROMPT_IDS = "pqrstu", [5, 9, 17, 200, 31, 8]
TOKENS = 16


@functools.cache
def greedy():
    """The tokens that the model generates after PROMPT_IDS."""
    model = artifact(GOLDEN, "--bits", "source", "--resident-bits", "source")
    ids = SCRATCH / "stop-ids.txt"
    ids.write_text(" ".join(map(str, PROMPT_IDS)))
    done = run("moert", "run", model, "--ids", ids, "-n", TOKENS, "--ignore-eos", "--json")
    return json.loads(done.out)["ids"]


def added(token, content):
    return {"id": token, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def tokenizer(contents, special, decoder, pre_tokenizer=None):
    """Id 7 is "[7]" where contents has no other content for it."""
    vocabulary = {contents.get(token, f"[{token}]"): token for token in range(VOCABULARY)}
    return {"version": "1.0", "added_tokens": [added(token, contents[token]) for token in special], "normalizer": None,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": decoder,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": decoder["type"] == "Sequence"}}


def byte_alphabet():
    """GPT-2's characters for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [*map(chr, plain), *(chr(256 + i) for i in range(256 - len(plain)))]


def with_tokenizer(name, made):
    folder = SCRATCH / name
    if not folder.exists():
        shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("golden"))
        (folder / "tokenizer.json").write_text(json.dumps(made))
    return folder


def with_special():
    """Byte-level, and the third greedy token is <|im_end|>."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    first, second, end = greedy()[:3]
    contents = {first: f"x{first}", second: f"x{second}", end: "<|im_end|>"} | dict(zip(PROMPT_IDS, PROMPT))
    free = (token for token in range(VOCABULARY) if token not in contents)
    contents |= {next(free): character for character in byte_alphabet() if character not in PROMPT}
    return with_tokenizer("with-special", tokenizer(contents, [end], byte_level, byte_level))


def with_byte_tokens():
    """The greedy tokens are byte tokens, the first a newline; as Llama's and Mixtral's decoder."""
    decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                {"type": "ByteFallback"}, {"type": "Fuse"},
                                                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    bytes_of_text = "\né".encode() + bytes(range(ord("A"), ord("Z")))
    distinct = list(dict.fromkeys(greedy()))
    contents = {token: f"<0x{byte:02X}>" for token, byte in zip(distinct, bytes_of_text)}
    return with_tokenizer("with-byte-tokens", tokenizer(contents, [], decoder))


def source(checkpoint):
    return artifact(checkpoint, "--bits", "source", "--resident-bits", "source")


class StopTest(E2eTest):
    def generated(self, checkpoint, *flags, tokens=TOKENS):
        done = self.expect(DONE, "moert", "run", source(checkpoint), "--ids", self.write_ids(PROMPT_IDS), "-n", tokens,
                           "--ignore-eos", "--json", *flags)
        return json.loads(done.out)


class SpecialTokenTest(StopTest):
    def test_a_run_ends_at_a_special_token_that_is_not_shown(self):
        first, second, end = greedy()[:3]
        whole = self.generated(with_special())
        self.assertNotIn("<|im_end|>", whole["text"])
        before = f"x{first}x{second}"
        for stop, text in (("<|im_end|>", before), (f"{second}<|im_end|>", f"x{first}x")):
            with self.subTest(stop):
                stopped = self.generated(with_special(), "--stop", stop)
                self.assertEqual((stopped["end"], stopped["ids"], stopped["text"]), ("stop", [first, second, end], text))

    def items(self, count):
        """Answers that are what the model writes before the special token."""
        path = self.scratch / "items.jsonl"
        path.write_text(count * (json.dumps({"prompt": PROMPT, "answer": f"x{greedy()[0]}x{greedy()[1]}"}) + "\n"))
        return path

    def test_an_item_is_scored_up_to_the_special_token(self):
        def value(*flags):
            said = self.expect(DONE, "moert", "eval", source(with_special()), "--text", self.items(1), "--metric", "exact",
                               "--max-tokens", TOKENS, "--json", *flags).out
            return json.loads(said)["value"]

        self.assertEqual(value("--stop", "<|im_end|>"), 1)
        self.assertEqual(value(), 0)

    def test_a_target_in_answers_is_measured_up_to_the_special_token(self):
        text = self.scratch / "text.txt"
        text.write_text("".join(random.Random(26).choices("abcdefgh ", k=16000)))
        output = self.scratch / "out.moe"
        self.expect(DONE, "moec", "compile", with_special(), "-o", output, "--accuracy-loss", "90%", "--metric", "exact",
                    "--max-tokens", TOKENS, "--stop", "<|im_end|>", "--calibration-text", text, "--eval-text", self.items(32),
                    "--quantizer", "nearest", "--solver", "uniform", "--calibration-tokens", 1024,
                    "--search-windows", 10)
        measured = json.loads(self.expect(DONE, "moec", "inspect", output, "--json").out)["measured"]
        self.assertEqual(measured["acceptance_texts"][0]["reference_points"], 32 * [1])


class ByteTokenTest(StopTest):
    def test_a_newline_ends_a_run_with_its_token(self):
        stopped = self.generated(with_byte_tokens(), "--stop", "\n")
        self.assertEqual((stopped["end"], stopped["ids"], stopped["text"]), ("stop", greedy()[:1], ""))

    def test_a_stop_text_in_the_last_token_is_the_reason_for_the_end(self):
        stopped = self.generated(with_byte_tokens(), "--stop", "é", tokens=3)
        self.assertEqual((stopped["end"], stopped["ids"], stopped["text"]), ("stop", greedy()[:3], "\n"))
        self.assertEqual(self.generated(with_byte_tokens(), "--stop", "é", tokens=2)["end"], "length")
