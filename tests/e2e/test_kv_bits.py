"""Keys and values in 16 and 8 bits: who has them, what they lose, and that their bits are the same however they are computed."""
from support import DATA, DONE, POCKET, REFUSED, E2eTest, artifact, pocket, read_safetensors, sizes, smallest_budget
from test_golden import largest_difference, part

# One case per kind of attention: shared key heads with norms, a window, sinks, chunks and layers without rotation, gates beside
# recurrent states, a norm of values, values kept in keys.
ATTENTIONS = ("qwen3_moe", "mixtral_swa", "gpt_oss", "llama4", "qwen3_next", "gemma4", "deepseek_v2")
SOURCE = ("--bits", "source", "--resident-bits", "source")
# Relative to the largest logit, at a quarter of the positions at least: in models of random weights routers change their choice at others.
# 16 bits round numbers by 2^-12 at most, 8 bits by 1/254 of the largest of 32. Three times the largest found.
TOLERANCE = {16: 2e-3, 8: 5e-2}


def widths(path):
    return {slot["bits"] for slot in sizes(path)["kv_slots"]}


class KvBitsTest(E2eTest):
    def logits(self, path, ids, *options):
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "logits", path, "--ids", ids, "-o", output, *options)
        return output

    def test_only_a_model_at_source_keeps_32_bits(self):
        self.assertEqual(widths(pocket("source")), {32})
        self.assertEqual(widths(pocket("4")), {16})
        self.assertEqual(widths(artifact(POCKET, "--bits", "source", "--resident-bits", "8")), {16})
        self.assertEqual(widths(artifact(POCKET, "--bits", "4", "--kv-bits", "32")), {32})

    def test_bytes_are_the_same_however_they_are_computed_and_close_to_f32(self):
        for name in ATTENTIONS:
            golden = read_safetensors(DATA / "golden" / name / "golden/golden.safetensors")
            ids = self.write_ids(part(golden["input_ids"], 0, 0))
            full = self.logits(artifact(DATA / "golden" / name, *SOURCE), ids)
            expected, exact = read_safetensors(full)["logits"].values, full.read_bytes()
            for bits in (16, 8):
                path = artifact(DATA / "golden" / name, *SOURCE, "--kv-bits", str(bits))
                found = self.logits(path, ids)
                logits, content = read_safetensors(found)["logits"], found.read_bytes()
                vocabulary = logits.shape[1]
                rows = [slice(at, at + vocabulary) for at in range(0, len(expected), vocabulary)]
                errors = sorted(largest_difference(logits.values[row], expected[row]) for row in rows)
                with self.subTest(attention=name, bits=bits):
                    self.assertNotEqual(content, exact)
                    self.assertLessEqual(errors[len(errors) // 4], TOLERANCE[bits] * max(map(abs, expected)))
                for options in (("--isa", "reference", "--prefill-chunk", 1), ("--isa", "avx2", "--prefill-chunk", 3),
                                ("--threads", 2, "--memory", "25%")):
                    with self.subTest(attention=name, bits=bits, options=options):
                        self.assertEqual(self.logits(path, ids, *options).read_bytes(), content)

    def test_values_kept_in_keys_stay_at_16_bits(self):
        self.assertEqual(widths(artifact(DATA / "golden/deepseek_v2", *SOURCE, "--kv-bits", "8")), {16})

    def test_what_is_saved_is_accounted(self):
        paths = {bits: artifact(POCKET, "--bits", "4", "--kv-bits", str(bits)) for bits in (32, 16, 8)}
        tokens = {bits: sum(slot["bytes"] for slot in sizes(path)["kv_slots"]) for bits, path in paths.items()}
        self.assertEqual(tokens[16] * 2, tokens[32])
        self.assertEqual(tokens[8] * 32, tokens[32] * 9)  # 8 bits, and 32 for each 32 numbers.
        smallest = {bits: smallest_budget("run", path, "-p", "a", "-n", "1", "--context", "2048")
                    for bits, path in paths.items()}
        # Tables of 4 KiB, and for narrow keys some scratch.
        self.assertAlmostEqual(smallest[32] - smallest[16], 2048 * (tokens[32] - tokens[16]), delta=64 << 10)
        self.assertAlmostEqual(smallest[32] - smallest[8], 2048 * (tokens[32] - tokens[8]), delta=64 << 10)

    def test_a_reference_with_narrow_keys_and_values_is_not_the_checkpoint(self):
        narrow = artifact(POCKET, *SOURCE, "--kv-bits", "16")
        text = self.scratch / "text.txt"
        text.write_text("The old man looked at the sea and said nothing for a long while. " * 40)
        done = self.expect(DONE, "moert", "eval", pocket("4"), "--reference", narrow, "--text", text)
        self.assertIn("is quantized (kv_bits 16)", done.err)

    def test_another_width_is_refused(self):
        done = self.expect(REFUSED, "moec", "compile", POCKET, "-o", self.scratch / "x.moe", "--kv-bits", "4")
        self.assertIn("--kv-bits", done.err)
