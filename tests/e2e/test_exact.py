"""Exact mode: the logits depend on the artifact and the prompt alone, to the bit.

The whole matrix is every budget x threads x I/O x prefill chunk x instruction set; that takes --full. Otherwise a
subset in which every two settings of different kinds meet at least once.
"""
import hashlib
import itertools
import json
import platform

import blocks
from support import DATA, DONE, FULL, POCKET, REFUSED, ROOT, E2eTest, artifact, pocket, run, sizes, smallest_budget

PRESETS = ("auto", "load-on-demand", "lru", "edgemoe", "fate")
PROMPT = ("The old man looked at the sea and said nothing for a long while. Then he counted: 12 nets, 7 boats and "
          "3 baskets of fish make 22 things.\n    def total(nets, boats):\n        return nets + boats\n")

SETTINGS = {
    "--memory": ["smallest", "10%", "25%", "50%", "100%"],
    "--threads": ["1", "2"],
    "--io": ["uring", "threads", "buffered"],
    "--prefill-chunk": ["1", "7", None],  # None: not given, the plan's own
    "--isa": ["reference", "neon", "dotprod", "i8mm"] if platform.machine() == "aarch64" else
             ["reference", "avx2", "avx512"],
}


def spanning(settings):
    """Few combinations in which every pair of values of two settings occurs. Greedy, the same every time."""
    kinds = list(settings)
    everything = list(itertools.product(*settings.values()))
    pairs = lambda row: {(i, row[i], j, row[j]) for i, j in itertools.combinations(range(len(kinds)), 2)}
    missing = set().union(*map(pairs, everything))
    chosen = []
    while missing:
        best = max(everything, key=lambda row: len(pairs(row) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


class ExactTest(E2eTest):
    def available(self, path, ids):
        """The settings that this machine supports; prints the missing ones."""
        settings = {kind: list(values) for kind, values in SETTINGS.items()}
        for kind in ("--io", "--isa"):
            for value in list(settings[kind]):
                done = run("moert", "logits", path, "--ids", ids, "-o", self.scratch / "probe", kind, value)
                if done.status == REFUSED:
                    print(f"not on this machine: {kind} {value}: {done.err.strip()}", end=" ... ", flush=True)
                    settings[kind].remove(value)
        return settings

    def digest(self, path, ids, row):
        output = self.scratch / "logits.safetensors"
        options = [word for kind, value in zip(SETTINGS, row) if value is not None for word in (kind, value)]
        self.expect(DONE, "moert", "logits", path, "--ids", ids, "-o", output, *options)
        return hashlib.sha256(output.read_bytes()).hexdigest()

    def check(self, bits):
        path = pocket(bits)
        self.check_matrix(path, self.write_ids(
            self.expect(DONE, "moert", "tokenize", path, "-f", "-", stdin=PROMPT).out.split()))

    def check_matrix(self, path, ids):
        settings = self.available(path, ids)
        rows = list(itertools.product(*settings.values())) if FULL else spanning(settings)
        smallest = {}
        digests = {}
        for row in rows:
            budget, *rest = row
            if budget == "smallest":
                key = tuple(rest)
                if key not in smallest:
                    options = [w for kind, v in zip(list(SETTINGS)[1:], rest) if v is not None for w in (kind, v)]
                    smallest[key] = smallest_budget("logits", path, "--ids", ids, "-o", self.scratch / "none", *options)
                budget = f"{smallest[key]}B"
            digests[row] = self.digest(path, ids, (budget, *rest))
        self.assertGreater(len(digests), 10)
        reference = digests[rows[0]]
        self.assertEqual([row for row, digest in digests.items() if digest != reference], [],
                         f"these runs gave other bytes than {rows[0]}")

    def test_logits_are_the_same_bytes_with_every_plan_and_whatever_is_prefetched(self):
        text, profile, planned = self.scratch / "text.txt", self.scratch / "c.profile", self.scratch / "planned.moe"
        text.write_text(PROMPT * 40)
        self.expect(DONE, "moec", "calibrate", POCKET, "--calibration-text", text, "-o", profile)
        self.expect(DONE, "moec", "replan", pocket("4"), "--calibration", profile, "--memory", "25%", "50%", "--device",
                    ROOT / "profiles/raspberry-pi-5-sd.yaml", "--preset", *PRESETS, "-o", planned)
        plans = json.loads(self.expect(DONE, "moec", "inspect", planned, "--json").out)["plans"]
        predictors = {prefetch["predictor"] for plan in plans for prefetch in plan["prefetches"]}
        self.assertLessEqual({"gate", "paths"}, predictors)
        ids = self.write_ids(self.expect(DONE, "moert", "tokenize", planned, "-f", "-", stdin=PROMPT).out.split())
        digests = {}
        for preset, memory, chunk in itertools.product(PRESETS, ("10%", "25%", "50%"), ("1", "7")):
            output = self.scratch / "logits.safetensors"
            self.expect(DONE, "moert", "logits", planned, "--ids", ids, "-o", output, "--preset", preset, "--memory", memory,
                        "--prefill-chunk", chunk)
            digests[preset, memory, chunk] = hashlib.sha256(output.read_bytes()).hexdigest()
        self.assertEqual(len(set(digests.values())), 1, digests)

    def test_logits_at_source_are_the_same_bytes_however_they_are_computed(self):
        self.check("source")

    def test_logits_of_experts_in_mxfp4_are_the_same_bytes_however_they_are_computed(self):
        path = artifact(DATA / "golden/gpt_oss", "--bits", "source", "--resident-bits", "source")
        self.assertEqual({expert["slices"][0]["kind"] for expert in sizes(path)["experts"]}, {"mxfp4"})
        self.check_matrix(path, self.write_ids(range(5, 45)))

    def test_logits_of_every_kind_of_blocks_are_the_same_bytes_however_they_are_computed(self):
        blocks.write(self.scratch / "blocks.gguf")
        path = artifact(self.scratch / "blocks.gguf", "--bits", "source")
        kinds = [kind for expert in sizes(path)["experts"][::blocks.EXPERTS]
                 for kind in (expert["slices"][0]["kind"], expert["slices"][0]["down"]["kind"])]
        self.assertEqual(kinds, list(blocks.TYPES))
        self.check_matrix(path, self.write_ids(range(5, 17)))

    def test_logits_at_four_bits_are_the_same_bytes_however_they_are_computed(self):
        self.check("4")

    def test_logits_at_three_bits_in_slices_are_the_same_bytes_however_they_are_computed(self):
        self.check("3")

    def test_nested_slices_give_the_bytes_of_the_width_stored_alone(self):
        ids = self.write_ids(range(5, 45))
        for bits in ("4", "8"):
            with self.subTest(bits=bits):
                alone = artifact(POCKET, "--bits", bits, "--nested", "off")
                nested = artifact(POCKET, "--bits", bits, "--nested", "on")
                count = lambda path: {len(expert["slices"]) for expert in sizes(path)["experts"]}
                self.assertEqual(count(alone), {1})
                self.assertEqual(count(nested), {2} if bits == "4" else {3})
                self.assertEqual(self.digest(nested, ids, ()), self.digest(alone, ids, ()))

    def test_another_prompt_gives_other_bytes(self):
        ids = [self.write_ids([5, 6, 7]), self.write_ids([5, 6, 8], "other.txt")]
        self.assertNotEqual(*(self.digest(pocket("4"), path, ()) for path in ids))


class SpanningTest(E2eTest):
    def test_every_two_settings_meet(self):
        rows = spanning(SETTINGS)
        for (i, first), (j, second) in itertools.combinations(enumerate(SETTINGS.values()), 2):
            for pair in itertools.product(first, second):
                self.assertIn(pair, {(row[i], row[j]) for row in rows})
        self.assertLess(len(rows), 30)
