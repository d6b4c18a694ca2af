"""The bundled model's perplexity at full width is the reference implementation's, on whole texts."""
import json

from support import DATA, DONE, E2eTest, pocket

# Measured with the reference implementation in float32: text, perplexity, windows of 512 tokens.
REFERENCE = [("books", 48.925, 93), ("math", 18.4209, 94)]
TOLERANCE = 1e-3


class PerplexityTest(E2eTest):
    def test_perplexity_at_source_is_the_references(self):
        for text, expected, windows in REFERENCE:
            with self.subTest(text=text):
                done = self.expect(DONE, "moert", "eval", pocket("source"), "--text",
                                   DATA / f"pocket/validation/{text}.txt", "--json")
                said = json.loads(done.out)
                self.assertEqual(said["metric"], "perplexity")
                self.assertLessEqual(abs(said["value"] / expected - 1), TOLERANCE, said)
                self.assertEqual(said["windows"], windows)

    def test_a_text_shorter_than_a_window_is_refused(self):
        text = self.scratch / "short.txt"
        text.write_text("Too short.\n")
        self.refused("moert", "eval", pocket("source"), "--text", text, mention="512")
