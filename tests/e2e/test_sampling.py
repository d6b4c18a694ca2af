"""Sampling options of moert run on the bundled model: what they do to whole generations."""
import json

from support import DONE, E2eTest, pocket

PROMPT = "The old man looked at the sea and"


class SamplingTest(E2eTest):
    def generated(self, *flags, tokens=60):
        done = self.expect(DONE, "moert", "run", pocket("4"), "-p", PROMPT, "-n", tokens, "--ignore-eos", "--json", *flags)
        return json.loads(done.out)

    def test_an_excluded_token_is_never_generated_and_a_favoured_one_always(self):
        first = self.generated(tokens=1)["ids"][0]
        self.assertNotIn(first, self.generated("--logit-bias", f"{first}=-inf")["ids"])
        self.assertEqual(self.generated("--logit-bias", f"{first}=100", tokens=8)["ids"], [first] * 8)

    def test_a_large_presence_penalty_generates_no_token_twice(self):
        ids = self.generated("--presence-penalty", 100)["ids"]
        self.assertEqual(len(set(ids)), 60)
        self.assertLess(len(set(self.generated()["ids"])), 60)

    def test_a_repeated_n_gram_ends_the_text(self):
        done = self.generated("--ngram-stop", "3:2", tokens=400)
        ids, last = done["ids"], done["ids"][-3:]
        self.assertEqual(done["end"], "repetition")
        self.assertEqual(sum(ids[i:i + 3] == last for i in range(len(ids) - 2)), 2)

    def test_the_same_options_give_the_same_tokens_in_any_budget_and_with_any_threads(self):
        flags = ("--temp", 0.9, "--top-k", 50, "--top-p", 0.95, "--min-p", 0.02, "--repetition-penalty", 1.1,
                 "--presence-penalty", 0.2, "--logit-bias", "17=2", "--seed", 7)
        first = self.generated(*flags)["ids"]
        self.assertEqual(self.generated(*flags, "--memory", "25%", "--threads", 1, "--prefill-chunk", 3)["ids"], first)
        self.assertNotEqual(self.generated(*flags, "--frequency-penalty", 1)["ids"], first)
