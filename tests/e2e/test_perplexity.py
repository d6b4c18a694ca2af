"""The bundled model's perplexity at full width is the reference implementation's, on packed documents."""
import json

from support import DATA, DONE, E2eTest, pocket

# Measured with transformers 5 in float32 on windows cut as runtime/evaluation/TextWindows.h has them: documents of
# tests/data/documents, perplexity, windows of 512 tokens.
REFERENCE = [("validation", 45.164092, 59), ("acceptance", 49.108895, 114)]
# Sums of float32 in another order; found: 2e-9.
TOLERANCE = 1e-6


class PerplexityTest(E2eTest):
    def test_perplexity_at_source_is_the_references(self):
        for text, expected, windows in REFERENCE:
            with self.subTest(text=text):
                done = self.expect(DONE, "moert", "eval", pocket("source"), "--text",
                                   DATA / f"documents/{text}.jsonl", "--json")
                said = json.loads(done.out)
                self.assertEqual(said["metric"], "perplexity")
                self.assertLessEqual(abs(said["value"] / expected - 1), TOLERANCE, said)
                self.assertEqual(said["windows"], windows)

    def test_a_text_shorter_than_a_window_is_refused(self):
        text, empty = self.scratch / "short.txt", self.scratch / "empty.txt"
        text.write_text("Too short.\n")
        empty.write_text("")
        self.refused("moert", "eval", pocket("source"), "--text", empty, text,
                     mention=r"empty\.txt' has 0 tokens, '.*short\.txt' has \d tokens, expected at least one window of 512 tokens")
