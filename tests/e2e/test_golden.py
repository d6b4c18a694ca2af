"""At full width the logits are those of the architecture's reference implementation, and so are the router's choices."""
from support import DATA, DONE, E2eTest, artifact, read_safetensors

# Float32 itself accounts for a tenth of this; a wrong formula moves logits by hundreds of times as much.
LOGITS_TOLERANCE = 1e-4  # relative to the largest logit
# Absolute: the router's weights are a softmax, at most 1, whose error is that of its logits, which are a few units.
WEIGHTS_TOLERANCE = 1e-4

FAMILIES = ("bailing_hybrid", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "dots1", "ernie4_5_moe", "flex_olmo", "gemma4", "glm4_moe",
            "glm4_moe_lite", "glm5_next", "glm_moe_dsa", "gpt_oss", "granitemoe", "granitemoehybrid", "hunyuan_v1_moe", "jamba", "kimi_linear",
            "laguna", "lfm2_moe", "llama4", "minimax_m2", "mistral4", "mixtral", "nemotron_h", "olmoe", "phimoe", "qwen2_moe", "qwen3_5_moe",
            "qwen3_moe", "qwen3_next", "qwen3_omni_moe", "qwen3_vl_moe", "qwen4_exp")


def cases():
    return sorted({path for family in FAMILIES for path in (DATA / "golden").glob(family + "*")
                   if (path / "golden/golden.safetensors").is_file()})


def part(tensor, index, axis):
    """tensor[..., index, ...] along an axis, flat."""
    before, count, after = 1, tensor.shape[axis], 1
    for size in tensor.shape[:axis]:
        before *= size
    for size in tensor.shape[axis + 1:]:
        after *= size
    values = []
    for outer in range(before):
        start = (outer * count + index) * after
        values.extend(tensor.values[start:start + after])
    return values


def largest_difference(one, other):
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


class GoldenTest(E2eTest):
    def compile(self, case):
        return artifact(case, "--bits", "source", "--resident-bits", "source")

    def logits(self, path, ids, *options):
        output = self.scratch / "logits.safetensors"
        self.expect(DONE, "moert", "logits", path, "--ids", ids, "-o", output, *options)
        return output

    def compare(self, case, golden, prefix, prompt):
        ids = part(golden[prefix + "input_ids"], prompt, 0)
        got = read_safetensors(self.logits(self.compile(case), self.write_ids(ids)))
        logits = golden[prefix + "logits"]
        self.assertEqual(got["logits"].shape, logits.shape[1:])
        error = largest_difference(got["logits"].values, part(logits, prompt, 0))
        self.assertLessEqual(error, LOGITS_TOLERANCE * max(map(abs, logits.values)), "logits")
        experts = golden[prefix + "experts"]
        self.assertEqual(got["experts"].shape, experts.shape[:1] + experts.shape[2:])
        self.assertEqual(list(got["experts"].values), part(experts, prompt, 1), "experts")
        error = largest_difference(got["weights"].values, part(golden[prefix + "weights"], prompt, 1))
        self.assertLessEqual(error, WEIGHTS_TOLERANCE, "weights")

    def test_every_family_has_a_case(self):
        names = [case.name for case in cases()]
        for family in FAMILIES:
            self.assertIn(family, names)

    def test_logits_experts_and_weights_are_the_references(self):
        for case in cases():
            golden = read_safetensors(case / "golden/golden.safetensors")
            for prompt in range(golden["input_ids"].shape[0]):
                with self.subTest(case=case.name, prompt=prompt):
                    self.compare(case, golden, "", prompt)
            with self.subTest(case=case.name, prompt="of one token"):
                self.compare(case, golden, "prompt1_", 0)

    def test_a_short_sequence_is_rotated_by_the_short_factors(self):
        golden = read_safetensors(DATA / "golden/phimoe_long/golden/golden.safetensors")
        path, ids = self.compile(DATA / "golden/phimoe_long"), part(golden["short_input_ids"], 0, 0)
        got = read_safetensors(self.logits(path, self.write_ids(ids)))["logits"].values
        short = part(golden["short_logits"], 0, 0)
        self.assertLessEqual(largest_difference(got, short), LOGITS_TOLERANCE * max(map(abs, short)))
        long = part(golden["logits"], 0, 0)[:len(short)]
        self.assertGreater(largest_difference(got, long), 0.05 * max(map(abs, long)), "the long factors give the same")

    def test_logits_are_the_same_bytes_however_they_are_computed(self):
        for case in cases():
            golden = read_safetensors(case / "golden/golden.safetensors")
            path, ids = self.compile(case), self.write_ids(part(golden["input_ids"], 0, 0))
            expected = self.logits(path, ids).read_bytes()
            for options in (("--prefill-chunk", 1), ("--prefill-chunk", 3), ("--threads", 1), ("--threads", 2),
                            ("--isa", "reference"), ("--memory", "25%"), ("--memory", "25%", "--io", "threads")):
                with self.subTest(case=case.name, options=options):
                    self.assertEqual(self.logits(path, ids, *options).read_bytes(), expected)

    def test_greedy_continuation_is_the_references(self):
        for case in cases():
            with self.subTest(case=case.name):
                golden = read_safetensors(case / "golden/golden.safetensors")
                ids = self.write_ids(part(golden["input_ids"], 0, 0))
                done = self.expect(DONE, "moert", "run", self.compile(case), "--ids", ids, "-n", 32, "--ignore-eos",
                                   "--temp", 0)
                self.assertEqual(list(map(int, done.out.split())), list(golden["greedy_ids"].values))
