"""Random valid configurations of every family: what moec accepts has the logits of the reference implementation.

Two stored cases of each family are compared everywhere. --full draws configurations/families.py's others too, where torch and transformers
are installed: each is equal, or refused by the name of a key that its family does not support.
"""
import importlib.util
import json
import os
import unittest

from configurations import stored
from configurations.families import SEEDS
from configurations.comparing import compare
from configurations.reading import FAMILIES
from support import DATA, E2eTest, slow

STORED = DATA / "configurations"


def lacks_reference():
    return not all(importlib.util.find_spec(name) for name in ("torch", "transformers", "numpy"))


class StoredTest(E2eTest):
    def test_every_family_has_its_cases(self):
        found = sorted(path.stem.rsplit("-", 1)[0] for path in STORED.glob("*.json"))
        self.assertEqual(found, sorted(list(FAMILIES) * stored.CASES))

    def test_logits_are_the_references(self):
        for path in sorted(STORED.glob("*.json")):
            with self.subTest(case=path.stem):
                case = json.loads(path.read_text())
                folder = self.scratch / path.stem
                stored.write_checkpoint(case, folder)
                self.assertEqual(compare(folder, case["ids"], stored.expected(case), self.scratch)[0], "equal")


@slow
@unittest.skipIf(lacks_reference(), "torch, transformers or numpy is not installed")
class RandomTest(E2eTest):
    def test_no_configuration_is_different(self):
        from configurations import reference
        reference.quiet()
        for name in os.environ.get("MOE_FAMILIES", ",".join(FAMILIES)).split(","):
            for seed in range(SEEDS):
                with self.subTest(family=name, seed=seed):
                    folder = self.scratch / f"{name}-{seed}"
                    case = stored.made(name, seed, folder)
                    outcome, detail = compare(folder, case["ids"], dict(enumerate(case["logits"])), self.scratch)
                    if case["refused"] and outcome == "refused":
                        self.assertRegex(detail, case["refused"])
                    else:
                        self.assertEqual(outcome, "equal", f"{detail}\n{case['twists']}")
