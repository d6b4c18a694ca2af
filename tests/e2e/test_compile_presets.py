"""moec compile --preset: several published systems' plans in one artifact, and the same tokens with each."""
import json

from support import DONE, POCKET, ROOT, E2eTest

PRESETS = ("auto", "load-on-demand", "lru", "edgemoe", "fate")
DEVICE = ROOT / "profiles/laptop-nvme.yaml"


class CompilePresetsTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.output = self.scratch / "out.moe"

    def plans(self, *flags):
        command = ("moec", "compile", POCKET, "--bits", "4", "--context", "128", *flags, "-o", self.output)
        self.said = self.expect(DONE, *command).err
        return json.loads(self.expect(DONE, "moec", "inspect", self.output, "--json").out)["plans"]

    def test_each_preset_has_a_plan_for_each_budget_with_reasons(self):
        plans = self.plans("--memory", "25%", "50%", "--preset", *PRESETS)
        names = [f"{budget} {preset}" for budget in ("50%", "25%") for preset in PRESETS]
        self.assertEqual([plan["name"] for plan in plans], names)
        for plan in plans:
            self.assertEqual(plan["name"].split()[1], plan["preset"])
            self.assertLessEqual({"eviction", "quotas", "prefetches"}, {reason["decision"] for reason in plan["reasons"]})
        keeps = {plan["preset"]: sum(plan["quota_pages"]) for plan in plans[:5]}
        self.assertEqual(keeps["load-on-demand"], 0)
        self.assertEqual(keeps["lru"], keeps["auto"])
        self.assertLess(keeps["fate"], keeps["lru"])  # Some pages are for prefetches.
        self.expect(DONE, "moec", "verify", self.output)

    def test_a_device_says_how_much_is_read_ahead(self):
        known = self.plans("--memory", "25%", "--preset", "fate", "--device", DEVICE)[0]
        self.assertTrue(any("970 EVO" in reason["reason"] for reason in known["reasons"]), known["reasons"])
        assumed = self.plans("--memory", "25%", "--preset", "fate")[0]
        self.assertEqual(assumed["prefetches"][0]["predictor"], "none")
        self.assertEqual({prefetch["predictor"] for prefetch in assumed["prefetches"][2:]}, {"gate"})
        self.assertIn("assumed", {reason["origin"] for reason in assumed["reasons"]})

    def test_a_preset_that_prefetches_by_calibration_says_what_to_give(self):
        plan = self.plans("--memory", "25%", "--preset", "edgemoe", "--device", DEVICE)[0]
        self.assertIn(", without prefetching: the routing is unknown (moec inspect lists the reasons)\n", self.said)
        self.assertEqual(plan["prefetches"], [])
        reason = next(reason for reason in plan["reasons"] if reason["decision"] == "prefetches")
        self.assertEqual((reason["value"], reason["origin"]), ("none", "derived"))
        self.assertRegex(reason["reason"], "no activation-path table.*compile with --calibration-text or --calibration, or replan with --calibration")

    def test_the_tokens_are_the_same_with_every_preset(self):
        command = ("-p", "The old man", "-n", "12", "--temp", "0", "--ignore-eos")
        texts = set()
        for preset in PRESETS:
            self.plans("--memory", "25%", "--preset", preset, "--device", DEVICE)
            texts.add(self.expect(DONE, "moert", "run", self.output, *command, "--memory", "25%").out)
        self.assertEqual(len(texts), 1, texts)

    def refuses(self, mention, *flags):
        self.refused("moec", "compile", POCKET, "--bits", "4", *flags, "-o", self.output, mention=mention)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_what_is_no_preset_is_refused_in_words(self):
        self.refuses("preset hobbit loses accuracy on misses.*moec replan", "--preset", "hobbit")
        self.refuses("preset swapmoe loses accuracy on misses.*moec replan", "--preset", "swapmoe")
        self.refuses("preset 'mru', expected auto, load-on-demand, lru, edgemoe, fate, hobbit, swapmoe or pruning", "--preset",
                     "mru")
        self.refuses("preset lru is given twice", "--preset", "lru", "lru")

    def test_a_device_that_cannot_be_read_is_refused_by_its_name(self):
        self.refuses("missing.yaml", "--device", "missing.yaml")
